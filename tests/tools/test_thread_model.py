"""Predictions for many threads: chunks, the costs of sharing, what limits a launch, and the command. Measured times are
not tested."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mxforge as mx
import pytest
from mxforge.runtime.host import probes
from mxforge.runtime.host.threads import get_num_threads, get_pool
from mxforge.tools.profile.thread_model import LaunchWork as Work
from mxforge.tools.profile.thread_model import Limit, Prediction, ThreadCosts, chunk_sizes, finish_seconds, predict

SHAPE = ("--input-shape", "data=2,3,32,32")
SIMULATE = ("--simulate-threads", "8,64", "--repeat", "2")
FREE = ThreadCosts(0.0, 0.0, 1e30)


def test_chunks() -> None:
    assert chunk_sizes(11, 1, 8) == [1, 1, 2, 1, 1, 2, 1, 2]
    assert chunk_sizes(5, 1, 8) == [1] * 5
    assert sorted(chunk_sizes(1000, 1, 8)) == [15] * 24 + [16] * 40
    assert chunk_sizes(100, 20, 2) == [5] * 20
    assert chunk_sizes(100, 40, 8) == [50, 50]
    assert chunk_sizes(100, 100, 8) == chunk_sizes(100, 1, 1) == chunk_sizes(100, 60, 8) == [100]
    assert chunk_sizes(0, 1, 8) == []
    assert {size % 64 for size in chunk_sizes(1 << 20, 1, 3)[:-1]} == {0}


def test_a_free_thread_takes_the_next_chunk() -> None:
    assert finish_seconds([4.0, 1.0, 1.0, 1.0, 1.0], 2, 0.0, 0.0) == 4.0
    assert finish_seconds([1.0] * 8, 4, 0.5, 0.0) == 2.5  # two chunks each; others start 0.25 late
    assert finish_seconds([0.0] * 16, 2, 0.0, 1.0) == 16.0  # one thread at a time takes a chunk
    assert finish_seconds([2.0, 2.0], 2, 1.0, 0.0) == 3.0


@pytest.mark.parametrize(
    ("work", "limit", "lost"),
    [
        (Work("", 1, 1, 8.0), Limit.ONE_UNIT, 7.0),
        (Work("", 2, 1, 8.0), Limit.FEW_UNITS, 3.0),
        (Work("", 12, 1, 12.0), Limit.UNEVEN, 0.5),
        (Work("", 100, 100, 8.0), Limit.SHORT, 7.0),
        (Work("", 100, 25, 8.0), Limit.SHORT, 1.0),
    ],
)
def test_limits_of_units(work: Work, limit: Limit, lost: float) -> None:
    found = predict(work, 8, FREE)
    assert {k: v for k, v in found.lost.items() if v} == {limit: pytest.approx(lost)}


def test_limits_of_the_machine() -> None:
    costs = ThreadCosts(1.0, 0.0, 2.0)
    assert predict(Work("", 8, 1, 80.0), 8, costs).lost[Limit.COSTS] == pytest.approx(3.0)  # log2(8) launches
    memory = predict(Work("", 8, 1, 80.0, 40.0), 8, costs)
    assert memory.seconds == 20.0 and memory.lost[Limit.MEMORY] == pytest.approx(7.0)
    assert predict(Work("", 8, 1, 80.0, 40.0), 1, costs) == Prediction(Work("", 8, 1, 80.0, 40.0), 1, 80.0, {})


@pytest.mark.parametrize("threads", [2, 8, 64])
@pytest.mark.parametrize("count", [1, 7, 64, 65, 130, 1000, 50_000])
def test_times_are_the_even_share_and_what_is_lost(count: int, threads: int) -> None:
    found = predict(Work("", count, 3, 1e-3, 1e6), threads, ThreadCosts(1e-6, 1e-7, 1e10))
    assert found.seconds == pytest.approx(1e-3 / threads + sum(found.lost.values()))
    assert all(value >= -1e-12 for value in found.lost.values())


def test_command(mxforge: Any, convnet: Path) -> None:
    before, run = get_num_threads(), dict(get_pool().kernels)
    done = mxforge("profile", convnet, *SHAPE, *SIMULATE, "--json", "--launch-cost", "2.5")
    assert done.status == 0, done.err
    report = json.loads(done.out)
    assert [x["threads"] for x in report["threads"]] == [8, 64]
    assert (report["launch_cost"], report["chunk_cost"]) == (2.5e-6, pytest.approx(1e-7))
    for found in report["threads"]:
        assert found["seconds"] == pytest.approx(sum(x["seconds"] for x in found["launches"]))
        assert found["work_seconds"] == pytest.approx(sum(x["work_seconds"] for x in found["launches"]))
        assert found["speed_up"] == pytest.approx(report["seconds"] / found["seconds"])
        assert any("conv1" in x["name"] and x["bytes"] for x in found["launches"])
    assert (get_num_threads(), get_pool().kernels) == (before, run)


def test_text(mxforge: Any, convnet: Path) -> None:
    done = mxforge("profile", convnet, *SHAPE, *SIMULATE, "--top", "2")
    assert done.status == 0, done.err
    assert "predictions from times on one thread, not measurements" in done.out
    assert "assumed: launch 1.00 us x log2(threads), chunk 100 ns, memory 200 GB/s" in done.out
    assert len(done.out.partition("what limits 64 threads\n")[2].splitlines()) == 3


def test_costs_can_be_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "_SECONDS", 0.005)
    before = get_pool().threads
    get_pool().resize(2)
    launch, chunk = probes.sharing_seconds()
    get_pool().resize(before)
    assert 0 <= launch < 1 and 0 <= chunk < 1


def test_launches_of_loops_are_shared(mxforge: Any, tmp_path: Path) -> None:
    """The launches of steps are listed, with their units, and not the loop as one unit."""
    data, weight = mx.sym.var("data"), mx.sym.var("weight")

    def step(x: Any, states: Any) -> Any:
        y = mx.sym.tanh(mx.sym.dot(x + states[0], weight))
        return y, [y]

    outputs, _ = mx.sym.contrib.foreach(step, data, [mx.sym.zeros((4, 300))])
    outputs.save(str(tmp_path / "net-symbol.json"))
    mx.nd.save(str(tmp_path / "net-0000.params"), {"arg:weight": mx.nd.ones((300, 300))})
    done = mxforge("profile", tmp_path / "net", "--input-shape", "data=400,4,300", *SIMULATE, "--json")
    assert done.status == 0, done.err
    steps = [x for x in json.loads(done.out)["threads"][0]["launches"] if x["name"].endswith("(step)")]
    assert 0 <= len(steps) % 400 <= 1 < len(steps)  # besides the steps, a copy of the last state
    assert sum(x["count"] > 1 for x in steps) >= 400


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--simulate-threads", "8,0"), "'0' is not a positive whole number"),
        (("--simulate-threads", "2000"), "a pool has at most 1024 threads"),
        (("--simulate-threads", "8", "--memory-bandwidth", "-1"), "'-1' is not a positive number"),
        (("--simulate-threads", "8", "--csv", "rows.csv"), "--csv needs measured threads"),
        (("--simulate-threads", "8", "--plot", "plot.svg"), "--plot needs measured threads"),
        (("--launch-cost", "1"), "--launch-cost is an assumption of --simulate-threads"),
    ],
)
def test_errors(mxforge: Any, convnet: Path, options: tuple[str, ...], message: str) -> None:
    done = mxforge("profile", convnet, *SHAPE, *options)
    assert done.status == 2 and message in done.err


def test_a_compiled_folder_is_for_one_number_of_threads(mxforge: Any, compiled: Path) -> None:
    done = mxforge("profile", compiled, "--simulate-threads", "8")
    assert done.status == 2 and "a compiled folder is for one number of threads" in done.err
