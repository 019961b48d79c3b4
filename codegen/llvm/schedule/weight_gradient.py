"""Derives the schedules of the weight gradients of convolutions, by formulas from the properties of a CPU."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ....ir.symbolic import deferred, is_symbolic
from ....ir.target import ConvSizes, ConvWindow
from ....ir.types import DType
from ..cpu import Cpu
from ..winograd_tiles import GRADIENT_TILE, usable_gradient_tiles
from .contract import has_room, sum_lanes
from .describe import WeightGradientShape
from .kinds import DepthwiseGradientSchedule, WeightGradientSchedule, WinogradGradientSchedule
from .registers import choose_tiles

_STEPS = 8
"""Positions that a step of a micro-kernel reads: each address is computed once for so many products."""

_POSITIONS = 64
"""The fewest positions in a part of the reduction: sums are read and written once for each part."""


TILES_OF_STEP = 4
"""Tiles that a step of the micro-kernel reads."""

_TILES = 64
"""The most tiles that are multiplied at a time: sums are read and written once for so many."""

_CHANNELS = 32
"""Channels in a unit of products: their transformed data stays in a cache for all filters."""

_SUMS_BYTES = 8 << 20
"""The most memory for sums of parts of an unknown number of tiles."""

_COLUMNS = 6
"""The most positions that a depthwise gradient reads at a time."""


def gradient_block(shape: WeightGradientShape, target: Cpu) -> int:
    """Filters in a block of the cotangent."""
    layout = shape.kernel.buffer(shape.cotangent.x.buffer).layout
    return layout.block if layout else target.channel_block


def schedule_weight_gradient(shape: WeightGradientShape, target: Cpu) -> WeightGradientSchedule | None:
    """Parts of the reduction of which a panel of the cotangent and a block of channels of the data fit three quarters
    of the L1 cache, and units of which the data fits half of the L2 cache. None for sums that are not floats.
    """
    if shape.accumulator not in (DType.F32, DType.F64):
        return None
    block = gradient_block(shape, target)
    lanes = sum_lanes(shape.accumulator, block, target)
    merged = _merge_count(shape.groups, shape.filters, block)
    unit = block // lanes
    vectors = -(-merged * shape.filters // block) * unit
    weights = merged * shape.weights
    main, last = choose_tiles(vectors, weights, unit, target)
    nbytes = shape.accumulator.itemsize
    area = prod(w.stride for w in shape.windows)  # elements of a channel of the data for one position
    room = 3 * target.l1_bytes // 4 // nbytes
    positions = max(_POSITIONS, room // (main.vectors * lanes + block * area))
    cached = target.l2_bytes // 2 // (positions * area * nbytes) * shape.taps
    panels = (vectors - (last.vectors if last else 0)) // main.vectors + (last is not None)
    groups = shape.groups // merged
    weights, panels = deferred(
        _unit, weights, panels, groups, min(weights, max(cached, 8 * main.rows)), main.rows, target.threads
    )
    return WeightGradientSchedule(
        lanes=lanes,
        merged=merged,
        main=main,
        last=last,
        steps=_STEPS,
        positions=positions,
        weights=weights,
        panels=panels,
    )


def schedule_depthwise_gradient(shape: WeightGradientShape, target: Cpu) -> DepthwiseGradientSchedule | None:
    """As many taps in registers as leave room for a few positions, whose number divides the last axis if it can. None
    if the convolution is not depthwise, or one row of taps does not fit the registers."""
    if not shape.is_depthwise or shape.accumulator not in (DType.F32, DType.F64):
        return None
    taps = [w.taps for w in shape.windows]
    rows = min(prod(taps[:-1]), (target.vector_registers - 3) // taps[-1])
    if not rows:
        return None
    width = shape.windows[-1].extent
    most = min(_COLUMNS, depthwise_columns(shape, rows, target))
    columns = most if is_symbolic(width) else next((c for c in range(most, most // 2, -1) if width % c == 0), most)
    lanes = sum_lanes(shape.accumulator, gradient_block(shape, target), target)
    return DepthwiseGradientSchedule(lanes=lanes, columns=columns, rows=rows)


def depthwise_columns(shape: WeightGradientShape, rows: int, target: Cpu) -> int:
    """The positions that fit the registers beside the sums of `rows` rows of taps, and one register of data."""
    return target.vector_registers - 1 - rows * shape.windows[-1].taps


def gradient_sizes(shape: WeightGradientShape) -> ConvSizes:
    """The sizes of the convolution, from which the target chooses a schedule."""
    windows = tuple(
        ConvWindow(outputs=w.extent, taps=w.taps, stride=w.stride, dilation=w.dilation, interior=w.interior)
        for w in shape.windows
    )
    return ConvSizes(
        dtype=shape.data.dtype,
        accumulator=shape.accumulator,
        images=shape.images,
        groups=shape.groups,
        channels=shape.channels,
        filters=shape.filters,
        windows=windows,
    )


def gradient_room(shape: WeightGradientShape) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Positions of the data and of the cotangent that Winograd's tiles read along each axis."""
    outputs = tuple(GRADIENT_TILE * -(-w.extent // GRADIENT_TILE) for w in shape.windows)
    return tuple(n + 2 for n in outputs), outputs


def schedule_winograd_gradient(shape: WeightGradientShape, target: Cpu) -> WinogradGradientSchedule | None:
    """F(4x4, 3x3) if the target chooses it and the halos of blocked operands have room for its tiles, else None."""
    sizes = gradient_sizes(shape)
    if not usable_gradient_tiles(sizes) or not deferred(_gradient_tile, sizes.of_class, target):
        return None
    if not has_winograd_gradient_room(shape):
        return None
    if is_symbolic(gradient_tiles(shape)):
        return _symbolic_winograd_gradient(shape, target)
    return winograd_gradient_forms(shape, target)[0]


def _gradient_tile(sizes: ConvSizes, target: Cpu) -> int:
    return target.winograd_tile(sizes, usable_gradient_tiles(sizes))


def _symbolic_winograd_gradient(shape: WeightGradientShape, target: Cpu) -> WinogradGradientSchedule | None:
    """One launch over parts of any number of tiles, which has at least one tile for each; None if its sums take much
    memory."""
    parts, tiles = target.threads, gradient_tiles(shape)
    if parts * 36 * shape.channels * shape.filters * 4 > _SUMS_BYTES or (parts - 1) * -(-tiles // parts) >= tiles:
        return None
    nest = _winograd_gradient(shape, target)
    return replace(nest, tiles=_TILES, channels=min(_CHANNELS, shape.channels), fused=True, parts=parts)


def _winograd_gradient(shape: WeightGradientShape, target: Cpu) -> WinogradGradientSchedule:
    """A schedule without the numbers that depend on its form."""
    block = gradient_block(shape, target)
    lanes = sum_lanes(shape.accumulator, block, target)
    unit = block // lanes
    vectors = -(-shape.filters // block) * unit
    main, last = choose_tiles(vectors, shape.channels, unit, target)
    return WinogradGradientSchedule(lanes=lanes, main=main, last=last, tiles=0, channels=0, fused=False)


def has_winograd_gradient_room(shape: WeightGradientShape) -> bool:
    """True if F(4x4, 3x3) can compute the gradient, and the halos of blocked operands have room for its tiles."""
    operands = zip((shape.data, shape.cotangent), gradient_room(shape), strict=True)
    return bool(usable_gradient_tiles(gradient_sizes(shape))) and all(has_room(o, n) for o, n in operands)


def gradient_tiles(shape: WeightGradientShape) -> int:
    """The tiles of all images."""
    return shape.images * prod(-(-w.extent // GRADIENT_TILE) for w in shape.windows)


def winograd_gradient_forms(shape: WeightGradientShape, target: Cpu) -> tuple[WinogradGradientSchedule, ...]:
    """The schedules with one launch over parts of the tiles and with two over channels. The first is the one with one
    launch if the sums of the parts and one block of tiles for each take less memory than all transformed tiles."""
    tiles = gradient_tiles(shape)
    share = -(-tiles // min(target.threads, tiles))
    parts = -(-tiles // share)
    nest = _winograd_gradient(shape, target)
    size = -(-share // -(-share // _TILES))
    channels = min(_CHANNELS, shape.channels)
    fused = replace(nest, tiles=_steps(size), channels=channels, fused=True, parts=parts)
    units = -(-shape.channels // _CHANNELS)
    units = -(-units // target.threads) * target.threads
    divided = replace(nest, tiles=_steps(tiles), channels=-(-shape.channels // units))
    memory = parts * shape.channels * shape.filters + parts * min(share, _TILES) * (shape.channels + shape.filters)
    return (fused, divided) if memory < tiles * (shape.channels + shape.filters) else (divided, fused)


def _steps(tiles: int) -> int:
    """The number of tiles, rounded up to whole steps."""
    return -(-tiles // TILES_OF_STEP) * TILES_OF_STEP


def _merge_count(groups: int, filters: int, block: int) -> int:
    """The fewest groups whose filters fill blocks, or all groups."""
    return next(m for m in range(1, groups + 1) if m == groups or (groups % m == 0 and m * filters % block == 0))


def _unit(weights: int, panels: int, groups: int, most: int, rows: int, threads: int) -> tuple[int, int]:
    """(weights of a filter, panels) in a unit, at most `most` weights, such that threads get equal work and the units
    are few: each reads its operands from memory."""
    tiles = -(-weights // rows)
    fewest = -(-weights // most)
    best: tuple[float, int, int] | None = None
    for across in range(1, min(panels, threads) + 1):
        for along in range(fewest, min(tiles, max(fewest, threads)) + 1):
            units = groups * across * along
            busiest = -(-units // threads) * -(-panels // across) * -(-tiles // along)
            cost = busiest * threads / (groups * panels * tiles) + 0.01 * (across + along)
            if best is None or cost < best[0]:
                best = cost, across, along
    assert best is not None
    _, across, along = best
    return min(weights, -(-tiles // along) * rows), -(-panels // across)
