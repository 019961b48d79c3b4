"""`mxforge bench` with mxforge as its own peer: measurement, agreement, reports, and peers that fail."""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.tools.bench import (
    augmenters,
    augmenters_mxnet,
    data_programs,
    data_suites,
    feeding,
    process,
    training_mxnet,
    training_torch,
)
from mxforge.tools.bench.engines import ARGUMENTS, ENGINES, Numpy, TrainingProgram
from mxforge.tools.bench.grammar import (
    AUGMENTERS,
    OPERATORS,
    ORDERS,
    PEERS,
    PRODUCTS,
    READERS,
    SEQUENCES,
    STEPS,
    SUITES,
)
from mxforge.tools.bench.photos import write_photos
from mxforge.tools.bench.process import Worker, WorkerError
from mxforge.tools.bench.report import time_text
from mxforge.tools.bench.shape_runs import run_seconds
from mxforge.tools.bench.shapes import WORKLOADS, measure_workload
from mxforge.tools.bench.suites import suite
from mxforge.tools.bench.training import INFERENCES, TRAININGS, Update
from mxforge.tools.bench.training_shapes import NEW_SHAPES, measure_training
from mxforge.tools.differences import difference
from mxforge.tools.errors import ToolError

QUICK = ("--repeat", "2", "--threads", "1")


def test_a_compiled_model_against_itself(mxforge: Any, compiled: Path, tmp_path: Path) -> None:
    report, table = tmp_path / "report.json", tmp_path / "report.md"
    done = mxforge("bench", compiled, "--against", "mxforge", *QUICK, "--json", report, "--markdown", table)
    assert done.status == 0, done.err
    figures = json.loads(report.read_text())
    ours, peer = figures["programs"]
    assert ours["difference"] is None and peer["difference"] == 0
    assert len(ours["samples"]) >= 2 * 3
    assert 0 < ours["min"] <= ours["p50"] <= ours["p90"] <= ours["p99"] <= max(ours["samples"])
    assert ours["per_second"] == pytest.approx(2 * len(ours["samples"]) / sum(ours["samples"]))
    assert figures["batch"] == 2 and figures["failures"] == []
    assert peer["min_ratio"] == peer["min"] / ours["min"]
    assert min(ours["peak"], ours["cold_peak"], ours["cold"], ours["warm"]) > 0
    assert table.read_text().count("| mxforge ") == 2 * 2
    assert "% of the time of mxforge" in done.out


def test_a_compiled_model_runs_on_its_own_threads(mxforge: Any, convnet: Path, tmp_path: Path) -> None:
    folder, report = tmp_path / "single", tmp_path / "report.json"
    made = mxforge("compile", convnet, "-o", folder, "--input-shape", "data=2,3,32,32", "--threads", "1")
    assert made.status == 0, made.err
    done = mxforge("bench", folder, *QUICK, "--repeat", "1", "--threads", "2", "--json", report)
    assert done.status == 0, done.err
    assert json.loads(report.read_text())["threads"] == 1
    assert "single runs on at most 1 threads" in done.err


def test_disagreement_is_a_failure(mxforge: Any, compiled: Path) -> None:
    done = mxforge("bench", compiled, "--against", "mxforge", *QUICK, "--repeat", "1", "--tolerance", "-1")
    assert done.status == 1
    assert "results differ by" in done.err


def test_a_micro_workload_against_numpy(mxforge: Any) -> None:
    done = mxforge("bench", "--suite", "eager", "--against", "numpy", *QUICK, "--repeat", "1")
    assert done.status == 0, done.err
    assert "numpy" in done.out


def test_first_calls_and_new_shapes_are_listed(mxforge: Any) -> None:
    done = mxforge("bench", "--suite", "calls", "--threads", "1")
    assert done.status == 0, done.err
    assert "FullyConnected" in done.out
    assert "import mxforge" in done.out


def test_new_shapes_of_a_network_are_measured() -> None:
    found = measure_workload(mx, WORKLOADS["three dense layers"])
    assert len(found.first) == len(found.ratios) == 5
    assert found.compiled[2:] == [0, 0, 0]


@pytest.mark.parametrize("name", ["two dense layers", "Module, batch size", "eager chain"])
def test_new_shapes_of_steps_are_measured(name: str) -> None:
    found = measure_training(mx, NEW_SHAPES[name], samples=1)
    assert len(found.first) == len(found.beyond) == len(found.ratios) == 5
    assert found.compiled[2:] == [0, 0, 0]


def test_a_whole_run_of_new_shapes_is_measured() -> None:
    assert all(seconds > 0 for seconds in run_seconds(mx, "40 Module steps of random batch size"))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["MODEL", "--against", "onnxruntime"], "requires --onnx FILE"),
        (["MODEL", "--against", "torch"], "requires --torch FILE"),
        (["MODEL", "--against", "mxnet"], "instead of a compiled folder"),
        (["MODEL", "--against", "numpy"], "numpy cannot run models"),
        (["MODEL", "--batch", "3"], "fixed"),
        (["MODEL", "--batch", "0"], "'0' is not a positive whole number"),
        (["MODEL", "--threads", "1,x"], "'x' is not a positive whole number"),
        (["MODEL", "--against", "mxnett"], "Did you mean 'mxnet'?"),
        (["MODEL", "--python", "touch=x"], "Did you mean 'torch'?"),
        (["--suite", "softmx"], "Did you mean 'softmax'?"),
        (["--suite", "eager", "--batch", "2"], "omit --batch"),
        (["--suite", "calls", "--plot", "x.png"], "omit --plot"),
        (["--suite", "calls", "--threads", "1,2"], "one number of --threads"),
        (["--suite", "operators", "--plot", "x.png"], "pass --against"),
        (["MODEL", "--plot", "x.gif"], "a plot is a .png"),
        (["--json", "MODEL"], "put --json last"),
        (["--suite", "eager", "--against", "onnxruntime"], "onnxruntime cannot run this --suite"),
        (["--suite", "train-mlp", "--against", "numpy"], "numpy cannot run this --suite"),
    ],
)
def test_a_peer_that_cannot_run_the_model(mxforge: Any, compiled: Path, arguments: list[str], text: str) -> None:
    done = mxforge("bench", *[compiled if a == "MODEL" else a for a in arguments])
    assert done.status == 2
    assert text in done.err and done.err.count("\n") == 1


def fake_python(folder: Path, script: str) -> str:
    """A script that replaces a peer's interpreter."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("echo broken >&2; exit 3", r"torch: the process ended \(status 3\): broken"),
        ("kill -9 $$", r"torch: the process ended \(signal SIGKILL\)"),
        ('read line; echo \'{"error": "ModuleNotFoundError: no torch"}\'', "--python torch=PATH"),
        ("read line; echo hello; read line", "is not a Python interpreter: it answered 'hello'"),
    ],
)
def test_a_peer_that_fails(tmp_path: Path, script: str, text: str) -> None:
    with pytest.raises(WorkerError, match=text):
        Worker("torch", fake_python(tmp_path, script), 1)


def test_a_missing_interpreter(mxforge: Any, tmp_path: Path) -> None:
    python = f"torch={tmp_path}/absent"
    done = mxforge("bench", "--suite", "eager", "--against", "torch", "--python", python, "--repeat", "1")
    assert done.status == 1
    assert "torch: cannot run" in done.err and done.err.count("\n") == 1


def test_a_worker_is_idle_between_requests() -> None:
    with Worker("numpy", sys.executable, 1) as worker:
        pid = worker._process.pid
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        assert state == "T"
        assert worker.ask("memory")["peak"] > 0
        with pytest.raises(WorkerError, match="unknown request"):
            worker.ask("frobnicate")
    assert worker._process.returncode == -signal.SIGKILL


def test_peers_choose_their_own_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    found = process._environment("numpy", "python3", 3)
    assert "OPENBLAS_CORETYPE" not in found
    assert found["OPENBLAS_NUM_THREADS"] == "3"
    assert process._environment("mxnet", "python3", 3)["OPENBLAS_CORETYPE"] == "Haswell"


def test_another_mxforge_finds_its_own_packages() -> None:
    assert "PYTHONPATH" in process._environment("mxforge", sys.executable, 1)
    assert "PYTHONPATH" not in process._environment("mxforge", "/other/python", 1)


def test_difference() -> None:
    a = np.array([1.0, -4.0, np.inf, np.nan])
    assert difference([a], [a.copy()], "peer") == 0
    b = a.copy()
    b[0] = 1.25
    assert difference([b], [a], "peer") == pytest.approx(0.25 / 4)
    b[2] = 5
    assert difference([b], [a], "peer") == float("inf")
    assert difference([np.zeros(0)], [np.zeros(0)], "peer") == 0
    with pytest.raises(ToolError, match="peer"):
        difference([a], [a[:2]], "peer")


def test_workloads_are_complete() -> None:
    assert set(PEERS) == set(ENGINES)
    assert {*SUITES, *OPERATORS, *PRODUCTS, *ORDERS} == set(ARGUMENTS)
    for name in ARGUMENTS:
        assert hasattr(Numpy, name) if name in SUITES else name in Numpy().operators()
        _, arrays = suite(name)
        assert len(arrays) >= ARGUMENTS[name]


def test_steps_of_training(mxforge: Any, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    done = mxforge("bench", "--suite", "train-mlp", "--against", "mxforge", *QUICK, "--repeat", "1", "--json", report)
    assert done.status == 0, done.err
    figures = json.loads(report.read_text())
    assert figures["programs"][1]["difference"] == 0
    assert figures["shapes"] == {"x": [64, 784], "y": [64]}


def test_suites_of_augmenters_are_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tuple(augmenters.AUGMENTERS) == AUGMENTERS
    monkeypatch.setattr(augmenters, "_COUNT", 3)
    engine = ENGINES["mxforge"](1)
    for name, found in augmenters.AUGMENTERS.items():
        program = augmenters_mxnet.load(engine, found.spec(), list(found.arrays().values()))
        program.run(1)
        one = program.outputs()
        program.run(1)
        assert all((a == b).all() for a, b in zip(one, program.outputs(), strict=True)), name
        assert len(one) == (2 if "iter" in name else 3)


def test_training_suites_are_complete() -> None:
    assert list(STEPS) == list(TRAININGS)
    assert list(SEQUENCES) == list(INFERENCES)
    networks = {name for name, found in TRAININGS.items() if not isinstance(found, Update)}
    networks |= {found.network for found in INFERENCES.values()}
    assert networks == set(training_mxnet.NETWORKS) == set(training_torch.Networks(SimpleNamespace(nn=None)).NETWORKS)


def test_a_network_on_sequences() -> None:
    found = INFERENCES["gru-1"]
    arrays = {name: array[:3] if name == "x" else array for name, array in found.arrays().items()}
    program = training_mxnet.load(ENGINES["mxforge"](1), found.spec(), list(arrays.values()))
    program.run(2)
    (output,) = program.outputs()
    assert output.shape == (3, 1, 650) and 0 < np.abs(output).max() < 1


def test_results_of_training_are_losses_and_changes_of_weights() -> None:
    weight, bias = np.ones((2, 3)), np.zeros(3)
    losses = iter(range(10))

    def step() -> float:
        weight[:] += 1
        return next(losses)

    program = TrainingProgram(step, [bias, weight], lambda found: None, lambda array: array)
    program.run(1)
    found, *changes = program.outputs()
    assert found.tolist() == [0, 1, 2, 3, 4]
    assert [c.tolist() for c in changes] == [[[5.0] * 3] * 2] * 3


def test_an_epoch_of_a_loader(tmp_path: Path) -> None:
    write_photos(tmp_path, 12)
    engine = ENGINES["mxforge"](1)
    program = feeding.load(engine, {"folder": str(tmp_path)}, [])
    program.run(2)
    images, labels = program.outputs()
    assert images.shape == (12, 3, 224, 224) and sorted(labels) == [0, 0, 1, 1, *range(2, 10)]
    expected = engine.mx.image.imread(str(tmp_path / "class3" / "0003.jpg")).asnumpy()[16:240, 16:240]
    mean, std = np.array(feeding.MEAN), np.array(feeding.STD)
    np.testing.assert_allclose(images[5].transpose(1, 2, 0), (expected / 255 - mean) / std, rtol=1e-4, atol=1e-5)


def test_an_update_suite_updates_with_momentum() -> None:
    found = TRAININGS["train-sgd-small"]
    arrays = found.arrays("train-sgd-small")
    weights, gradients = list(arrays.values())[:160], list(arrays.values())[160:]
    spec = found.spec("train-sgd-small")
    program = training_mxnet.load(ENGINES["mxforge"](1), spec, [*weights[:2], *gradients[:2]])
    program.run(1)
    moved = sum((5 - i) * 0.9**i for i in range(5))  # of the learning rate times the gradient
    np.testing.assert_allclose(program.outputs()[0], -0.01 * moved * gradients[0], rtol=1e-3)


def test_times_are_formatted() -> None:
    assert [time_text(t) for t in (1.234e-6, 9.999e-4, 0.0123, 2.5)] == ["1.23 us", "1 ms", "12.3 ms", "2.5 s"]


@pytest.mark.parametrize("name", READERS)
def test_the_suites_of_readers(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for constant, value in (("IMAGES", 50), ("DIFFERENT", 2), ("RECORDS", 60)):
        monkeypatch.setattr(data_suites, constant, value)
    monkeypatch.setattr(data_suites, "_folder", lambda: tmp_path)
    words, path = data_suites.data_suite(name)
    assert "records" in words or "images" in words
    program = data_programs.load(SimpleNamespace(mx=mx), {"data": name, "path": path, "threads": 1}, [])
    program.run(2)
    first = program.outputs()[0]
    assert first.shape == (50, 3, 224, 224) if name == "read-images" else first.tolist() == [sum(range(60, 120))]
