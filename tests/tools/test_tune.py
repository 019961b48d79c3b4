"""`mxforge tune`: what it stores, that compilations use it, reports and errors. Times are not tested: they are set."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.runtime.cache import DiskCache
from mxforge.runtime.devices import HOST
from mxforge.runtime.host.tuning import identity, read_tables, stored_entries, write_tables
from mxforge.tools.tune import search
from mxforge.tools.tune.report import changes
from mxforge.tools.tune.trial import Trial

SHAPE = ("--input-shape", "data=2,3,32,32")


pytestmark = pytest.mark.usefixtures("own_cache")


class Clock:
    """The times of a kernel, and of a run: `ratio` and `whole` in a trial, as shares of those with the default
    schedules; `whole` None is `ratio`."""

    ratio = 0.5
    whole: float | None = None

    def compare(self, trials: Sequence[Trial], seconds: float, *, whole: bool = False) -> None:
        runs = self.ratio if self.whole is None else self.whole
        for trial, time, run in zip(trials, (2.0, 2.0 * self.ratio), (2.0, 2.0 * runs), strict=True):
            trial.launch_seconds[:] = time
            trial.seconds = run


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Known times, and one alternative for each schedule."""
    clock, alternatives = Clock(), search.alternatives
    monkeypatch.setattr(search, "compare", clock.compare)
    monkeypatch.setattr(search, "alternatives", lambda *args: alternatives(*args)[:1])
    return clock


@pytest.fixture
def model(tmp_path: Path, convnet: Path) -> Path:
    """The prefix of a copy of the network."""
    for file in convnet.parent.glob("convnet-*"):
        shutil.copy(file, tmp_path)
    return tmp_path / "convnet"


def tuned(mxforge: Any, *arguments: object) -> dict[str, Any]:
    done = mxforge("tune", *arguments, *SHAPE, "--json")
    assert done.status == 0, done.err
    return json.loads(done.out)


def test_faster_schedules_are_stored(mxforge: Any, model: Path) -> None:
    before = HOST.target
    assert not before.tuned.entries
    report = tuned(mxforge, model)
    kernels = report["kernels"]
    assert kernels and all(k["ratio"] == 0.5 and k["best"] != k["default"] for k in kernels)
    assert all(k["default_seconds"] == 2 * k["best_seconds"] for k in kernels)
    assert any("conv0" in name for k in kernels for name in k["layers"])
    assert (report["seconds_before"], report["seconds_after"]) == (2.0, 1.0)
    file = model.with_name("convnet-tuning.json")
    assert report["file"] == str(file)
    found = {k["kernel"]: k["best"] for k in kernels}
    assert read_tables(file) == {identity(before): found}
    assert stored_entries(before) == found
    assert HOST.target.tuned.entries == found


def test_slower_schedules_are_not(mxforge: Any, model: Path, clock: Clock) -> None:
    clock.ratio = 1.0
    report = tuned(mxforge, model)
    assert all(k["best"] == k["default"] and k["ratio"] == 1.0 and k["tried"] for k in report["kernels"])
    assert read_tables(Path(report["file"])) == {identity(HOST.target): {}}


def test_what_is_not_confirmed_is_not_stored(mxforge: Any, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(search, "compare", clock.compare)
    confirm = search._confirm

    def later(*arguments: Any) -> Any:
        clock.ratio = 0.99
        return confirm(*arguments)

    monkeypatch.setattr(search, "_confirm", later)
    assert not read_tables(Path(tuned(mxforge, model)["file"]))[identity(HOST.target)]


def test_schedules_that_make_no_run_faster_are_not_stored(mxforge: Any, model: Path, clock: Clock) -> None:
    clock.whole = 1.0
    report = tuned(mxforge, model)
    assert all(k["best"] == k["default"] and k["tried"] for k in report["kernels"])
    assert read_tables(Path(report["file"])) == {identity(HOST.target): {}}
    assert "; not faster, so the schedules of the formulas stay" in mxforge("tune", model, *SHAPE).out


def code(mxforge: Any, model: Path, *arguments: str) -> list[object]:
    """The size of the program's code, its kernels, and the units of their work."""
    done = mxforge("inspect", model, *SHAPE, "--json", *arguments)
    assert done.status == 0, done.err
    report = json.loads(done.out)
    return [report["code_bytes"], *((x["kernel"], x["count"]) for x in report["launches"])]


def test_compilations_use_the_file_beside_the_model(mxforge: Any, model: Path, own_cache: DiskCache) -> None:
    plain = code(mxforge, model)
    tuned(mxforge, model)
    changed = code(mxforge, model)
    assert changed != plain
    own_cache.evict()
    DiskCache(own_cache.folder, limit=0, enabled=True).evict()
    HOST.refresh()
    assert not stored_entries(HOST.target)
    assert code(mxforge, model) == changed
    assert code(mxforge, model, "--tuning", "off") == plain


def test_results_do_not_change(mxforge: Any, model: Path, convnet: Path) -> None:
    tuned(mxforge, model)
    outputs: list[Any] = []
    for choice in ("off", model.with_name("convnet-tuning.json")):
        output = model.with_name("output.npz")
        done = mxforge("run", model, "--input", f"{convnet}.npz", "--output", output, "--tuning", choice)
        assert done.status == 0, done.err
        with np.load(output) as arrays:
            outputs.append({name: arrays[name] for name in arrays.files})
    assert outputs[0].keys() == outputs[1].keys()
    for name, value in outputs[0].items():
        np.testing.assert_allclose(value, outputs[1][name], rtol=1e-4, atol=1e-5)


def test_a_second_search_starts_with_what_is_known(mxforge: Any, model: Path, clock: Clock) -> None:
    first = {k["kernel"]: k["best"] for k in tuned(mxforge, model)["kernels"]}
    file = model.with_name("convnet-tuning.json")
    tables = {**read_tables(file), "another machine": {}}
    write_tables(file, tables)
    assert {k["kernel"]: k["best"] for k in tuned(mxforge, model)["kernels"]} == first
    assert read_tables(file) == tables


def test_text(mxforge: Any, model: Path) -> None:
    output = model.with_name("own") / "own.json"
    done = mxforge("tune", model, *SHAPE, "-o", output)
    assert done.status == 0, done.err
    assert "with a faster schedule" in done.out and "2000000.0" in done.out and "0.50" in done.out
    assert "run  2000.000 ms before, 1000.000 ms after (0.500)" in done.out
    assert done.out.endswith(f"stored in {output} and in the disk cache\n") and output.is_file()


def test_an_interrupt_stores_what_was_found(mxforge: Any, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(search, "_confirm", interrupted)
    done = mxforge("tune", model, *SHAPE)
    assert done.status == 130
    assert "interrupted after" in done.out
    assert read_tables(model.with_name("convnet-tuning.json"))[identity(HOST.target)]


def test_an_early_interrupt_keeps_what_was_known(mxforge: Any, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = Path(tuned(mxforge, model)["file"])
    known = read_tables(file)

    def interrupted(*arguments: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(search, "_round", interrupted)
    assert mxforge("tune", model, *SHAPE).status == 130
    assert read_tables(file) == known and stored_entries(HOST.target) == known[identity(HOST.target)]


@pytest.mark.filterwarnings("default:the schedules of a round")
def test_wrong_results_are_not_taken(mxforge: Any, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Trial, "agrees_with", lambda self, other: False)
    done = mxforge("tune", model, *SHAPE, "--json")
    assert done.status == 0 and "gave other results" in done.err
    assert all(k["best"] == k["default"] for k in json.loads(done.out)["kernels"])


def test_the_program_in_the_cache_depends_on_tuning(mxforge: Any, model: Path) -> None:
    from mxforge.passes.manager import Options
    from mxforge.runtime.compile import disk_key
    from mxforge.tools.model_files import find_model
    from mxforge.tools.models import data_types, load_model, model_graph

    loaded = load_model(find_model(str(model)))
    graph = model_graph(loaded, data_types(loaded, {"data": ((2, 3, 32, 32), None)}))
    before = disk_key(graph, Options(), HOST.target)
    tuned(mxforge, model)
    assert disk_key(graph, Options(), HOST.target) != before == disk_key(graph, Options(), HOST.target.untuned)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--time-limit", "0"), "'0'"),
        (("-o", "x.txt"), "x.txt: is not a .json file"),
        ((), "the shape of input 'data' is not known"),
        (("--input-shape", "data=1..8,3,32,32"), "'data=1..8,3,32,32' is a range of shapes: pass one shape"),
        ((*SHAPE, *SHAPE), "input 'data' has two shapes: pass one"),
    ],
)
def test_errors(mxforge: Any, model: Path, arguments: tuple[str, ...], message: str) -> None:
    done = mxforge("tune", model, *arguments)
    assert done.status == 2 and message in done.err and done.err.count("\n") == 1


def test_a_step_of_training(mxforge: Any, model: Path) -> None:
    """Its schedules are used by the programs of a recorded call."""
    kernels = tuned(mxforge, model, "--training")["kernels"]
    kinds = {k["best"]["kind"] for k in kernels}
    assert {"TileSchedule", "WeightGradientSchedule", "LoopChoice"} <= kinds
    assert all(k["launches"] for k in kernels)
    assert any("backward" in name for k in kernels for name in k["layers"])
    found = {k["kernel"]: k["best"] for k in kernels if k["best"] != k["default"]}
    assert found and HOST.target.tuned.entries == found


def test_training_needs_parameters(mxforge: Any, tmp_path: Path) -> None:
    mx.sym.relu(mx.sym.var("data")).save(str(tmp_path / "plain-symbol.json"))
    done = mxforge("tune", tmp_path / "plain", *SHAPE, "--training")
    assert done.status == 1 and "plain has no parameters to train" in done.err and done.err.count("\n") == 1


def test_a_compiled_folder(mxforge: Any, compiled: Path) -> None:
    done = mxforge("tune", compiled)
    assert done.status == 2 and "a compiled folder has no schedules: tune the symbol, and compile it again" in done.err


@pytest.mark.parametrize("command", ["run", "inspect", "tune"])
def test_a_damaged_file_beside_the_model(mxforge: Any, model: Path, command: str) -> None:
    model.with_name("convnet-tuning.json").write_text("{}")
    done = mxforge(command, model, *SHAPE)
    assert done.status == 1 and done.err.count("\n") == 1
    assert "convnet-tuning.json: is not a file of tuned schedules of format 2" in done.err


def test_a_damaged_output(mxforge: Any, model: Path) -> None:
    model.with_name("own.json").write_text("[]")
    done = mxforge("tune", model, *SHAPE, "-o", model.with_name("own.json"))
    assert done.status == 1 and "own.json: is not a file of tuned schedules" in done.err and done.err.count("\n") == 1


def test_a_missing_file(mxforge: Any, model: Path) -> None:
    done = mxforge("run", model, *SHAPE, "--tuning", "none.json")
    assert done.status == 1 and "none.json: No such file" in done.err and done.err.count("\n") == 1


def test_a_model_of_loops(mxforge: Any, tmp_path: Path) -> None:
    mx.sym.softmax(mx.sym.var("data")).save(str(tmp_path / "plain-symbol.json"))
    (kernel,) = tuned(mxforge, tmp_path / "plain")["kernels"]
    assert kernel["best"]["kind"] == "LoopChoice" and kernel["best"] != kernel["default"]


def test_a_model_without_schedules(mxforge: Any, tmp_path: Path) -> None:
    mx.sym.sort(mx.sym.var("data")).save(str(tmp_path / "plain-symbol.json"))
    done = mxforge("tune", tmp_path / "plain", *SHAPE)
    assert done.status == 1 and "there is nothing to tune" in done.err


def test_changes() -> None:
    from mxforge.codegen.llvm.schedule.kinds import RegisterTile, TileSchedule, WinogradSchedule

    tile = TileSchedule(lanes=8, main=RegisterTile(6, 4), last=None, points=9, panels=0)
    winograd = WinogradSchedule(output=4, lanes=8, main=RegisterTile(8, 2), last=None, tiles=9, fused=True)
    assert changes(tile, tile) == "default"
    assert changes(tile, winograd) == "Winograd (direct), output 4, main 8x2"
    other = TileSchedule(lanes=8, main=RegisterTile(4, 4), last=RegisterTile(2, 1), points=9, panels=0, pack=False)
    assert changes(tile, other) == "main 4x4 (6x4), last 2x1 (none), pack no (yes)"
