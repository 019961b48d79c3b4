"""Addresses of the elements of a Buffer: physical strides, and addresses of indexed elements as sums over axes."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from ....ir.kernel import Affine, Buffer, Index
from ....ir.lazy_dataclass import dataclass


class ContractionError(ValueError):
    """No schedule or emitter supports the contraction; the message is the reason."""


def fixed_shape(buffer: Buffer) -> tuple[int, ...]:
    """The logical shape. ContractionError if it is a run-time shape."""
    if not all(isinstance(n, int) for n in buffer.shape):
        raise ContractionError(
            f"buffer {buffer.name} has run-time shape {buffer.shape}; contractions are compiled for fixed shapes"
        )
    return tuple(n for n in buffer.shape if isinstance(n, int))


def physical_shape(buffer: Buffer) -> tuple[int, ...]:
    """The extents in memory: [N][blocks][spatial with halo][block] for a blocked layout."""
    shape = fixed_shape(buffer)
    return shape if buffer.layout is None else buffer.layout.physical_shape(shape)


def buffer_strides(buffer: Buffer) -> tuple[int, ...]:
    """The stride along each physical dimension, in elements. ContractionError for run-time strides."""
    if buffer.strides is not None:
        if not all(isinstance(s, int) for s in buffer.strides):
            raise ContractionError(f"buffer {buffer.name} has run-time strides {buffer.strides}")
        return tuple(s for s in buffer.strides if isinstance(s, int))
    shape = physical_shape(buffer)
    return tuple(prod(shape[k + 1 :]) for k in range(len(shape)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """The address of buffer[index], in elements: base + sum(strides[axis] * axis) + the channel's part.

    For a blocked buffer channel c = sum(channel[axis] * axis) is at (c // block) * block_stride + c % block;
    `block` is 0 for row-major memory, whose channel axis is among `strides`.
    """

    base: int
    strides: Mapping[str, int]
    channel: Mapping[str, int]
    block: int
    block_stride: int


def locate(buffer: Buffer, index: Index) -> Located | None:
    """The address of buffer[index]; None if the index gathers or does not fit the buffer's blocks."""
    if not all(isinstance(i, Affine) for i in index):
        return None
    affine = [i for i in index if isinstance(i, Affine)]
    physical = buffer_strides(buffer)
    if buffer.layout is None:
        base, strides = _sum(affine, physical)
        return Located(base=base, strides=strides, channel={}, block=0, block_stride=0)
    low = [0, 0, *(lo for lo, _ in buffer.layout.halo)]
    outer = [
        Affine(i.terms, i.offset + lo) if d != 1 else Affine()
        for d, (i, lo) in enumerate(zip(affine, low, strict=True))
    ]
    base, strides = _sum(outer, physical[:-1])
    block, channel = buffer.layout.block, affine[1]
    blocks, rest = divmod(channel.offset, block)
    if rest and channel.terms:
        return None
    return Located(
        base=base + blocks * physical[1] + rest,
        strides=strides,
        channel=dict(channel.terms),
        block=block,
        block_stride=physical[1],
    )


def _sum(index: list[Affine], strides: tuple[int, ...]) -> tuple[int, dict[str, int]]:
    base, total = 0, dict[str, int]()
    for i, stride in zip(index, strides, strict=True):
        base += i.offset * stride
        for axis, coefficient in i.terms:
            total[axis] = total.get(axis, 0) + coefficient * stride
    return base, total


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The addresses of an operand in a loop nest; element (group, point, channel) is at

    base + sum(groups * group) + sum(points * point) + (channel // block) * stride + channel % block.

    `block` 1 with `stride` 0 means the same element for every channel. `padded`: whole vectors can be read and written
    beyond the last channel, because the layout has padding there.
    """

    base: int
    groups: tuple[int, ...]
    points: tuple[int, ...]
    block: int
    stride: int
    padded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """The axes of a loop nest by role. `channels` is (group axis, filter axis) of a convolution whose groups were
    merged by `merged`.
    """

    groups: tuple[str, ...]
    points: tuple[str, ...]
    channel: str
    grouped: str | None = None
    filters: int = 0
    merged: int = 1


def view_of(buffer: Buffer, index: Index, walk: Walk) -> View | None:
    """The operand in the loop nest `walk`; None if it cannot be addressed in vectors of channels."""
    at = locate(buffer, index)
    if at is None:
        return None
    points = tuple(at.strides.get(a, 0) for a in walk.points)
    if at.block and at.channel:
        return _blocked_view(at, points, walk)
    stride = at.strides.get(walk.channel, 0)
    groups = tuple(at.strides.get(a, 0) for a in walk.groups)
    if walk.grouped is not None:
        if at.strides.get(walk.grouped, 0) != walk.filters * stride:
            return None
        groups = (walk.filters * walk.merged * stride,)
    return View(base=at.base, groups=groups, points=points, block=1, stride=stride)


def _blocked_view(at: Located, points: tuple[int, ...], walk: Walk) -> View | None:
    expected = {walk.channel: 1} if walk.grouped is None else {walk.grouped: walk.filters, walk.channel: 1}
    if dict(at.channel) != expected:
        return None
    groups = tuple(at.strides.get(a, 0) for a in walk.groups)
    if walk.grouped is not None:
        blocks, rest = divmod(walk.filters * walk.merged, at.block)
        groups = (0 if rest else blocks * at.block_stride,)
    return View(base=at.base, groups=groups, points=points, block=at.block, stride=at.block_stride, padded=True)
