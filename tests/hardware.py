"""The tests of GPUs on the GPU of this machine, and a table of times against PyTorch, as JSON. One command:

    python -m tests.hardware [--output results.json] [--rows PATTERN,...] [--gpus fake]

Tests run in as many processes as the machine has processors, up to 16, each of which compiles the kernels of its tests:
about four minutes at most. A test that breaks the GPU's context ends its process, and the others go on in a new one.
Then the rows of the table (`gpu_rows/rows.py`) are measured one after another, mxforge and PyTorch in processes of
their own, which rows of one kind share; what fails is recorded as text, and the file is written anew after each kind.
`--gpus fake` does the same on the fake driver of the tests, with tiny sizes, where times mean nothing.
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
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from mxforge.frontend.artifacts import write_atomically

from .gpu_rows import table
from .gpu_rows.memcheck import memcheck
from .gpu_rows.rows import Row, selected

ROOT = Path(__file__).resolve().parents[1]
SIMULATED = (
    "tests/frontend/test_gpu.py::test_memory_is_freed",
    "tests/frontend/test_fast_paths.py",
    "tests/frontend/test_gpu_random_programs.py",
    "tests/runtime/test_streams.py",
)
"""Tests that look into simulated GPUs."""

FIXTURE = "simulated_gpus"
"""Tests that use it run on the GPU (`conftest.py`)."""

_VARIANTS = "eager,graph,compile"
_PROCESSES = 16
_GRACE = 20  # seconds in which an interrupted pytest writes its report


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    end = time.monotonic() + options.seconds
    machine = describe() if options.gpus == "hardware" else {"gpu": "fake"}
    if machine is None:
        return 2
    results: dict[str, Any] = {"schema": "hardware/2", "machine": machine, "packages": versions(options.torch)}

    def keep(**parts: Any) -> None:
        results.update(parts)
        write_atomically(Path(options.output), f"{json.dumps(results, indent=1)}\n".encode())

    keep()
    if options.tests:
        limit = min(options.test_seconds, options.seconds)
        keep(tests=run_tests(options.gpus, options.files or files_with_gpus(), limit))
        print(f"{results['tests']['passed']} tests passed, {len(results['tests']['failures'])} failed", flush=True)
    conditions = table.Conditions(
        options.gpus, options.torch, options.peers, options.row_seconds, 0 if options.gpus == "fake" else 1, end
    )
    if options.prepare and options.rows:
        keep(prepared=table.prepare(options.rows, conditions, options.prepare))
    for name, row in table.measured(options.rows, conditions):
        keep(rows={**results.get("rows", {}), name: row})
    if options.memcheck and options.gpus == "hardware":
        keep(memcheck=memcheck(max(1, min(options.row_seconds, end - time.monotonic()))))
    print(f"results: {options.output}")
    return _status(results)


def _status(results: dict[str, Any]) -> int:
    """1 if tests failed or did not run, or mxforge failed in a row."""
    tests = results.get("tests")
    if tests is not None and not (tests["complete"] and tests["passed"] and not tests["failures"]):
        return 1
    return int(any("us" not in row.get("mxforge", {}) for row in results.get("rows", {}).values()))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.hardware", description="Check and measure a GPU.")
    parser.add_argument("--output", default="hardware.json", help="the file for the results (default: %(default)s)")
    parser.add_argument("--gpus", choices=("hardware", "fake"), default="hardware", help="which GPUs (default: real)")
    parser.add_argument("--seconds", type=int, default=1500, help="the time limit of everything (default: %(default)s)")
    parser.add_argument("--test-seconds", type=int, default=240, help="that of the tests (default: %(default)s)")
    parser.add_argument(
        "--row-seconds", type=int, default=120, help="that of a process of a row (default: %(default)s)"
    )
    parser.add_argument("--no-tests", dest="tests", action="store_false", help="only the rows")
    parser.add_argument("--no-memcheck", dest="memcheck", action="store_false", help="without compute-sanitizer")
    text = "patterns of names of rows, separated by commas; all or none (default: all)"
    parser.add_argument("--rows", type=_rows, default="all", help=text)
    text = f"variants of PyTorch, separated by commas, or none (default: {_VARIANTS}); max-autotune is another one"
    parser.add_argument("--peers", type=_peers, default=_VARIANTS, help=text)
    parser.add_argument("--torch", default=sys.executable, metavar="PYTHON", help="the interpreter that has PyTorch")
    text = "compile for the rows beforehand in N processes, so that later ones find it in the caches (default: none)"
    parser.add_argument("--prepare", type=int, default=0, metavar="N", help=text)
    parser.add_argument("files", nargs="*", help="other files of tests, without .py, below tests/")
    return parser.parse_args(arguments)


def _rows(text: str) -> list[Row]:
    try:
        return selected(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _peers(text: str) -> list[str]:
    names = [] if text == "none" else text.split(",")
    for name in names:
        if name not in (*_VARIANTS.split(","), "max-autotune"):
            raise argparse.ArgumentTypeError(f"{name!r} is not a variant of PyTorch")
    return names


def files_with_gpus() -> list[str]:
    """The files with tests that use GPUs, without .py, below tests/."""
    folder = ROOT / "tests"
    files = [file for file in sorted(folder.rglob("test_*.py")) if FIXTURE in file.read_text(encoding="utf-8")]
    files = [file for file in files if str(file.relative_to(ROOT)) not in SIMULATED]
    return [str(file.relative_to(folder).with_suffix("")) for file in files]


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


def versions(torch: str) -> dict[str, str]:
    """The versions of packages, and of PyTorch in its interpreter."""
    found = {}
    for name in ("mxforge", "numpy", "triton", "cuda-bindings"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    program = "from importlib.metadata import version; print(version('torch'))"
    done = subprocess.run([torch, "-c", program], capture_output=True, text=True, check=False)
    return {**found, "torch": done.stdout.strip() or "none"}


def run_tests(gpus: str, files: Sequence[str], seconds: int) -> dict[str, Any]:
    """The results of the tests that use GPUs."""
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "xdist", "--gpus", gpus, f"--junitxml={report}"]
        command += ["-n", str(min(os.cpu_count() or 1, _PROCESSES)), "--max-worker-restart=100", "--dist=worksteal"]
        command += [
            *(f"--deselect={test}" for test in SIMULATED if "::" in test),
            *(f"tests/{file}.py" for file in files),
        ]
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


if __name__ == "__main__":
    sys.exit(main())
