"""Tuned schedules: entries, keys of kernels, and what compilations do with them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from contraction_kernels import gemm_kernel
from contractions import HOST
from mxforge.codegen.llvm.contract.emit import schedule_contraction
from mxforge.codegen.llvm.schedule.kinds import (
    KINDS,
    DepthwiseGradientSchedule,
    DepthwiseSchedule,
    GemvSchedule,
    LoopChoice,
    RegisterTile,
    TileSchedule,
    WeightGradientSchedule,
    WinogradGradientSchedule,
    WinogradSchedule,
)
from mxforge.codegen.llvm.schedule.tuned import NOT_TUNED, Tuned, entry_of, kernel_key, schedule_of
from mxforge.codegen.llvm.target import AVX2
from mxforge.ir.kernel import Kernel

KERNEL = gemm_kernel((), 19, 70, 33)
NONE: frozenset[str] = frozenset()
TILE = RegisterTile(4, 2)
SCHEDULES = [
    TileSchedule(lanes=8, main=TILE, last=RegisterTile(6, 1), points=9, panels=2, steps=8, reduction_outside=True),
    TileSchedule(lanes=8, main=TILE, last=None, points=9, panels=0, pack=False),
    WinogradSchedule(output=4, lanes=8, main=TILE, last=None, tiles=9, fused=True, prefetch=2),
    DepthwiseSchedule(lanes=8, columns=6, rows=3),
    GemvSchedule(lanes=8, rows=2, channels=4),
    WeightGradientSchedule(lanes=8, merged=1, main=TILE, last=None, steps=8, positions=64, weights=9, panels=2),
    WinogradGradientSchedule(lanes=8, main=TILE, last=None, tiles=8, channels=4, fused=True, parts=2),
    DepthwiseGradientSchedule(lanes=8, columns=6, rows=3),
    LoopChoice(vector=-1, shared=2, block=0, unroll=4, interleave=1, grain=7),
]


def test_all_kinds_have_entries() -> None:
    assert {type(s) for s in SCHEDULES} == set(KINDS)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda s: type(s).__name__)
def test_an_entry_is_its_schedule(schedule: Any) -> None:
    assert schedule_of(entry_of(schedule)) == schedule


def test_fields_of_later_versions_have_their_defaults() -> None:
    entry = entry_of(GemvSchedule(lanes=8, rows=2, channels=4))
    del entry["ahead"], entry["part"]
    assert schedule_of(entry) == GemvSchedule(lanes=8, rows=2, channels=4, part=0, ahead=0)


GOOD = entry_of(SCHEDULES[0])


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({}, "'None' is not a kind of schedule: use TileSchedule, WinogradSchedule, .*, LoopChoice"),
        ({**GOOD, "kind": "LoopSchedule"}, "'LoopSchedule' is not a kind"),
        ({**GOOD, "kind": ["TileSchedule"]}, "is not a kind"),
        ({"kind": "GemvSchedule", "lanes": 8, "rows": 2}, "wrong or missing: channels"),
        ({**GOOD, "color": 3}, "wrong or missing: color"),
    ],
)
def test_entries_of_other_fields(entry: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        schedule_of(entry)


def renamed(kernel: Kernel) -> Kernel:
    return gemm_kernel((), 19, 70, 33, name="another")


def test_keys() -> None:
    assert kernel_key(KERNEL, NONE) == kernel_key(renamed(KERNEL), NONE)
    assert kernel_key(KERNEL, NONE) != kernel_key(gemm_kernel((), 18, 70, 33), NONE)
    assert kernel_key(KERNEL, NONE) != kernel_key(KERNEL, frozenset(("b",)))
    assert kernel_key(KERNEL, frozenset(("a",))) != kernel_key(KERNEL, frozenset(("b",)))


def tuned(schedule: Any, parameters: frozenset[str] = NONE) -> Any:
    return replace(HOST, tuned=Tuned({kernel_key(KERNEL, parameters): entry_of(schedule)}))


def test_a_tuned_schedule_is_used_for_its_kernel_only() -> None:
    default = schedule_contraction(KERNEL, HOST, NONE)
    assert isinstance(default, TileSchedule)
    other = replace(default, points=8)
    target = tuned(other)
    assert schedule_contraction(renamed(KERNEL), target, NONE) == other
    assert schedule_contraction(KERNEL, target, frozenset(("b",))) != other
    assert schedule_contraction(KERNEL, target.untuned, NONE) == default


def test_an_illegal_schedule_is_not_used() -> None:
    default = schedule_contraction(KERNEL, HOST, NONE)
    assert isinstance(default, TileSchedule)
    with pytest.warns(RuntimeWarning, match="is not a schedule for gemm: tune the model again"):
        assert schedule_contraction(KERNEL, tuned(replace(default, lanes=3)), NONE) == default
    with pytest.warns(RuntimeWarning, match="DepthwiseSchedule"):
        assert schedule_contraction(KERNEL, tuned(SCHEDULES[3]), NONE) == default


def test_identity() -> None:
    target = tuned(SCHEDULES[0])
    assert target.identity != HOST.identity == target.untuned.identity
    assert target != HOST == target.untuned
    assert target.identity == tuned(SCHEDULES[0]).identity != tuned(SCHEDULES[1]).identity
    assert target.with_tuned(Tuned({})) == HOST
    assert AVX2.untuned is AVX2 and AVX2.tuned == NOT_TUNED != Tuned({"a": GOOD})
    assert Tuned({"a": GOOD, "b": {}}) == Tuned({"b": {}, "a": GOOD})
