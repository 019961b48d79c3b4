"""Reports of `mxforge bench` on workers that answer without measuring: batches, threads, failures, files and plots."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mxforge.tools.bench import measure as measuring
from mxforge.tools.bench import model_workloads
from mxforge.tools.bench.measure import Failure, Figures, Outcome, Participant, measure
from mxforge.tools.bench.plot import draw
from mxforge.tools.bench.process import WorkerError
from mxforge.tools.bench.report import Conditions, Measured, as_text, rate_text, report, summary_as_text
from mxforge.tools.progress import Progress
from mxforge.tools.schemas.bench import Measurement

SECONDS = {"mxforge": 1e-3, "mxnet": 2e-3, "onnxruntime": 4e-3, "numpy": 1e-6}


class StubWorker:
    """Answers as a worker. The peer `fails[0]` fails at the request `fails[1]`."""

    fails = ("", "")
    started: dict[str, Any]
    loaded: list[dict[str, Any]] = []

    def __init__(
        self, engine: str, python: str, threads: int, environment: object = None, context: str = "cpu"
    ) -> None:
        self.engine, self.threads = engine, threads
        self.started = {"version": "1.0", "python": "3.11", "seconds": 0.5}
        self._fail("start")

    def __enter__(self) -> StubWorker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Nothing runs."""

    def _fail(self, do: str) -> None:
        if (self.engine, do) == self.fails:
            raise WorkerError(f"{self.engine}: broken")

    def ask(self, do: str, **fields: Any) -> dict[str, Any]:
        self._fail(do)
        return {name: found for name, found in getattr(self, f"_{do}")(**fields).items()}

    def _load(self, spec: dict[str, Any], arrays: Sequence[str]) -> dict[str, Any]:
        shapes = [np.load(path).shape for path in arrays]
        onnx = "onnx" in spec and Path(spec["onnx"]).stat().st_size > 0
        self.loaded.append({"engine": self.engine, "threads": spec["threads"], "shapes": shapes, "onnx": onnx})
        return {"load": 0.25, "first": 0.25}

    def _outputs(self, folder: str) -> dict[str, Any]:
        path = Path(folder) / "0.npy"
        np.save(path, np.ones(3))
        return {"files": [str(path)]}

    def _time(self, calls: int, samples: int) -> dict[str, Any]:
        return {"seconds": [SECONDS[self.engine]] * samples}

    def _memory(self) -> dict[str, Any]:
        return {"peak": 1 << 20}


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[StubWorker]]:
    """All workers are stubs; `loaded` lists the programs that they load."""
    monkeypatch.setattr(measuring, "Worker", StubWorker)
    monkeypatch.setattr(StubWorker, "loaded", [])
    yield StubWorker


def figures(engine: str, *samples: float, calls: int = 1) -> Figures:
    return Figures(engine, "1.0", "3.11", 0.5, 0.5, calls=calls, samples=list(samples))


def measured(name: str = "net", batch: int = 2, threads: int = 1, failed: Sequence[str] = ()) -> Measured:
    """A measurement of mxforge (1, 2 and 3 ms) and MXNet (2, 4 and 6 ms)."""
    programs = [figures("mxforge", 1e-3, 2e-3, 3e-3), figures("mxnet", 2e-3, 4e-3, 6e-3)]
    failures = [Failure(engine, f"{engine}: broken") for engine in failed]
    return Measured(Conditions(name, {"x": [batch]}, batch, threads, 1, 1e-5), Outcome(programs, failures))


# --- measuring --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("request_name", ["start", "load", "outputs", "time", "memory"])
def test_a_peer_that_fails_does_not_end_the_others(
    stub: type[StubWorker], monkeypatch: pytest.MonkeyPatch, request_name: str
) -> None:
    monkeypatch.setattr(stub, "fails", ("mxnet", request_name))
    programs = [Participant(engine, "python3", {}) for engine in ("mxforge", "mxnet", "numpy")]
    found = measure(programs, [], 2, 1, Progress(""))
    assert [f.engine for f in found.figures] == ["mxforge", "numpy"]
    assert found.failures == [Failure("mxnet", "mxnet: broken")]


@pytest.mark.parametrize("request_name", ["start", "load", "outputs", "time", "memory"])
def test_a_failure_of_mxforge_is_an_error(
    stub: type[StubWorker], monkeypatch: pytest.MonkeyPatch, request_name: str
) -> None:
    monkeypatch.setattr(stub, "fails", ("mxforge", request_name))
    with pytest.raises(WorkerError, match="mxforge: broken"):
        measure([Participant("mxforge", "python3", {})], [], 2, 1, Progress(""))


def test_a_sample_is_one_call_unless_calls_are_short(stub: type[StubWorker]) -> None:
    programs = [Participant(engine, "python3", {}) for engine in ("mxforge", "onnxruntime", "numpy")]
    ours, slow, short = measure(programs, [], 5, 1, Progress("")).figures
    assert (ours.calls, len(ours.samples)) == (1, 5 * 6)
    assert (slow.calls, len(slow.samples)) == (1, 5 * 3)
    assert (short.calls, len(short.samples)) == (2001, 5 * 3)


# --- the command ------------------------------------------------------------------------------------------------------


def test_batches_and_threads_are_combined(mxforge: Any, stub: type[StubWorker], convnet: Path, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("report.json", "report.md", "plot.svg")]
    options = [
        item for name, path in zip(("json", "markdown", "plot"), files, strict=True) for item in (f"--{name}", path)
    ]
    shape = ("--input-shape", "data=1,3,32,32", "--batch", "1,2", "--threads", "1,2", "--repeat", "1")
    done = mxforge("bench", convnet, *shape, "--against", "mxnet", *options)
    assert done.status == 0, done.err
    expected = [(batch, threads) for batch in (1, 2) for threads in (1, 2)]
    found = json.loads(files[0].read_text())
    assert [(m["batch"], m["threads"]) for m in found] == expected
    assert [m["programs"][1]["per_second"] for m in found] == pytest.approx([500, 500, 1000, 1000])
    assert [(p["shapes"][0][0], p["threads"]) for p in stub.loaded if p["engine"] == "mxnet"] == expected
    assert done.out.count("first result: ") == 1
    assert "convnet      2        2  1 ms, 2000/s  2 ms, 1000/s" in done.out
    assert "| convnet | 2 | 2 | 1 ms, 2000/s | 2 ms, 1000/s |" in files[1].read_text()
    assert files[2].read_text().startswith("<?xml")


def test_the_model_is_exported_for_onnxruntime(mxforge: Any, stub: type[StubWorker], convnet: Path) -> None:
    pytest.importorskip("onnx")
    shape = ("--input-shape", "data=1,3,32,32", "--batch", "1,2", "--threads", "1", "--repeat", "1")
    done = mxforge("bench", convnet, *shape, "--against", "onnxruntime")
    assert done.status == 0, done.err
    found = [p for p in stub.loaded if p["engine"] == "onnxruntime"]
    assert [(p["onnx"], p["shapes"][0][0]) for p in found] == [(True, 1), (True, 2)]
    assert "exported convnet to ONNX for onnxruntime: data (2, 3, 32, 32)" in done.err


def test_the_export_does_not_need_the_package_onnx(
    mxforge: Any, stub: type[StubWorker], convnet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    done = mxforge("bench", convnet, "--input-shape", "data=1,3,32,32", "--against", "onnxruntime")
    assert done.status == 0, done.err
    assert [p["onnx"] for p in stub.loaded if p["engine"] == "onnxruntime"] == [True]


def test_a_model_that_cannot_be_exported(
    mxforge: Any, stub: type[StubWorker], convnet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_onnx(*_: object) -> int:
        raise model_workloads.MXNetError("gamma cannot be written as ONNX")

    monkeypatch.setattr(model_workloads, "write_onnx", write_onnx)
    done = mxforge("bench", convnet, "--input-shape", "data=1,3,32,32", "--against", "onnxruntime")
    assert done.status == 1 and stub.loaded == []
    assert "gamma cannot be written as ONNX" in done.err and "--onnx FILE" in done.err


@pytest.mark.parametrize("arguments", [("--json",), ("--json", "-")])
def test_json_alone_is_printed(mxforge: Any, stub: type[StubWorker], arguments: tuple[str, ...]) -> None:
    done = mxforge("bench", "--suite", "eager", "--threads", "1", "--repeat", "1", "--against", "mxnet", *arguments)
    assert done.status == 0, done.err
    assert [program["engine"] for program in json.loads(done.out)["programs"]] == ["mxforge", "mxnet"]


def test_a_failed_peer_is_in_the_report(
    mxforge: Any, stub: type[StubWorker], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(stub, "fails", ("mxnet", "time"))
    path, suite = tmp_path / "report.json", ("--suite", "eager", "--threads", "1,2", "--repeat", "1")
    done = mxforge("bench", *suite, "--against", "mxnet,numpy", "--json", path)
    assert done.status == 1
    assert done.err == "mxforge: error: mxnet: broken\n"
    assert "numpy 1.0" in done.out and "failed" in done.out
    assert json.loads(path.read_text())[1]["failures"] == [{"engine": "mxnet", "reason": "mxnet: broken"}]


def test_a_failure_of_mxforge_keeps_other_measurements(
    mxforge: Any, stub: type[StubWorker], monkeypatch: pytest.MonkeyPatch
) -> None:
    load = StubWorker._load

    def fail(self: StubWorker, spec: dict[str, Any], arrays: Sequence[str]) -> dict[str, Any]:
        if self.threads == 1:
            raise WorkerError("mxforge: broken")
        return load(self, spec, arrays)

    monkeypatch.setattr(stub, "_load", fail)
    done = mxforge("bench", "--suite", "eager", "--threads", "1,2", "--repeat", "1")
    assert done.status == 1
    assert done.err == "mxforge: error: mxforge: broken\n"
    assert "2 threads" in done.out and "1 thread;" not in done.out


# --- reports ----------------------------------------------------------------------------------------------------------


def test_percentiles_and_rates() -> None:
    only = report([measured()])
    assert isinstance(only, Measurement)
    found = only.programs[1]
    assert [found.min, found.p50, found.p90, found.p99] == pytest.approx([2e-3, 4e-3, 5.6e-3, 5.96e-3])
    assert (found.min_ratio, found.p50_ratio) == (2, 2)
    assert found.per_second == pytest.approx(2 * 3 / 12e-3)
    assert [rate_text(r) for r in (1.234, 99.96, 123456.7)] == ["1.23", "100", "123457"]


def test_text_says_what_a_sample_is() -> None:
    assert "samples: 3 of one call; per second: elements of batches of 2" in as_text(measured())
    conditions = Conditions("net", {}, 1, 1, 1, 1e-5)
    programs = [figures("mxforge", 1e-6, calls=2000), figures("mxnet", 1e-3)]
    text = as_text(Measured(conditions, Outcome(programs, [])))
    assert "samples: mxforge 1 of 2000 calls, mxnet 1 of one call; per second: calls" in text


def test_lines_of_text_are_short() -> None:
    assert max(map(len, as_text(measured(failed=["torch-compile-nhwc"])).splitlines())) <= 110


def test_programs_of_one_engine_have_numbers() -> None:
    programs = [figures("mxforge", 1.0), figures("mxforge", 2.0)]
    found = Measured(Conditions("net", {}, 1, 1, 1, 1e-5), Outcome(programs, [Failure("mxforge", "")]))
    assert list(found.programs()) == ["mxforge", "mxforge (2)", "mxforge (3)"]


def test_a_summary_names_failures() -> None:
    text = summary_as_text([measured(), measured(threads=2, failed=["torch"])])
    assert "2 ms, 1000/s  4 ms, 500/s  failed" in text


def texts(done: Sequence[Measured]) -> set[str]:
    """The texts of the figure."""
    from matplotlib.text import Text

    return {found.get_text() for found in draw(done).findobj(Text) if isinstance(found, Text)}


@pytest.mark.usefixtures("matplotlib")
def test_a_plot_of_one_measurement_has_times() -> None:
    assert {"2 ms (p99 2.98 ms)", "4 ms (p99 5.96 ms)", "net, batch 2, 1 thread\n"} <= texts([measured()])


@pytest.mark.usefixtures("matplotlib")
def test_a_plot_of_batches_has_a_panel_for_each_number_of_threads() -> None:
    done = [measured(batch=b, threads=t, failed=["torch"]) for b in (1, 2) for t in (1, 2)]
    assert {"1 thread", "2 threads", "mxforge", "mxnet", "batch"} <= texts(done)
    line = draw(done).axes[1].lines[1]
    assert list(np.asarray(line.get_ydata())) == pytest.approx([250, 500])


@pytest.mark.usefixtures("matplotlib")
def test_a_plot_of_threads() -> None:
    assert {"Throughput of net, batch 2\n", "threads"} <= texts([measured(threads=t) for t in (1, 2)])


@pytest.mark.usefixtures("matplotlib")
def test_a_plot_of_several_suites_has_ratios() -> None:
    assert {"exp", "add", "mxnet", "2"} <= texts([measured("exp (e)"), measured("add (a)")])
