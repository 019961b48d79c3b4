"""The spaces of schedules, for tuning, of the weight gradients of convolutions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod
from typing import Any

from ....ir.lazy_dataclass import dataclass
from ....ir.symbolic import is_symbolic
from ..cpu import Cpu
from .contract import Channels
from .describe import WeightGradientShape
from .kinds import (
    DepthwiseGradientSchedule,
    WeightGradientSchedule,
    WinogradGradientSchedule,
)
from .space import Space, Tiles
from .weight_gradient import (
    TILES_OF_STEP,
    depthwise_columns,
    gradient_block,
    gradient_tiles,
    has_winograd_gradient_room,
    schedule_depthwise_gradient,
    schedule_weight_gradient,
    winograd_gradient_forms,
)

_MOST_STEPS, _MOST_POSITIONS = 16, 4096
_MOST_SUMS = 4 << 20
"""Bytes of a worker's sums."""


def gradient_spaces(shape: WeightGradientShape, target: Cpu) -> tuple[Space[Any], ...]:
    """The spaces of a weight gradient; none for symbolic extents and for sums that are not floats."""
    default = schedule_weight_gradient(shape, target)
    if default is None or is_symbolic(shape.images) or any(is_symbolic(w.extent) for w in shape.windows):
        return ()
    depthwise = schedule_depthwise_gradient(shape, target)
    if depthwise is not None:
        columns = [
            depthwise_columns(shape, rows, target) for rows in range(prod(w.taps for w in shape.windows[:-1]) + 1)
        ]
        return (DepthwiseGradientSpace(default=depthwise, columns=tuple(columns)),)
    return (*_winograd(shape, target), _direct(shape, default, target))


def _direct(shape: WeightGradientShape, default: WeightGradientSchedule, target: Cpu) -> WeightGradientSpace:
    weights = default.merged * shape.weights
    return WeightGradientSpace(default=default, tiles=_tiles(shape, default, default.merged, weights, target))


def _winograd(shape: WeightGradientShape, target: Cpu) -> tuple[WinogradGradientSpace, ...]:
    if not has_winograd_gradient_room(shape):
        return ()
    forms = winograd_gradient_forms(shape, target)
    tiles = _tiles(shape, forms[0], 1, shape.channels, target)
    return (WinogradGradientSpace(forms=forms, tiles=tiles, count=gradient_tiles(shape), threads=target.threads),)


def _tiles(shape: WeightGradientShape, default: Any, merged: int, weights: int, target: Cpu) -> Tiles:
    block = gradient_block(shape, target)
    unit, filters = block // default.lanes, merged * shape.filters
    channels = Channels(channels=filters, lanes=default.lanes, unit=unit, vectors=-(-filters // block) * unit)
    return Tiles(channels=channels, points=weights, target=target)


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightGradientSpace(Space[WeightGradientSchedule]):
    default: WeightGradientSchedule
    tiles: Tiles

    @property
    def start(self) -> WeightGradientSchedule:
        return self.default

    def contains(self, schedule: WeightGradientSchedule) -> bool:
        s, d = schedule, self.default
        if (s.lanes, s.merged) != (d.lanes, d.merged) or not self.tiles.contains(s.main, s.last):
            return False
        widest = max(t.vectors for t in (s.main, s.last) if t) * s.lanes
        ranges = (
            (1, s.steps, _MOST_STEPS),
            (s.steps, s.positions, max(d.positions, _MOST_POSITIONS)),
            (1, s.weights, self.tiles.points),
            (1, s.panels, self.tiles.channels.vectors),
            (0, s.panels * s.weights * widest * 4, max(_MOST_SUMS, d.panels * d.weights * widest * 4)),
        )
        return all(low <= n <= high for low, n, high in ranges)

    def near(self, schedule: WeightGradientSchedule) -> Iterator[WeightGradientSchedule]:
        s = schedule
        for main, last in self.tiles.near(s.main, s.last):
            yield replace(s, main=main, last=last)
        for positions in (s.positions * 2, s.positions // 2):
            yield replace(s, positions=positions)
        for weights in (s.weights // 2, s.weights * 2):
            rows = -(-weights // s.main.rows) * s.main.rows
            yield replace(s, weights=min(max(1, rows), self.tiles.points))
        for panels in (s.panels // 2, s.panels * 2):
            yield replace(s, panels=panels)
        for steps in (s.steps // 2, s.steps * 2):
            yield replace(s, steps=steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class WinogradGradientSpace(Space[WinogradGradientSchedule]):
    """`forms` are the schedules of the formulas for one launch over parts and for two over channels, the chosen one
    first. The images have `count` tiles."""

    forms: tuple[WinogradGradientSchedule, ...]
    tiles: Tiles
    count: int
    threads: int

    @property
    def start(self) -> WinogradGradientSchedule:
        return self.forms[0]

    def contains(self, schedule: WinogradGradientSchedule) -> bool:
        s, (whole,) = schedule, {f.tiles for f in self.forms if not f.fused}
        if s.lanes != self.start.lanes or not self.tiles.contains(s.main, s.last):
            return False
        if not 1 <= s.channels <= self.tiles.points or s.tiles % TILES_OF_STEP:
            return False
        if not s.fused:
            return (s.tiles, s.parts) == (whole, 1)
        filled = 1 <= s.parts <= 4 * self.threads and (s.parts - 1) * -(-self.count // s.parts) < self.count
        return filled and TILES_OF_STEP <= s.tiles <= whole

    def near(self, schedule: WinogradGradientSchedule) -> Iterator[WinogradGradientSchedule]:
        s = schedule
        yield from (f for f in self.forms if f.fused != s.fused)
        for main, last in self.tiles.near(s.main, s.last):
            yield replace(s, main=main, last=last)
        for channels in (s.channels // 2, s.channels * 2):
            yield replace(s, channels=channels)
        for tiles in (s.tiles // 2, s.tiles * 2) if s.fused else ():
            yield replace(s, tiles=-(-tiles // TILES_OF_STEP) * TILES_OF_STEP)
        for parts in (s.parts * 2, s.parts // 2) if s.fused else ():
            yield replace(s, parts=parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthwiseGradientSpace(Space[DepthwiseGradientSchedule]):
    """`columns[r]`: the most columns beside the sums of r rows of taps."""

    default: DepthwiseGradientSchedule
    columns: tuple[int, ...]

    @property
    def start(self) -> DepthwiseGradientSchedule:
        return self.default

    def contains(self, schedule: DepthwiseGradientSchedule) -> bool:
        s = schedule
        if s.lanes != self.default.lanes or not 1 <= s.rows < len(self.columns):
            return False
        return 1 <= s.columns <= self.columns[s.rows]

    def near(self, schedule: DepthwiseGradientSchedule) -> Iterator[DepthwiseGradientSchedule]:
        s = schedule
        for step in (1, -1, 2, -2):
            yield replace(s, columns=s.columns + step)
        for rows in (s.rows - 1, s.rows + 1):
            yield replace(s, rows=rows)
