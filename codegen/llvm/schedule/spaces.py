"""Lists, for tuning, which schedules compute the right result for a kernel, and which are neighbours of a given one.

The table `_SPACES` has the spaces of each class of kernels; a kind of schedule has one `Space`. Schedules of one space
give the same bits, except those of Winograd with other tiles, of gradients and of loops, which add in another order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from math import prod
from typing import Any
from warnings import warn

from ....ir.kernel import Kernel, contracts
from ....ir.lazy_dataclass import dataclass
from ..cpu import Cpu
from ..winograd_tiles import usable_tiles
from .contract import (
    Channels,
    conv_sizes,
    direct_blocks,
    direct_channels,
    has_micro_kernel,
    has_winograd_room,
    schedule_depthwise,
    schedule_dots,
    schedule_product,
    sum_lanes,
    winograd_blocks,
    winograd_channels,
    winograd_tiles,
)
from .describe import ConvShape, GemmShape, WeightGradientShape, describe_contraction, extent_of
from .gradient_spaces import gradient_spaces
from .kinds import COLUMNS_OF_UNIT, DepthwiseSchedule, GemvSchedule, Schedule, TileSchedule, WinogradSchedule
from .loop_space import LoopNest, describe_loops, loop_spaces
from .product import is_contiguous_along_rows, is_readable_in_place
from .space import Space, Tiles

_MOST_POINTS = 4096
"""Points, or tiles of Winograd, in a block: tables of their offsets are on the stack."""
_MOST_SUMS = 4 << 20
"""Bytes of a worker's sums between the parts of a reduction."""
_MOST_PREFETCH = 32
_DISTANCES = (0, 1 << 10, 2 << 10, 4 << 10, 8 << 10)
"""Distances in bytes at which weights of dot products are prefetched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TileSpace(Space[TileSchedule]):
    """Blocked loop nests; `in_place` and `pack_rows`: the right operand can be read in place, the left one packed."""

    default: TileSchedule
    tiles: Tiles
    depth: int
    in_place: bool = False
    pack_rows: bool = False

    @property
    def start(self) -> TileSchedule:
        return self.default

    def contains(self, schedule: TileSchedule) -> bool:
        s, tiles = schedule, self.tiles
        if s.lanes != self.default.lanes or not tiles.contains(s.main, s.last):
            return False
        panels = -(-tiles.channels.vectors // s.main.vectors)
        widest = max(t.vectors for t in (s.main, s.last) if t) * s.lanes
        ranges = (
            (1, s.points, max(self.default.points, min(tiles.points, _MOST_POINTS))),
            (int(s.reduction_outside), s.panels, panels),
            (int(s.reduction_outside), s.steps, self.depth),
            (0, s.prefetch, _MOST_PREFETCH),
            (0, s.points * widest * (panels if s.reduction_outside else 1) * 4 * bool(s.steps), _MOST_SUMS),
        )
        forms = (s.pack or self.in_place) and (self.pack_rows or not s.pack_rows)
        return forms and all(low <= n <= high for low, n, high in ranges)

    def near(self, schedule: TileSchedule) -> Iterator[TileSchedule]:
        s = schedule
        for main, last in self.tiles.near(s.main, s.last):
            yield replace(s, main=main, last=last)
        for points in (s.points // 2, s.points * 2):
            yield replace(s, points=max(points, s.main.rows))
        for panels in dict.fromkeys((0, 1, max(1, s.panels // 2), s.panels * 2)):
            yield replace(s, panels=panels)
        for prefetch in (0, 2, 4, 8):
            yield replace(s, prefetch=prefetch)
        yield replace(s, steps=0, reduction_outside=False)
        for steps in (s.steps // 2, s.steps * 2) if s.steps else (self.depth // 64, self.depth // 16):
            yield replace(s, steps=max(8, steps))
        yield replace(s, reduction_outside=not s.reduction_outside)
        yield replace(s, pack=not s.pack)
        yield replace(s, pack_rows=not s.pack_rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class WinogradSpace(Space[WinogradSchedule]):
    """Winograd's transforms with each size of tiles that the halo of the input has room for; `defaults` are the
    schedules of the formulas for these sizes."""

    defaults: tuple[WinogradSchedule, ...]
    tiles: tuple[Tiles, ...]

    @property
    def start(self) -> WinogradSchedule:
        return self.defaults[0]

    def contains(self, schedule: WinogradSchedule) -> bool:
        s = schedule
        matching = [(d, t) for d, t in zip(self.defaults, self.tiles, strict=True) if d.output == s.output]
        if not matching:
            return False
        ((default, tiles),) = matching
        if s.lanes != default.lanes or not tiles.contains(s.main, s.last) or not 0 <= s.prefetch <= _MOST_PREFETCH:
            return False
        if bool(s.expand) != bool(default.expand) or not 0 <= s.expand <= 2 * default.expand or (s.expand and s.fused):
            return False
        most = tiles.points
        return 1 <= s.tiles <= max(default.tiles, min(most, _MOST_POINTS)) if s.fused else s.tiles == most

    def near(self, schedule: WinogradSchedule) -> Iterator[WinogradSchedule]:
        s = schedule
        yield from self.defaults
        tiles = next(t for d, t in zip(self.defaults, self.tiles, strict=True) if d.output == s.output)
        yield replace(s, fused=not s.fused, tiles=tiles.points if s.fused else -(-tiles.points // tiles.target.threads))
        for main, last in tiles.near(s.main, s.last):
            yield replace(s, main=main, last=last)
        for size in (s.tiles // 2, s.tiles * 2):
            yield replace(s, tiles=min(max(1, size), tiles.points))
        for channels in (s.expand // 2, s.expand * 2):
            yield replace(s, expand=channels)
        for prefetch in (0, 2, 6, 12):
            yield replace(s, prefetch=prefetch)


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthwiseSpace(Space[DepthwiseSchedule]):
    default: DepthwiseSchedule
    columns: int
    rows: int

    @property
    def start(self) -> DepthwiseSchedule:
        return self.default

    def contains(self, schedule: DepthwiseSchedule) -> bool:
        s = schedule
        return s.lanes == self.default.lanes and 1 <= s.columns <= self.columns and 1 <= s.rows <= self.rows

    def near(self, schedule: DepthwiseSchedule) -> Iterator[DepthwiseSchedule]:
        s = schedule
        for step in (1, -1, 2, -2):
            yield replace(s, columns=s.columns + step)
        for rows in (s.rows * 2, s.rows // 2, self.rows):
            yield replace(s, rows=min(max(1, rows), self.rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class GemvSpace(Space[GemvSchedule]):
    default: GemvSchedule
    most: int

    @property
    def start(self) -> GemvSchedule:
        return self.default

    def contains(self, schedule: GemvSchedule) -> bool:
        s, default = schedule, self.default
        same = (s.lanes, s.rows, s.part) == (default.lanes, default.rows, default.part)
        divides = not s.part or COLUMNS_OF_UNIT % max(1, s.channels) == 0
        return same and divides and 1 <= s.channels <= self.most and s.ahead in _DISTANCES

    def near(self, schedule: GemvSchedule) -> Iterator[GemvSchedule]:
        for channels in (schedule.channels * 2, schedule.channels // 2):
            yield replace(schedule, channels=channels)
        for ahead in _DISTANCES:
            yield replace(schedule, ahead=ahead)


AnySpace = Space[Any]


def spaces(kernel: Kernel, target: Cpu, parameters: frozenset[str]) -> dict[type[Schedule], AnySpace]:
    """The spaces of a kernel by the class of their schedules. `parameters` names the buffers that rarely change."""
    shape = describe_contraction(kernel) if contracts(kernel) else describe_loops(kernel)
    all_spaces = _SPACES[type(shape)](shape, target, parameters)
    return {type(space.start): space for space in all_spaces}


def allows(kernel: Kernel, schedule: Schedule, target: Cpu, parameters: frozenset[str]) -> bool:
    """True if the schedule computes the kernel rightly."""
    space = spaces(kernel, target, parameters).get(type(schedule))
    return space is not None and space.contains(schedule)


def alternatives(kernel: Kernel, schedule: Schedule, target: Cpu, parameters: frozenset[str]) -> list[Schedule]:
    """The schedules near `schedule`: those of other kinds that the formulas choose, and its neighbours."""
    by_kind = spaces(kernel, target, parameters)
    if type(schedule) not in by_kind:
        return []
    others = [space.start for kind, space in by_kind.items() if kind is not type(schedule)]
    return [*others, *by_kind[type(schedule)].neighbours(schedule)]


def tuned_schedule(kernel: Kernel, target: Cpu, parameters: frozenset[str]) -> Schedule | None:
    """The schedule that a search found for a kernel, if it is one that computes it."""
    tuned = target.tuned.find(kernel, parameters)
    if tuned is None or allows(kernel, tuned, target, parameters):
        return tuned
    warn(f"{tuned} is not a schedule for {kernel.name}: tune the model again", RuntimeWarning, stacklevel=3)
    return None


def _convolution(shape: ConvShape, target: Cpu, parameters: frozenset[str]) -> tuple[AnySpace, ...]:
    if not has_micro_kernel(shape):
        return ()
    return _depthwise(shape, target) if shape.is_depthwise else (*_winograd(shape, target), _direct(shape, target))


def _any_product(shape: GemmShape, target: Cpu, parameters: frozenset[str]) -> tuple[AnySpace, ...]:
    return (*_dots(shape, target), _product(shape, target, parameters)) if has_micro_kernel(shape) else ()


_SPACES: Mapping[type[Any], Callable[[Any, Cpu, frozenset[str]], tuple[AnySpace, ...]]] = {
    ConvShape: _convolution,
    GemmShape: _any_product,
    WeightGradientShape: lambda shape, target, parameters: gradient_spaces(shape, target),
    LoopNest: lambda shape, target, parameters: loop_spaces(shape, target),
}
"""The spaces of each class of kernels."""


def _direct(shape: ConvShape, target: Cpu) -> TileSpace:
    channels = direct_channels(shape, target)
    tiles = Tiles(channels=channels, points=shape.images * shape.points, target=target)
    depth = shape.channels * shape.taps * (channels.channels // shape.filters)
    return TileSpace(default=direct_blocks(shape, target), tiles=tiles, depth=depth)


def _winograd(shape: ConvShape, target: Cpu) -> tuple[WinogradSpace, ...]:
    sizes = [m for m in usable_tiles(conv_sizes(shape)) if has_winograd_room(shape, m)]
    if not sizes:
        return ()
    channels = winograd_channels(shape, target)
    defaults = tuple(winograd_blocks(shape, m, target) for m in sizes)
    tiles = tuple(Tiles(channels=channels, points=winograd_tiles(shape, m), target=target) for m in sizes)
    return (WinogradSpace(defaults=defaults, tiles=tiles),)


def _depthwise(shape: ConvShape, target: Cpu) -> tuple[DepthwiseSpace, ...]:
    default = schedule_depthwise(shape, target)
    if default is None:
        return ()
    columns = max(default.columns, target.vector_registers - 2 - shape.taps)
    rows = shape.windows[-2].extent if len(shape.windows) > 1 else 1
    return (DepthwiseSpace(default=default, columns=columns, rows=rows),)


def _dots(shape: GemmShape, target: Cpu) -> tuple[GemvSpace, ...]:
    default = schedule_dots(shape, target)
    if default is None:
        return ()
    return (GemvSpace(default=default, most=max(default.channels, target.vector_registers // (default.rows + 1))),)


def _product(shape: GemmShape, target: Cpu, parameters: frozenset[str]) -> TileSpace:
    default = schedule_product(shape, target, parameters)
    assert default is not None
    columns, lanes = extent_of(shape.kernel, shape.column), sum_lanes(shape.accumulator, 1, target)
    channels = Channels(channels=columns, lanes=lanes, unit=1, vectors=-(-columns // lanes))
    return TileSpace(
        default=default,
        tiles=Tiles(channels=channels, points=shape.count(shape.rows), target=target),
        depth=prod(extent_of(shape.kernel, a) for a in shape.inner),
        in_place=shape.is_uniform and is_readable_in_place(shape),
        pack_rows=shape.is_uniform and is_contiguous_along_rows(shape),
    )
