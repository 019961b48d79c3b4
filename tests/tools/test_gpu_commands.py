"""Commands with `--ctx gpu`, on the fake CUDA driver."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.frontend.base import MXNetError
from mxforge.frontend.compiled import CompiledShapes
from mxforge.frontend.symbol.function import SymbolFunction
from mxforge.ir.caches import clear_caches
from mxforge.ir.types import DType, TensorType
from mxforge.runtime.compiled_folder import MANIFEST, CompiledFolderError, sealed
from mxforge.runtime.devices import known_targets, open_device
from mxforge.runtime.launched_program import LaunchedProgram
from mxforge.runtime.timed_launches import TimedLaunches
from mxforge.tools.bench import training_mxnet
from mxforge.tools.bench.engines import ENGINES
from mxforge.tools.grammar import GPUS
from mxforge.tools.profile import gpu

MLP = (1, 8), (16, 8), (16,), (4, 16), (4,)
SHAPE = ("--input-shape", "data=2,8")


@pytest.fixture
def dense(tmp_path: Path) -> Path:
    """The prefix of the files of two dense layers on (N, 8)."""
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(16, activation="relu"), mx.gluon.nn.Dense(4))
    net.initialize()
    net.hybridize()
    net(mx.nd.ones((2, 8)))
    net.export(str(tmp_path / "dense"))
    return tmp_path / "dense"


def test_a_model_runs_on_a_gpu_as_on_the_cpu(mxforge: Any, fake_cuda: Any, convnet: Path, tmp_path: Path) -> None:
    x = tmp_path / "x.npy"
    np.save(x, np.random.default_rng(0).standard_normal((2, 3, 32, 32), np.float32))
    for name, context in (("cpu", "cpu"), ("gpu", "gpu"), ("one", "gpu(1)")):
        done = mxforge("run", convnet, "--input", x, "--ctx", context, "--output", tmp_path / f"{name}.npy")
        assert done.status == 0, done.err
    assert "(gpu(1), sm_90, 4 multiprocessors)" in done.out
    expected, *others = (np.load(tmp_path / f"{name}.npy") for name in ("cpu", "gpu", "one"))
    for found in others:
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_a_program_for_a_gpu_is_inspected(mxforge: Any, fake_cuda: Any, dense: Path) -> None:
    done = mxforge("inspect", dense, *SHAPE, "--ctx", "gpu(0)", "--json")
    assert done.status == 0, done.err
    report = json.loads(done.out)
    assert report["target"] == {"gpu": "sm_90", "multiprocessors": 4, "shared_bytes": 227 << 10}
    assert report["launches"] and report["layers"]
    assert "for sm_90, 4 multiprocessors" in mxforge("inspect", dense, *SHAPE, "--ctx", "gpu(0)").out


@pytest.fixture
def small_peaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the fake GPU measure its peaks on small arrays."""
    monkeypatch.setattr(gpu, "ROWS", 32)
    monkeypatch.setattr(gpu, "BYTES", 1 << 12)
    monkeypatch.setattr(gpu, "_SECONDS", 0.0)


def test_a_program_on_a_gpu_is_profiled(
    mxforge: Any, fake_cuda: Any, small_peaks: None, dense: Path, tmp_path: Path
) -> None:
    trace = tmp_path / "trace.json"
    done = mxforge("profile", dense, *SHAPE, "--ctx", "gpu(0)", "--repeat", "1", "--trace", trace, "--json")
    assert done.status == 0, done.err
    report = json.loads(done.out)
    assert report["machine"]["gpu"] == "sm_90"
    assert report["peaks"]["measured"].startswith("a product of 32 x 32 float32")
    assert all(row["seconds"] == pytest.approx(1e-6) for row in report["launches"])
    assert sum(row["flop"] or 0 for row in report["launches"]) > 0
    assert all(row["roof_share"] is not None for row in report["launches"] if row["flop"])
    events = json.loads(trace.read_text())["traceEvents"]
    assert {"program", "stream 0"} == {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    launched = [event for event in events if event["ph"] == "X" and event["tid"] == 1]
    assert len(launched) == len(report["launches"])


def test_the_profile_of_a_gpu_as_text(mxforge: Any, fake_cuda: Any, small_peaks: None, dense: Path) -> None:
    done = mxforge("profile", dense, *SHAPE, "--ctx", "gpu", "--repeat", "1")
    assert done.status == 0, done.err
    assert "sm_90, 4 multiprocessors" in done.out and "GB/s (a product of 32 x 32 float32, and a copy of" in done.out
    mx.nd.waitall()
    live = fake_cuda.live()
    done = mxforge("inspect", dense, *SHAPE, "--ctx", "gpu", "--profile")
    assert done.status == 0 and "ms, launches one by one" in done.out
    mx.nd.waitall()
    assert fake_cuda.live()["event"] <= live["event"] + 2  # events that are kept for later


def test_times_of_a_program_with_a_loop(fake_cuda: Any) -> None:
    """Steps that the host takes are timed as a whole."""
    data, state = mx.sym.Variable("data"), mx.sym.Variable("state")
    outputs, _ = mx.sym.contrib.foreach(lambda x, s: (x + s[0], [x + s[0]]), data, [state])
    function = SymbolFunction(outputs)
    device = open_device("gpu", 0)
    types = (TensorType((40, 8), DType.F32), TensorType((8,), DType.F32))
    types = types if function.names == ["data", "state"] else types[::-1]
    executable = function.specialise(types, False, device).executable
    assert isinstance(executable, LaunchedProgram)
    buffers = [device.allocate_zeroed(t.nbytes) for t in (*executable.inputs, *executable.outputs)]
    addresses = [buffer.address for buffer in buffers]
    timed = TimedLaunches(executable, addresses[:2], addresses[2:])
    spans = timed.timed()
    assert len(spans.begin) == len(executable.program.computations) > 0
    assert (spans.end > spans.begin).all() and spans.total >= spans.end.max() and timed.repeated(2) > 0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["run", "--ctx", "gpus"], "'gpus' is not a context such as cpu, gpu or gpu(0)"),
        (["run", "--ctx", "gpu", "--threads", "2"], "--threads is for programs on the CPU: omit it with --ctx gpu"),
        (["compile", "-o", "x", "--ctx", "gpu", "--target", "cuda-sm90"], "both name a GPU: omit one"),
        (["compile", "-o", "x", "--target", "cuda-sm90", "--threads", "2"], "omit it with --target cuda-sm90"),
        (["profile", "--ctx", "gpu", "--simulate-threads", "2"], "--simulate-threads is for programs on the CPU"),
        (["inspect", "--ctx", "gpu", "--target", "mlir"], "--target is for programs on the CPU"),
    ],
)
def test_options_for_cpus_are_refused(
    mxforge: Any, fake_cuda: Any, dense: Path, arguments: list[str], text: str
) -> None:
    done = mxforge(arguments[0], dense, *SHAPE, *arguments[1:])
    assert done.status == 2 and text in done.err and done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            ["--suite", "mlp", "--ctx", "gpu", "--against", "numpy"],
            "numpy runs on the CPU; peers on a GPU are mxnet,",
        ),
        (["--suite", "mlp", "--against", "torch-graph"], "torch-graph is a peer on GPUs: pass --ctx gpu"),
        (["--suite", "loader", "--ctx", "gpu"], "--suite loader measures the CPU: omit --ctx"),
        (["--suite", "calls", "--ctx", "gpu"], "--suite calls measures the CPU: omit --ctx"),
    ],
)
def test_what_bench_does_not_measure_on_a_gpu(mxforge: Any, fake_cuda: Any, arguments: list[str], text: str) -> None:
    done = mxforge("bench", *arguments)
    assert done.status == 2 and text in done.err


def test_benchmarks_run_on_a_gpu(fake_cuda: Any, dense: Path) -> None:
    """In this process: the process of a worker has no fake driver."""
    arrays = [np.random.default_rng(i).standard_normal(s).astype(np.float32) for i, s in enumerate(MLP)]
    specs = [{"suite": "mlp"}, {"symbol": f"{dense}-symbol.json", "params": f"{dense}-0000.params", "inputs": ["data"]}]
    for spec, inputs in zip(specs, (arrays, arrays[:1]), strict=True):
        results = []
        for context in ("cpu", "gpu(0)"):
            program = ENGINES["mxforge"](1, context).load(spec, inputs)
            program.run(2)
            assert str(program.result.context).startswith(context[:3])
            results.append(program.outputs()[0])
        np.testing.assert_allclose(*results, rtol=1e-4, atol=1e-5)


def test_steps_of_training_run_on_a_gpu(fake_cuda: Any) -> None:
    shapes = (8, 8), (8,), (8, 8), (8,)
    arrays = [np.random.default_rng(i).standard_normal(s).astype(np.float32) for i, s in enumerate(shapes)]
    spec = {"training": "", "update": ("sgd", {"learning_rate": 0.1, "momentum": 0.9})}
    outputs = []
    for context in ("cpu", "gpu"):
        program = training_mxnet.load(ENGINES["mxforge"](1, context), spec, [*arrays[:2], *arrays[2:]])
        program.run(1)
        outputs.append(program.outputs())
    for expected, found in zip(*outputs, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_a_folder_for_a_gpu_runs_without_triton(
    mxforge: Any, fake_cuda: Any, dense: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, x = tmp_path / "folder", np.random.default_rng(0).standard_normal((2, 8)).astype(np.float32)
    done = mxforge("compile", dense, "-o", folder, *SHAPE, "--target", "cuda-sm90", "--json")
    assert done.status == 0, done.err
    assert json.loads(done.out)["target"] == {"gpu": "sm_90", "multiprocessors": 132, "shared_bytes": 227 << 10}
    (expected,) = run_dense(dense, x)
    clear_caches()
    for name in [name for name in sys.modules if name.partition(".")[0] == "triton"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "triton", None)  # its import fails
    model = mx.load_compiled(folder)
    np.testing.assert_allclose(model(x)[0], expected, rtol=1e-4, atol=1e-5)
    (result,) = mx.load_compiled(folder, mx.gpu(1))(mx.nd.array(x))
    assert result.context == mx.gpu(1)
    np.testing.assert_allclose(result.asnumpy(), expected, rtol=1e-4, atol=1e-5)
    np.save(tmp_path / "x.npy", x)
    done = mxforge("run", folder, "--input", tmp_path / "x.npy", "--ctx", "gpu", "--output", tmp_path / "y.npy")
    assert done.status == 0, done.err
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected, rtol=1e-4, atol=1e-5)
    assert "compiled for GPUs (sm_90): it does not run on the CPU" in mxforge("run", folder).err
    assert mxforge("inspect", folder, "--ctx", "gpu").status == 0


def run_dense(dense: Path, x: np.ndarray[Any, Any]) -> list[Any]:
    net = mx.gluon.SymbolBlock.imports(f"{dense}-symbol.json", ["data"], f"{dense}-0000.params")
    return [net(mx.nd.array(x)).asnumpy()]


def test_a_folder_for_another_gpu_is_refused(mxforge: Any, fake_cuda: Any, dense: Path, tmp_path: Path) -> None:
    for target, name in (("cuda-sm80", "ampere"), ("x86-64-v3", "cpu")):
        done = mxforge("compile", dense, "-o", tmp_path / name, *SHAPE, "--target", target)
        assert done.status == 0, done.err
    with pytest.raises(CompiledFolderError, match=r"for sm_80, but gpu\(0\) is sm_90: compile it with --target"):
        mx.load_compiled(tmp_path / "ampere")
    done = mxforge("run", tmp_path / "cpu", "--ctx", "gpu")
    assert done.status == 1 and "compiled for a CPU, not for gpu(0): compile it with --ctx gpu" in done.err


def test_a_folder_is_compiled_for_the_gpu_of_this_machine(
    mxforge: Any, fake_cuda: Any, dense: Path, tmp_path: Path
) -> None:
    done = mxforge("compile", dense, "-o", tmp_path / "own", *SHAPE, "--ctx", "gpu", "--json")
    assert done.status == 0 and json.loads(done.out)["target"]["multiprocessors"] == 4
    x = np.random.default_rng(0).standard_normal((2, 8)).astype(np.float32)
    np.testing.assert_allclose(mx.load_compiled(tmp_path / "own")(x)[0], run_dense(dense, x)[0], rtol=1e-4, atol=1e-5)
    damaged = json.loads((tmp_path / "own" / MANIFEST).read_text())
    for bound in ([[0, 0]], [[1, 1 << 40]], [[1, -1]], "none"):
        (tmp_path / "own" / MANIFEST).write_text(json.dumps(sealed({**damaged, "bound": bound})))
        with pytest.raises(CompiledFolderError):
            mx.load_compiled(tmp_path / "own")


def test_a_folder_of_several_shapes_for_a_gpu(mxforge: Any, fake_cuda: Any, dense: Path, tmp_path: Path) -> None:
    """Parameters are copied to the GPU once for all shapes."""
    folder = tmp_path / "folder"
    shapes = ("--variant", "one", "data=1,8", "--variant", "more", "data=2..3..5,8")
    done = mxforge("compile", dense, "-o", folder, *shapes, "--target", "cuda-sm90")
    assert done.status == 0, done.err
    model = mx.load_compiled(folder)
    assert isinstance(model, CompiledShapes) and len(model.shapes) == 5
    for rows in range(1, 6):
        x = np.random.default_rng(rows).standard_normal((rows, 8)).astype(np.float32)
        np.testing.assert_allclose(model(x)[0], run_dense(dense, x)[0], rtol=1e-4, atol=1e-5)
    addresses = [model.at((rows, 8))._addresses for rows in range(1, 6)]
    assert all(own == addresses[0] for own in addresses)
    with pytest.raises(MXNetError, match="no variant takes"):
        model(np.zeros((6, 8), np.float32))
    assert "compiled for GPUs (sm_90): it does not run on the CPU" in mxforge("run", folder).err


def test_names_of_targets_are_those_of_the_compiler(fake_cuda: Any) -> None:
    assert tuple(known_targets("gpu")) == GPUS


def test_a_gpu_that_does_not_exist(mxforge: Any, fake_cuda: Any, dense: Path) -> None:
    done = mxforge("run", dense, *SHAPE, "--ctx", "gpu(2)")
    assert done.status == 1 and "gpu(2) cannot be used: num_gpus() is 2" in done.err


def test_compiled_models_take_arrays_of_both_devices(fake_cuda: Any, dense: Path) -> None:
    from mxforge.tools.model_files import find_model
    from mxforge.tools.models import bind, data_types, load_model

    loaded = load_model(find_model(str(dense), None, None))
    types = data_types(loaded, {"data": ((2, 8), None)})
    model = bind(loaded, types, mx.gpu(0))
    x = np.random.default_rng(0).standard_normal((2, 8)).astype(np.float32)
    (expected,) = bind(loaded, types)(x)
    for context in (mx.gpu(0), mx.gpu(1), mx.cpu()):
        (result,) = model(mx.nd.array(x, ctx=context))
        assert result.context == mx.gpu(0)
        np.testing.assert_allclose(result.asnumpy(), expected, rtol=1e-4, atol=1e-5)
    (values,) = model(data=x)
    assert isinstance(values, np.ndarray)
    np.testing.assert_allclose(values, expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(mx.base.MXNetError, match="has shape"):
        model(x[:1])
