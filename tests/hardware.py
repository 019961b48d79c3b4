"""The tests of GPUs on the GPU of this machine, and times, as JSON. One command:

    python -m tests.hardware [--output results.json] [--gpus fake]

Tests run in as many processes as the machine has processors, up to 16, each of which compiles the kernels of its tests:
about four minutes at most. A test that breaks the GPU's context ends its process, and the others go on in a new one.
`--gpus fake` runs the same tests on the fake driver of the tests.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
FILES = """
    frontend/test_gpu_operators frontend/test_ndarray_goldens frontend/test_programs frontend/test_gpu_training
    frontend/test_gpu frontend/test_gpu_loops frontend/test_gpu_parts frontend/test_gpu_shapes
    frontend/test_hybrid_shapes frontend/test_checks runtime/test_launched_program codegen/test_triton_dynamic
    codegen/test_triton_layouts
""".split()
"""The files with tests that use the fixture `simulated_gpus`; their other tests do not run (`conftest.py`)."""

SIMULATED = ("tests/frontend/test_gpu.py::test_memory_is_freed",)
"""Tests that look into simulated GPUs."""

_PROCESSES = 16
_GRACE = 20  # seconds in which an interrupted pytest writes its report


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.hardware", description="Run the tests of GPUs on a GPU.")
    parser.add_argument("--output", default="hardware.json", help="the file for the results (default: %(default)s)")
    parser.add_argument("--gpus", choices=("hardware", "fake"), default="hardware", help="which GPUs (default: real)")
    parser.add_argument("--seconds", type=int, default=240, help="the time limit of the tests (default: %(default)s)")
    parser.add_argument("files", nargs="*", help="other files of tests, without .py, below tests/")
    options = parser.parse_args(arguments)
    machine = describe() if options.gpus == "hardware" else {"gpu": "fake"}
    if machine is None:
        return 2
    results = {"schema": "hardware/1", "machine": machine, "packages": versions()}
    results["tests"] = run_tests(options.gpus, options.files or FILES, options.seconds)
    results["times"] = times() if options.gpus == "hardware" else {}
    Path(options.output).write_text(json.dumps(results, indent=1) + "\n")
    tests = results["tests"]
    print(f"{tests['passed']} tests passed, {len(tests['failures'])} failed: {options.output}")
    return 0 if tests["complete"] and tests["passed"] and not tests["failures"] else 1


def describe() -> dict[str, Any] | None:
    """The GPU and its driver. None, and the reason on stderr, if there is no GPU."""
    from mxforge.runtime import devices
    from mxforge.runtime.cuda import driver

    if not devices.device_count("gpu"):
        print(devices.unavailable("gpu"), file=sys.stderr)
        return None
    cuda, device = driver.start(), devices.open_device("gpu", 0)
    name = driver.ok(cuda.cuDeviceGetName(100, driver.ok(cuda.cuDeviceGet(0)))).split(b"\0")[0].decode()
    return {
        "gpu": name,
        "target": str(device.target),
        "bytes": device.memory_info()[1],
        "cuda": int(driver.ok(cuda.cuDriverGetVersion())),
        "processors": os.cpu_count(),
        "python": platform.python_version(),
    }


def versions() -> dict[str, str]:
    found = {}
    for name in ("mxforge", "numpy", "triton", "cuda-bindings"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def run_tests(gpus: str, files: Sequence[str], seconds: int) -> dict[str, Any]:
    """The results of the tests that use GPUs."""
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "xdist", "--gpus", gpus, f"--junitxml={report}"]
        command += ["-n", str(min(os.cpu_count() or 1, _PROCESSES)), "--max-worker-restart=100", "--dist=worksteal"]
        command += [*(f"--deselect={test}" for test in SIMULATED), *(f"tests/{file}.py" for file in files)]
        output = finished(command, seconds)
        cases = list(ElementTree.parse(report).iter("testcase")) if report.exists() else []
    failures = [found for case in cases if (found := _failure(case)) is not None]
    skipped = sum(case.find("skipped") is not None for case in cases)
    results = {"passed": len(cases) - len(failures) - skipped, "skipped": skipped, "failures": failures}
    if not cases:
        results["failures"] = [{"test": "all", "message": output[-2000:] or f"no end after {seconds} s"}]
    took = time.perf_counter() - begin
    return {**results, "complete": took < seconds, "seconds": round(took, 1)}


def finished(command: Sequence[str], seconds: int) -> str:
    """The output of pytest, which is interrupted after this time: then it reports the tests that have run."""
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # warnings of other plugins would be errors
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True, env=environment
    ) as running:
        for limit, end in ((seconds, signal.SIGINT), (_GRACE, signal.SIGKILL)):
            try:
                return running.communicate(timeout=limit)[0]
            except subprocess.TimeoutExpired:
                send = os.kill if end == signal.SIGINT else os.killpg
                send(running.pid, end)
        return running.communicate()[0]


def _failure(case: ElementTree.Element) -> dict[str, str] | None:
    for kind in ("failure", "error"):
        found = case.find(kind)
        if found is not None:
            name = f"{case.get('classname')}.{case.get('name')}"
            return {"test": name, "message": (found.get("message") or "")[:1000]}
    return None


def times() -> dict[str, float | str]:
    """Microseconds of each measurement; the text of the error if it fails."""
    found: dict[str, float | str] = {}
    for measure in (eager_sum, hybridized_network, training_step, copy_of_256_mib):
        try:
            found[measure.__name__] = round(microseconds(measure()), 2)
        except Exception as error:  # whatever does not work on this GPU
            found[measure.__name__] = f"{type(error).__name__}: {error}"[:500]
    return found


def microseconds(call: Callable[[], object], seconds: float = 1.0) -> float:
    """The shortest mean time of a call in five series, with the wait for its work."""
    import mxforge as mx

    for _ in range(5):
        call()
    mx.nd.waitall()
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < seconds / 10:
        call()
        count += 1
    mx.nd.waitall()
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(count):
            call()
        mx.nd.waitall()
        best = min(best, time.perf_counter() - start)
    return 1e6 * best / count


def eager_sum() -> Callable[[], object]:
    import mxforge as mx

    a, b = (mx.nd.ones((128, 128), ctx=mx.gpu(0)) for _ in range(2))
    return lambda: a + b


def _network() -> Any:
    import mxforge as mx

    net = mx.gluon.nn.HybridSequential()
    net.add(*(mx.gluon.nn.Dense(128, activation="relu", in_units=128) for _ in range(6)))
    net.initialize(ctx=mx.gpu(0))
    net.hybridize(static_alloc=True, static_shape=True)
    return net


def hybridized_network() -> Callable[[], object]:
    """Six dense layers: one graph of launches."""
    import mxforge as mx

    net, x = _network(), mx.nd.ones((32, 128), ctx=mx.gpu(0))
    return lambda: net(x)


def training_step() -> Callable[[], object]:
    """Forward, backward and update of six dense layers."""
    import mxforge as mx

    net, x = _network(), mx.nd.ones((32, 128), ctx=mx.gpu(0))
    trainer = mx.gluon.Trainer(net.collect_params(), "adam")

    def step() -> None:
        with mx.autograd.record():
            loss = net(x).sum()
        loss.backward()
        trainer.step(32)

    return step


def copy_of_256_mib() -> Callable[[], object]:
    """Within the GPU's memory."""
    import mxforge as mx

    source, target = (mx.nd.zeros((1 << 26,), ctx=mx.gpu(0)) for _ in range(2))
    return lambda: source.copyto(target)


if __name__ == "__main__":
    sys.exit(main())
