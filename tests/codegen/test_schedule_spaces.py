"""Spaces of schedules: all of their schedules compute what the default computes, and illegal ones are outside."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from contraction_kernels import ConvSpec, conv_kernel, gemm_kernel, weight_gradient_kernel
from contractions import HOST, Runner
from mxforge.codegen.llvm.contract.emit import schedule_contraction
from mxforge.codegen.llvm.schedule.kinds import (
    ContractionSchedule,
    DepthwiseGradientSchedule,
    DepthwiseSchedule,
    GemvSchedule,
    RegisterTile,
    Schedule,
    TileSchedule,
    WeightGradientSchedule,
    WinogradGradientSchedule,
    WinogradSchedule,
)
from mxforge.codegen.llvm.schedule.spaces import allows, alternatives, spaces
from mxforge.codegen.llvm.target import AVX2, AVX512
from mxforge.ir.kernel import Kernel
from mxforge.ir.types import Layout

RNG = np.random.default_rng(3)
BLOCKED = Layout(8, ((1, 1), (1, 1)))
ROOMY = Layout(8, ((1, 4), (1, 4)))
PARAMETERS = frozenset(("w", "b"))


def same(groups: int = 1) -> ConvSpec:
    return ConvSpec((1, 1), (1, 1), (1, 1), groups=groups)


def gradient(x: Layout, dy: Layout, groups: int) -> Kernel:
    return weight_gradient_kernel((2, 16, 9, 9), 16, (3, 3), same(groups), x_layout=x, layout=dy)


KERNELS = {
    "direct": conv_kernel((1, 16, 7, 7), (40, 16, 3, 3), ConvSpec((2, 2), (1, 1), (1, 1)), x_layout=BLOCKED),
    "Winograd": conv_kernel((1, 16, 9, 9), (24, 16, 3, 3), same(), x_layout=ROOMY, out_layout=BLOCKED),
    "depthwise": conv_kernel((1, 16, 9, 9), (16, 1, 3, 3), same(16), x_layout=BLOCKED, out_layout=BLOCKED),
    "product": gemm_kernel((), 19, 70, 33),
    "dots": gemm_kernel((), 2, 24, 64, transposed=(False, True)),
    "gradient": gradient(BLOCKED, BLOCKED, 1),
    "Winograd gradient": gradient(ROOMY, ROOMY, 1),
    "depthwise gradient": gradient(BLOCKED, BLOCKED, 16),
}
FIRST = {"direct": TileSchedule, "Winograd": WinogradSchedule, "depthwise": DepthwiseSchedule}
FIRST |= {"product": TileSchedule, "dots": GemvSchedule, "gradient": WeightGradientSchedule}
FIRST |= {"Winograd gradient": WinogradGradientSchedule, "depthwise gradient": DepthwiseGradientSchedule}


def result(kernel: Kernel, schedule: Schedule, values: dict[str, Any]) -> np.ndarray:
    assert isinstance(schedule, ContractionSchedule)
    return Runner(kernel, schedule=schedule, values=values).run()


def near(kernel: Kernel, schedule: Schedule, target: Any = HOST) -> list[Schedule]:
    return alternatives(kernel, schedule, target, PARAMETERS)


def start(name: str, target: Any = HOST) -> Any:
    """The schedule of the formulas for the kind that the kernel is named after."""
    return spaces(KERNELS[name], target, PARAMETERS)[FIRST[name]].start


@pytest.mark.parametrize("name", KERNELS)
def test_alternatives_compute_the_same(name: str) -> None:
    kernel = KERNELS[name]
    values = {
        b.name: RNG.standard_normal(tuple(map(int, b.shape))).astype("f") for b in kernel.buffers if not b.written
    }
    default = start(name)
    expected = result(kernel, default, values)
    found = near(kernel, default)
    assert len(found) >= 2 and default not in found
    for schedule in {type(s): s for s in found}.values():  # the last of each kind
        got = result(kernel, schedule, values)
        if _rounds_alike(schedule, default):
            np.testing.assert_array_equal(got, expected)
        np.testing.assert_allclose(got, expected, rtol=0, atol=2e-5 * np.abs(expected).max())


def _rounds_alike(a: Schedule, b: Schedule) -> bool:
    """Gradients are sums of parts, whose sizes differ."""
    if isinstance(a, WeightGradientSchedule | WinogradGradientSchedule | DepthwiseGradientSchedule):
        return False
    return type(a) is type(b) and getattr(a, "output", 0) == getattr(b, "output", 0)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("target", [HOST, AVX2], ids=["host", "avx2"])
def test_neighbours_are_in_the_space(name: str, target: Any) -> None:
    """For two steps of a search."""
    kernel = KERNELS[name]
    default = start(name, target)
    assert allows(kernel, schedule_contraction(kernel, target, PARAMETERS), target, PARAMETERS)
    assert allows(kernel, default, target, PARAMETERS)
    for first in near(kernel, default, target):
        for schedule in (first, *near(kernel, first, target)):
            assert allows(kernel, schedule, target, PARAMETERS)


ILLEGAL = {
    "lanes": ("direct", {"lanes": 3}),
    "too many registers": ("direct", {"main": RegisterTile(8, 9), "last": None}),
    "no rows": ("direct", {"main": RegisterTile(0, 1), "last": None}),
    "negative vectors": ("direct", {"main": RegisterTile(1, -1), "last": None}),
    "channels left over": ("direct", {"main": RegisterTile(2, 2), "last": RegisterTile(2, 2)}),
    "no points": ("direct", {"points": 0}),
    "more points than there are": ("direct", {"points": 1 << 40}),
    "negative panels": ("direct", {"panels": -1}),
    "all panels around parts of the reduction": ("direct", {"panels": 0, "steps": 8, "reduction_outside": True}),
    "outside of no parts": ("direct", {"panels": 1, "steps": 0, "reduction_outside": True}),
    "negative steps": ("direct", {"steps": -8}),
    "prefetch": ("direct", {"prefetch": 1000}),
    "weights that cannot be read in place": ("direct", {"pack": False}),
    "packed rows of a convolution": ("direct", {"pack_rows": True}),
    "tiles that are not supported": ("Winograd", {"output": 3}),
    "a part of the tiles in two launches": ("Winograd", {"fused": False, "tiles": 2}),
    "no tiles": ("Winograd", {"fused": True, "tiles": 0}),
    "transforms of stored weights": ("Winograd", {"fused": False, "tiles": 9, "expand": 16}),
    "no columns": ("depthwise", {"columns": 0}),
    "many columns": ("depthwise", {"columns": 99}),
    "many rows": ("depthwise", {"rows": 99}),
    "many channels": ("dots", {"channels": 99}),
    "other rows": ("dots", {"rows": 3}),
    "other groups": ("gradient", {"merged": 2}),
    "no positions": ("gradient", {"positions": 0}),
    "many weights": ("gradient", {"weights": 1 << 40}),
    "many steps": ("gradient", {"steps": 64}),
    "parts without tiles": ("Winograd gradient", {"fused": True, "parts": 17, "tiles": 4}),
    "a step of tiles": ("Winograd gradient", {"fused": True, "tiles": 3}),
    "parts of all tiles": ("Winograd gradient", {"fused": False, "tiles": 20, "parts": 2}),
    "many positions": ("depthwise gradient", {"columns": 99}),
    "no taps": ("depthwise gradient", {"rows": 0}),
}


@pytest.mark.parametrize("side", [3, 14])
def test_tiles_of_a_block_prefetch_the_next_weights_once(side: int) -> None:
    """A convolution of few points prefetches in every step more than one of many points, which shares it among them."""
    kernel = conv_kernel((1, 512, side, side), (2048, 512, 1, 1), ConvSpec((1, 1), (0, 0), (1, 1)), x_layout=BLOCKED)
    for target in (AVX2, AVX512):
        schedule = schedule_contraction(kernel, target, PARAMETERS)
        assert isinstance(schedule, TileSchedule)
        step = target.lanes() * schedule.main.vectors * schedule.lanes // 16
        tiles = -(-schedule.points // schedule.main.rows)
        assert schedule.prefetch == min(24, -(-step // tiles)), schedule
        assert (schedule.prefetch > 8) == (side == 3 and target is AVX512)


@pytest.mark.parametrize("name", ILLEGAL)
def test_illegal_schedules_are_outside(name: str) -> None:
    kernel, changes = ILLEGAL[name]
    changed = replace(start(kernel), **changes)
    assert not allows(KERNELS[kernel], changed, HOST, PARAMETERS)


def test_a_schedule_of_another_contraction_is_outside() -> None:
    schedule = schedule_contraction(KERNELS["depthwise"], HOST)
    assert not allows(KERNELS["direct"], schedule, HOST, PARAMETERS)


def test_winograd_needs_room() -> None:
    tight = conv_kernel((1, 16, 9, 9), (24, 16, 3, 3), same(), x_layout=BLOCKED, out_layout=BLOCKED)
    assert WinogradSchedule not in spaces(tight, HOST, PARAMETERS)
