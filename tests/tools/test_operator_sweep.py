"""`mxforge bench --suite all-operators`, and our own times beside the floors of the machine: no peer is needed to see a
schedule that became several times slower."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mxforge.tools.bench import operator_report
from mxforge.tools.bench.operator_cases import CASES
from mxforge.tools.bench.operator_programs import CALLS, MXNET, NUMPY, TORCH
from mxforge.tools.bench.operator_report import report
from mxforge.tools.bench.operator_sweep import Row, Sweep, geometric_mean

FLOORS: dict[str, float] = json.loads((Path(__file__).parents[1] / "data" / "operator_floors.json").read_text())
"""Our times by the floors, on one thread of an idle machine."""
SLACK = 3
"""A time may exceed that in the table so many times: machines differ, and do other work."""
ATTEMPTS = 10


@pytest.fixture(scope="module")
def sweep() -> Iterator[Sweep]:
    with Sweep({}, threads=1, repeat=2, clock="process_time") as sweep:
        yield sweep


@pytest.mark.parametrize("name", FLOORS)
def test_no_operator_is_far_above_its_floor(sweep: Sweep, name: str) -> None:
    case, _, gradients = name.partition(" +")
    limit, least = SLACK * FLOORS[name], float("inf")
    for _ in range(ATTEMPTS):
        least = min(least, sweep.row(case, bool(gradients)).by_floor)
        if least <= limit:
            return
    pytest.fail(f"{name} takes {least:.1f} times its floor; the table has {FLOORS[name]}")


def test_the_tables_have_the_same_cases() -> None:
    assert set(CASES) == set(MXNET)
    assert set(TORCH) | set(NUMPY) <= set(CASES)
    for case in CASES.values():
        assert all(i < len(case.operands) for i in (*case.gradients, *case.indices))
    assert {name.partition(" +")[0] for name in FLOORS} <= set(CASES)


def test_the_suite_prints_its_table(mxforge: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        operator_report, "CASES", {name: CASES[name] for name in ("dot, vector", "argsort, rows", "clip")}
    )
    done = mxforge("bench", "--suite", "all-operators", "--against", "numpy", "--repeat", "1", "--threads", "1")
    assert done.status == 0, done.err
    lines = done.out.splitlines()
    assert "1 thread" in lines[0] and "by best" in lines[1] and "numpy" in lines[1]
    assert any(line.strip().startswith("clip +gradients") for line in lines)
    assert "by numpy: geometric mean" in done.out and "of 3 rows" in done.out and "of 4 rows" in done.out


def test_a_peer_that_no_sweep_has(mxforge: Any) -> None:
    done = mxforge("bench", "--suite", "all-operators", "--against", "onnxruntime")
    assert done.status == 2
    assert "onnxruntime cannot run this --suite; engines that can: mxforge, mxnet, torch, numpy" in done.err


def test_what_is_slower_than_a_peer_comes_first() -> None:
    def row(name: str, ours: float, **peers: float) -> Row:
        return Row(name, {"mxforge": ours, **peers}, 1e-3, {"numpy": 0.5} if name == "wrong" else {}, {})

    rows = [
        row("alone", 5e-3),
        row("fast", 1e-3, numpy=4e-3),
        row("slow", 4e-3, numpy=1e-3),
        row("wrong", 1e-3, numpy=1e-3),
    ]
    lines = list(report(rows, {"mxforge": "1", "numpy": "2"}))
    assert [line.split()[0] for line in lines[1:5]] == ["slow", "wrong", "fast", "alone"]
    assert lines[1].split()[1:] == ["4.00", "4.0", "4", "ms", "1", "ms"]
    assert "by numpy: geometric mean 1.000 of 3 rows, 1 above 1" in lines
    assert lines[-1] == "results differ by more than 0.001: wrong: numpy 5.0e-01"
    assert geometric_mean([]) == 1


def test_engines_without_gradients_run_forward_passes() -> None:
    assert [name for name, call in CALLS.items() if not call.differentiable] == ["numpy"]
