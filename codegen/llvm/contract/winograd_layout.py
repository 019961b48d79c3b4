"""The workspace of a Winograd convolution, and its packed filters.

The workspace holds the transformed inputs V[frequency][channel block][tile][channel] and, for each worker, the
products M[frequency][tile][channel of the panel] and, of weights that are stored as taps, the transforms
U[frequency][input channel][channel of the panel] of a part of the reduction. Frequencies are padded by a cache line, so
that their stores do not use the same set of the L1 cache.
"""

from __future__ import annotations

from dataclasses import replace

from ....ir.lazy_dataclass import dataclass
from ..cpu import Cpu
from ..schedule.contract import conv_sizes, winograd_sizes
from ..schedule.describe import ConvShape
from ..schedule.kinds import TileSchedule, WinogradSchedule
from ..schedule.segments import Segment
from .conv import weight_strides
from .problem import Problem
from .tiles import PanelKind, panel_kinds
from .winograd_math import Filtering, Tile, frequencies
from .winograd_pack import WinogradFilters

LINE = 16
"""The number of floats in a cache line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WinogradLayout:
    """The sizes of the workspace, in floats: `blocks` blocks of channels, of which `depth` channels are multiplied.
    U has `part` blocks."""

    frequencies: int
    blocks: int
    block: int
    depth: int
    tiles: int
    width: int
    part: int

    @property
    def input_step(self) -> int:
        """The stride between frequencies of V."""
        return self.blocks * self.block * self.tiles + LINE

    @property
    def product_step(self) -> int:
        return self.tiles * self.width + LINE

    @property
    def inputs(self) -> int:
        return self.frequencies * self.input_step

    @property
    def products(self) -> int:
        return self.frequencies * self.product_step

    @property
    def weight_step(self) -> int:
        return self.part * (self.depth // self.blocks) * self.width + LINE

    @property
    def weights(self) -> int:
        return self.frequencies * self.weight_step if self.part else 0


def winograd_tile(shape: ConvShape, schedule: WinogradSchedule) -> Tile:
    down, along = (Filtering(w.tile(schedule.output), w.taps) for w in winograd_sizes(shape).windows)
    return down, along


def winograd_layout(shape: ConvShape, schedule: WinogradSchedule, block: int) -> WinogradLayout:
    widest = max(t.vectors for t in (schedule.main, schedule.last) if t) * schedule.lanes
    channels = winograd_sizes(shape).channels
    blocks = -(-channels // block)
    return WinogradLayout(
        frequencies=frequencies(winograd_tile(shape, schedule)),
        blocks=blocks,
        block=block,
        depth=blocks * min(block, channels),
        tiles=schedule.tiles,
        width=widest,
        part=-(-schedule.expand // block),
    )


def winograd_workspace(shape: ConvShape, schedule: WinogradSchedule, block: int, target: Cpu) -> int:
    """The number of floats of V, M and U. With one fused launch each worker has a V, else there is one V."""
    sizes = winograd_layout(shape, schedule, block)
    shared = 1 + (target.threads - 1) * schedule.fused
    return sizes.inputs * shared + (sizes.products + sizes.weights) * target.threads


def winograd_kinds(problem: Problem, schedule: WinogradSchedule) -> list[PanelKind]:
    """The panels of output channels; `offset` counts floats for one frequency and one input channel."""
    one_step = Segment(steps=(0,), unroll=(0,), sources=(0,))
    tiles = TileSchedule(lanes=schedule.lanes, main=schedule.main, last=schedule.last, points=1, panels=0)
    return panel_kinds(replace(problem, segments=(one_step,)), tiles)[0]


def winograd_filters(
    shape: ConvShape, schedule: WinogradSchedule, kinds: list[PanelKind], block: int, problem: Problem
) -> WinogradFilters:
    channel, taps = weight_strides(shape)
    down, along = conv_sizes(shape).windows
    return WinogradFilters(
        tile=winograd_tile(shape, schedule),
        lanes=schedule.lanes,
        channels=shape.channels,
        depth=winograd_layout(shape, schedule, block).depth,
        filters=shape.filters,
        panels=tuple(kinds),
        weights=problem.weights,
        channel=channel,
        taps=(taps[0], taps[1]),
        windows=(down, along),
        transformed=not schedule.expand,
    )
