"""Converts a convolution to a `Problem`, the form that the loop nest of contractions computes.

Points are output pixels, channels are filters. The conversion chooses the memory of the input (`InputPlace`), merges
groups that are narrower than a block of channels, and lists the offsets of the reduction: taps and input channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import prod

from ....ir.kernel import Buffer
from ....ir.lazy_dataclass import dataclass
from ....ir.symbolic import is_symbolic
from ..schedule.describe import NO_AXIS, ContractionError, ConvShape, WindowedOperand, extent_of
from ..schedule.segments import NO_WEIGHT, UNROLL, Box, Segment, offsets, plain_segments
from ..schedule.strides import View, Walk, buffer_strides, fixed_shape, locate
from .epilogue import make_epilogue
from .line_taps import LineTaps
from .problem import Problem, WeightSource, collapsed

_SHORTEST_STEP = 4
"""The fewest channels of a step: the loop over shorter ones takes too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputPlace:
    """The memory from which a convolution reads its input: the kernel's buffer, or a padded copy in the workspace.

    Element (image n, channel c, position p) of the padded input is at base + n * image + (c // block) * channel +
    c % block + sum(p * space); block 1 is row-major. Position 0 is the first tap of the first output. `extents` are
    the numbers of positions of a copy.
    """

    copied: bool
    base: int
    image: int
    block: int
    channel: int
    space: tuple[int, ...]
    extents: tuple[int, ...] = ()
    images: int
    channels: int

    @property
    def elements(self) -> int:
        """The size of a copy in elements."""
        return self.images * -(-self.channels // self.block) * self.block * prod(self.extents)


def total_channels(shape: ConvShape | WindowedOperand) -> int:
    return shape.groups * shape.channels


def input_place(
    shape: ConvShape | WindowedOperand, block: int, room: tuple[int, ...] | None = None, blocked: bool = False
) -> InputPlace:
    """The input itself if it is blocked with a large enough halo, or row-major without padding; else a copy.

    `room` is the number of positions that are read (default: the windows' reach). `block` is the block of a copy (1:
    row-major, for few channels). `blocked`: a row-major input is always copied.
    """
    reach = room or tuple(w.reach for w in shape.windows)
    x = shape.kernel.buffer(shape.x.buffer)
    ready = None if blocked and x.layout is None else _ready_input(shape, x, reach)
    if ready is not None:
        return ready
    return copied_place(shape.images, total_channels(shape), block, reach)


def copied_place(images: int, channels: int, block: int, extents: tuple[int, ...]) -> InputPlace:
    """The place of a copy with `extents` positions of `channels` channels, in blocks."""
    area = prod(extents) * block
    return InputPlace(
        copied=True,
        base=0,
        image=area * -(-channels // block),
        block=block,
        channel=area,
        space=tuple(prod(extents[k + 1 :]) * block for k in range(len(extents))),
        extents=extents,
        images=images,
        channels=channels,
    )


def _ready_input(shape: ConvShape | WindowedOperand, x: Buffer, reach: tuple[int, ...]) -> InputPlace | None:
    if shape.dtype is not shape.accumulator or any(w.interior != 1 for w in shape.windows):
        return None
    size = fixed_shape(x)
    halo = x.layout.halo if x.layout else ((0, 0),) * (len(size) - 2)
    for w, room in zip(shape.windows, reach, strict=True):
        low, high = halo[w.dimension - 2] if w.dimension >= 2 else (0, 0)
        if low < w.low or room - w.low > size[w.dimension] + high:
            return None
    return _place_in_buffer(shape, x)


def _place_in_buffer(shape: ConvShape | WindowedOperand, x: Buffer) -> InputPlace:
    at = locate(x, shape.x.index)
    if at is None:
        raise ContractionError(f"{shape.kernel.name}: input {x.name} cannot be addressed")
    physical = buffer_strides(x)
    if at.block and (shape.windows[0].dimension < 2 or set(at.channel) - {shape.channel, shape.group}):
        raise ContractionError(
            f"{shape.kernel.name}: input {x.name} has blocks along an axis that is not its channel axis"
        )
    return InputPlace(
        copied=False,
        base=at.base,
        image=at.strides.get(shape.batch, 0),
        block=at.block or 1,
        channel=at.block_stride if at.block else at.strides[shape.channel],
        space=tuple(physical[w.dimension] for w in shape.windows),
        images=shape.images,
        channels=total_channels(shape),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouping:
    """`merged` groups are computed as one dense group, with zero weights between them, so that groups start at whole
    blocks of channels.
    """

    groups: int
    merged: int
    channels: int
    filters: int


def merge_groups(shape: ConvShape, in_block: int, out_block: int) -> Grouping:
    """Merge the fewest groups whose channel counts are multiples of the blocks, or all groups."""
    g, c, o = shape.groups, shape.channels, shape.filters
    for m in range(1, g + 1):
        if g % m == 0 and (m == g or (m * c % in_block == 0 and m * o % out_block == 0)):
            return Grouping(groups=g // m, merged=m, channels=m * c, filters=m * o)
    raise AssertionError("m == g satisfies the condition")


def conv_problem(shape: ConvShape, place: InputPlace, workspace: int, lines: LineTaps | None = None) -> Problem:
    """The problem of a convolution. `workspace` is the argument slot of the workspace, which holds a copied input.
    `lines` are taps to skip where they meet only padding, if the order of the reduction permits it.
    """
    kernel = shape.kernel
    out = kernel.buffer(shape.store.buffer)
    grouping = merge_groups(shape, place.block, out.layout.block if out.layout else 1)
    walk = conv_walk(shape, grouping)
    groups, points = (grouping.groups,), tuple(extent_of(kernel, a) for a in walk.points)
    x = View(
        base=place.base,
        groups=(_group_step(place, grouping),),
        points=_x_points(shape, place),
        block=place.block,
        stride=place.channel,
    )
    epilogue = make_epilogue(kernel, walk, groups=groups, points=points, channels=grouping.filters)
    points, x, epilogue = collapsed(points, x, epilogue)
    lines = lines if place.block > 1 else None  # a row-major input has few channels, and its taps are unrolled
    return Problem(
        dtype=shape.accumulator,
        groups=groups,
        points=points,
        channels=grouping.filters,
        x=x,
        x_points=points,
        x_slot=workspace if place.copied else kernel.buffers.index(kernel.buffer(shape.x.buffer)),
        segments=_segments(shape, place, grouping, lines is not None),
        weights=_weight_source(shape, grouping),
        w_slot=kernel.buffers.index(kernel.buffer(shape.w.buffer)),
        epilogue=epilogue,
        line_taps=lines,
    )


def conv_walk(shape: ConvShape, grouping: Grouping) -> Walk:
    points = (shape.batch, *(w.out for w in shape.windows))
    if shape.group is None:
        return Walk(groups=(NO_AXIS,), points=points, channel=shape.filter)
    return Walk(
        groups=(NO_AXIS,),
        points=points,
        channel=shape.filter,
        grouped=shape.group,
        filters=shape.filters,
        merged=grouping.merged,
    )


def _group_step(place: InputPlace, grouping: Grouping) -> int:
    blocks, rest = divmod(grouping.channels, place.block)
    return 0 if rest else blocks * place.channel


def _x_points(shape: ConvShape, place: InputPlace) -> tuple[int, ...]:
    return (place.image, *(w.stride * s for w, s in zip(shape.windows, place.space, strict=True)))


def _segments(shape: ConvShape, place: InputPlace, grouping: Grouping, by_line: bool) -> tuple[Segment, ...]:
    """The reduction. `by_line`: taps along the first axis are its outermost axis, and not blocks of channels."""
    w_channel, w_taps = weight_strides(shape)
    taps = tuple(w.taps for w in shape.windows)
    x_taps = tuple(w.dilation * s for w, s in zip(shape.windows, place.space, strict=True))
    if grouping.merged == 1 and (place.block > 1 or 1 < taps[-1] <= UNROLL):
        blocks, rest = divmod(grouping.channels, place.block)
        if not rest:
            return (_box_segment(place, blocks, taps, (x_taps, w_taps), w_channel, by_line),)
    window = list(zip(offsets(taps, x_taps), offsets(taps, w_taps), strict=True))
    if place.block > 1:
        rows = [window[k : k + len(window) // taps[0]] for k in range(0, len(window), len(window) // taps[0])]
        return (_blocked_segment(shape, place, grouping, rows if by_line else [window], w_channel),)
    count = shape.channels
    channels = [(c * place.channel, (c % count) * w_channel) for c in range(grouping.channels)]
    if len(window) == 1 and grouping.merged == 1 and is_symbolic(place.channel):
        segments = (_channel_segment(count, place.channel, w_channel),)
    elif len(window) == 1:
        segments = plain_segments([(0, 0)], channels)
    else:
        row = taps[-1]
        outer = [(x + window[k][0], w + window[k][1]) for x, w in channels for k in range(0, len(window), row)]
        segments = plain_segments(outer, window[:row])
    return segments if grouping.merged == 1 else tuple(_with_owners(s, place, shape) for s in segments)


def _channel_segment(channels: int, x: int, w: int) -> Segment:
    """The reduction over channels with these strides. Code computes the offsets of the steps, each of one product."""
    return Segment(steps=Box((channels,), (x,)), unroll=(0,), sources=Box((channels,), (w,)))


def _box_segment(
    place: InputPlace,
    blocks: int,
    taps: tuple[int, ...],
    strides: Sequence[tuple[int, ...]],
    channel: int,
    by_line: bool,
) -> Segment:
    """The reduction over whole blocks of channels and the window's taps. A step is a block of channels; for a row-major
    input, the taps along the last axis."""
    (*x_taps, x_last), w_taps = strides
    if place.block == 1:
        steps = Box((blocks, *taps[:-1]), (place.channel, *x_taps))
        unroll = tuple(i * x_last for i in range(taps[-1]))
        return Segment(steps=steps, unroll=unroll, sources=Box((blocks, *taps), (channel, *w_taps)))
    axes = [(blocks, place.channel, place.block * channel), *zip(taps, (*x_taps, x_last), w_taps, strict=True)]
    if by_line:
        axes[:2] = reversed(axes[:2])
    extents, x, w = zip(*axes, strict=True)
    steps, sources = Box(extents, x), Box((*extents, place.block), (*w, channel))
    return Segment(steps=steps, unroll=tuple(range(place.block)), sources=sources)


def _with_owners(segment: Segment, place: InputPlace, shape: ConvShape) -> Segment:
    """The segment with owners, for a row-major input: offsets determine the channels and these the groups."""
    return replace(segment, owners=tuple(o // place.channel // shape.channels for o in segment.inputs))


def _blocked_segment(
    shape: ConvShape, place: InputPlace, grouping: Grouping, windows: list[list[tuple[int, int]]], w_channel: int
) -> Segment:
    """The reduction over blocks of channels, of which the last is partly empty, for each part of the window in turn. A
    step is a block, or the channels of the last one if steps of so many fill the other blocks."""
    block, count, channels = place.block, grouping.channels, shape.channels
    rest = count % block
    unroll = tuple(range(rest if rest >= _SHORTEST_STEP and block % rest == 0 else min(block, count)))
    steps: list[int] = []
    sources: list[int] = []
    owners: list[int] = []
    for window, first in product(windows, range(0, count, len(unroll))):
        block_channels = range(first, first + len(unroll))
        at = [c % channels * w_channel if c < count else None for c in block_channels]
        for x, tap in window:
            steps.append(first // block * place.channel + first % block + x)
            sources.extend(NO_WEIGHT if a is None else a + tap for a in at)
        if grouping.merged > 1:
            owners.extend([c // channels for c in block_channels] * len(window))
    return Segment(steps=tuple(steps), unroll=unroll, sources=tuple(sources), owners=tuple(owners))


def weight_strides(shape: ConvShape) -> tuple[int, tuple[int, ...]]:
    at = locate(shape.kernel.buffer(shape.w.buffer), shape.w.index)
    if at is None or at.block:
        raise ContractionError(f"{shape.kernel.name}: weights must be row-major with affine indices")
    return at.strides.get(shape.channel, 0), tuple(at.strides.get(w.tap, 0) for w in shape.windows)


def _weight_source(shape: ConvShape, grouping: Grouping) -> WeightSource:
    at = locate(shape.kernel.buffer(shape.w.buffer), shape.w.index)
    assert at is not None
    member = at.strides.get(shape.group, 0) if shape.group else 0
    return WeightSource(
        base=at.base,
        groups=(member * grouping.merged,),
        filter=at.strides.get(shape.filter, 0),
        member=member,
        filters=shape.filters,
        merged=grouping.merged,
        dtype=shape.kernel.buffer(shape.w.buffer).dtype,
        rounded=shape.weights,
    )
