"""Convolution and pooling with windows that computed offsets deform."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ...graph import Value
from ...scalar import ReduceOp
from ...types import DType, Shape
from .contrib_vision import check_regions, corner
from .nn_convolution import add_channel_bias
from .operator import Operator, operator
from .parameters import Bool, Float, Int, Ints, Natural, PlainLayout
from .sampling import sample_at
from .shapes import PartialShape, check_layout, unify_at

if TYPE_CHECKING:
    from .builder import MxBuilder


class _Deformable(Operator):
    """Shared arguments of several operators.

    Args:
        data: (N, C, H, W).
        offset: (N, num_deformable_group * elements of the kernel * 2, *output extents): the displacement of each
            element of the window, y and x, in pixels.
        weight: (num_filter, C / num_group, *kernel).
        bias: (num_filter,); absent with `no_bias`.
        kernel: Extents of the window.
        stride: Steps of the window; 1 by default.
        dilate: Distances between the elements of the window; 1 by default.
        pad: Zeros added on both sides of each spatial axis; 0 by default.
        num_filter: Number of output channels.
        num_group: Number of groups into which channels are split.
        num_deformable_group: Number of groups of channels with their own offsets.
        no_bias: True to leave out the bias.
        im2col_step: Accepted for MXNet's programs; unused.
        layout: Order of the axes; NCHW.
    """

    if TYPE_CHECKING:  # each subclass declares it at MXNet's own place
        layout: Any

    floats = True
    kernel: Ints
    stride: Ints = ()
    dilate: Ints = ()
    pad: Ints = ()
    num_filter: Int
    num_group: Int = 1
    num_deformable_group: Int = 1
    workspace: Natural = 1024
    no_bias: Bool = False

    def has_input(self, name: str) -> bool:
        return not self.no_bias

    def check(self) -> None:
        if len(self.kernel) != 2:
            raise ValueError(f"{self.mx_name()}: kernel={self.kernel}: must have two numbers")
        check_layout(self.mx_name(), self.layout, 2)
        for name in ("stride", "dilate", "pad"):
            pair = getattr(self, name)
            if pair and len(pair) != 2:
                raise ValueError(f"{self.mx_name()}: {name}={pair}: must have two numbers")
        for name in ("num_filter", "num_group", "num_deformable_group"):
            if getattr(self, name) < 1:
                raise ValueError(f"{self.mx_name()}: {name}={getattr(self, name)}: must be at least 1")

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        names = self.input_names()
        if inputs[0] is not None and len(inputs[0]) == 4:
            unify_at(inputs, names.index("weight"), (self.num_filter, inputs[0][1] // self.num_group, *self.kernel))
        if not self.no_bias:
            unify_at(inputs, names.index("bias"), (self.num_filter,))

    def _convolved(
        self, b: MxBuilder, data: Value, offset: Value, mask: Value | None, weight: Value, bias: list[Value]
    ) -> Value:
        batch, channels = data.type.shape[:2]
        size = self._size(data, offset, mask)
        taps, places, offset_groups = prod(self.kernel), prod(size), self.num_deformable_group
        columns = self._columns(
            b, data, offset, mask, size
        )  # (batch * offset_groups, taps * places, channels / offset_groups)
        split = b.reshape(columns, (batch, offset_groups, taps, places, channels // offset_groups))
        width = channels // self.num_group * taps
        grouped = b.reshape(b.transpose(split, (0, 1, 4, 2, 3)), (batch, self.num_group, width, places))
        filters = b.reshape(weight, (self.num_group, self.num_filter // self.num_group, width))
        result = b.transpose(b.dot(grouped, filters, (1,), (0,), (2,), (2,)), (1, 0, 3, 2))
        return add_channel_bias(b, b.reshape(result, (batch, self.num_filter, *size)), bias)

    def _window(self) -> list[tuple[int, int, int, int]]:
        """Kernel, stride, dilation and padding of each axis."""
        pads = self.pad or (0, 0)
        return list(zip(self.kernel, self.stride or (1, 1), self.dilate or (1, 1), pads, strict=True))

    def _size(self, data: Value, offset: Value, mask: Value | None) -> Shape:
        """The result's spatial extents; ValueError if the operands do not fit."""
        if data.type.rank != 4 or data.type.shape[1] % self.num_group or data.type.shape[1] % self.num_deformable_group:
            raise ValueError(f"data should be (N, C, H, W), C a multiple of the groups, got {data.type.shape}")
        extents = zip(data.type.shape[2:], self._window(), strict=True)
        size = tuple(
            (n + 2 * pad - (kernel - 1) * dilate - 1) // stride + 1 for n, (kernel, stride, dilate, pad) in extents
        )
        count = self.num_deformable_group * prod(self.kernel)
        for name, value, width in (("offset", offset, 2 * count), ("mask", mask, count)):
            expected = (data.type.shape[0], width, *size)
            if value is not None and value.type.shape != expected:
                raise ValueError(f"{name} should be {expected}, got {value.type.shape}")
        return size

    def _columns(self, b: MxBuilder, data: Value, offset: Value, mask: Value | None, size: Shape) -> Value:
        batch, channels, *extents = data.type.shape
        rows, taps, places = batch * self.num_deformable_group, prod(self.kernel), prod(size)
        images = b.reshape(data, (rows, channels // self.num_deformable_group, *extents))
        moves = b.reshape(offset, (rows, taps, 2, places))
        points = [self._positions(b, moves, axis, size) for axis in range(2)]
        if mask is not None:
            sampled = sample_at(b, images, *points)
            return b.mul(sampled, b.broadcast(b.reshape(mask, (rows, taps * places)), sampled.type.shape, (0, 1)))
        return self._sampled_inside(b, images, points)

    def _positions(self, b: MxBuilder, moves: Value, axis: int, size: Shape) -> Value:
        """The positions at which each element of each window is read along one axis: (rows, taps * places)."""
        kernel, stride, dilate, pad = self._window()[axis]
        steps = np.arange(kernel)[:, None] * dilate + np.arange(size[axis]) * stride - pad
        taps = np.indices(self.kernel)[axis].reshape(-1, 1)
        places = np.indices(size)[axis].reshape(1, -1)
        rows, count, _, width = moves.type.shape
        moved = b.reshape(b.slice_axis(moves, 2, axis, axis + 1), (rows, count, width))
        regular = b.constant(steps[taps, places], moves.type.dtype)
        return b.reshape(b.add(moved, b.broadcast_to(regular, moved.type.shape)), (rows, count * width))

    def _sampled_inside(self, b: MxBuilder, images: Value, points: list[Value]) -> Value:
        """Samples that are zero outside [0, extent); positions after the last element are clamped to it."""
        inside: Value | None = None
        clamped: list[Value] = []
        for position, extent in zip(points, images.type.shape[2:], strict=True):
            here = b.and_(b.ge(position, 0), b.lt(position, extent))
            inside = here if inside is None else b.and_(inside, here)
            clamped.append(b.custom_gradient(partial(_cut_off, extent - 1), partial(_below, extent - 1), position)[0])
        assert inside is not None
        sampled = sample_at(b, images, *clamped)
        return b.select(b.broadcast(inside, sampled.type.shape, (0, 1)), sampled, b.full_like(sampled, 0))


def _cut_off(last: int, b: MxBuilder, position: Value) -> Value:
    return b.minimum(position, last)


def _below(
    last: int, b: MxBuilder, operands: Sequence[Value], results: object, cotangents: Sequence[Value]
) -> list[Value]:
    """0 from the last position on."""
    g = cotangents[0]
    return [b.select(b.lt(operands[0], last), g, b.full_like(g, 0))]


@operator("_contrib_DeformableConvolution")
class DeformableConvolution(_Deformable):
    """A convolution with an offset for each element of each window, read by bilinear interpolation.

    Returns:
        (N, num_filter, *output extents).
    """

    inputs = ("data", "offset", "weight", "bias?")
    layout: PlainLayout = None

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        data, offset, weight, *bias = inputs
        return self._convolved(b, data, offset, None, weight, bias)


@operator("_contrib_ModulatedDeformableConvolution")
class ModulatedDeformableConvolution(_Deformable):
    """A deformable convolution that also multiplies each element of each window by a mask.

    Args:
        mask: (N, num_deformable_group * elements of the kernel, *output extents), the factors.
    Returns:
        (N, num_filter, *output extents).
    """

    inputs = ("data", "offset", "mask", "weight", "bias?")
    num_filter: Natural
    num_group: Natural = 1
    num_deformable_group: Natural = 1
    im2col_step: Natural = 64
    layout: PlainLayout = None

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        data, offset, mask, weight, *bias = inputs
        return self._convolved(b, data, offset, mask, weight, bias)


class _PositionSensitive(Operator):
    """Shared arguments of several operators.

    Args:
        data: (N, output_dim * group_size^2, H, W).
        rois: (R, 5), regions: index of the image, then left, top, right and bottom in pixels of the original image.
        spatial_scale: Size of data relative to the original image.
        output_dim: Number of output channels.
        group_size: Edge of the grid of channel groups; `pooled_size` if 0.
        pooled_size: Edge of the grid of cells.
    """

    floats = True
    spatial_scale: Float
    output_dim: Int

    def _region(self, b: MxBuilder, rois: Value, along: int, cells: int, shift: float) -> tuple[Value, Value, Value]:
        """The start and the extent of each region along an axis (0: y, 1: x), and the extent of its cells."""
        scale = self.spatial_scale
        begin = b.sub(b.mul(b.round(corner(b, rois, 2 - along)), scale), shift)
        end = b.sub(b.mul(b.add(b.round(corner(b, rois, 4 - along)), 1), scale), shift)
        extent = b.maximum(b.sub(end, begin), 0.1)
        return begin, extent, b.div(extent, cells)

    def _channels(self, cells: int, groups: int) -> np.ndarray:
        """The input channel of each result channel and cell: (output_dim, cells, cells)."""
        group = np.clip(np.arange(cells) * groups // cells, 0, groups - 1)
        return (np.arange(self.output_dim)[:, None, None] * groups + group[:, None]) * groups + group

    def _check_channels(self, data: Value, groups: int) -> None:
        expected = self.output_dim * groups * groups
        if min(self.output_dim, groups) < 1:
            raise ValueError(f"output_dim={self.output_dim}, groups of {groups}: must be at least 1")
        if data.type.rank != 4 or data.type.shape[1] < expected:
            raise ValueError(f"data should be (N, {expected} or more, H, W), got {data.type.shape}")


@operator("_contrib_PSROIPooling")
class PSROIPooling(_PositionSensitive):
    """The mean of data over each cell of a grid on each region; each cell reads its own channels.

    Returns:
        (R, output_dim, pooled_size, pooled_size).
    """

    inputs = ("data", "rois")
    pooled_size: Int
    group_size: Int = 0

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        """Uses cumulative sums over rectangles, in float64: the mean is a difference of four of them."""
        data, rois = inputs
        groups = self.group_size or self.pooled_size
        check_regions(data, rois, (self.pooled_size, self.pooled_size), self.spatial_scale)
        self._check_channels(data, groups)
        sums = b.pad(b.cast(data, DType.F64), b.constant(0.0, DType.F64), (0, 0, 1, 1), (0, 0, 0, 0))
        sums = b.cumulative(ReduceOp.ADD, b.cumulative(ReduceOp.ADD, sums, 2), 3)
        bounds = [self._cells(b, rois, along, data.type.shape[2 + along]) for along in range(2)]
        space = (rois.type.shape[0], self.output_dim, self.pooled_size, self.pooled_size)
        (low_y, high_y), (low_x, high_x) = (
            [b.broadcast(v, space, (0, 2 + along)) for v in ends] for along, ends in enumerate(bounds)
        )
        batch = b.broadcast_along(b.cast(corner(b, rois, 0), DType.I32), space, 0)
        channel = b.broadcast_to(b.constant(self._channels(self.pooled_size, groups).astype(np.int32)), space)

        def at(y: Value, x: Value) -> Value:
            return elements_at(b, sums, batch, channel, y, x)

        total = b.add(b.sub(b.sub(at(high_y, high_x), at(low_y, high_x)), at(high_y, low_x)), at(low_y, low_x))
        count = b.mul(b.sub(high_y, low_y), b.sub(high_x, low_x))
        empty = b.or_(b.le(high_y, low_y), b.le(high_x, low_x))
        mean = b.cast(b.div(total, b.cast(b.maximum(count, 1), DType.F64)), data.type.dtype)
        return b.select(empty, b.full_like(mean, 0), mean)

    def _cells(self, b: MxBuilder, rois: Value, along: int, extent: int) -> tuple[Value, Value]:
        """The first position of each cell along an axis, and the position after its last: (R, cells) of I32."""
        begin, _, size = self._region(b, rois, along, self.pooled_size, 0.0)
        space = (rois.type.shape[0], self.pooled_size)
        begin, size = (b.broadcast_along(v, space, 0) for v in (begin, size))
        cell = b.iota(space, size.type.dtype, 1)
        low = b.floor(b.add(b.mul(cell, size), begin))
        high = b.ceil(b.add(b.mul(b.add(cell, 1), size), begin))
        first, last = (b.cast(b.minimum(b.maximum(v, 0), extent), DType.I32) for v in (low, high))
        return first, last


def elements_at(b: MxBuilder, data: Value, batch: Value, channel: Value, y: Value, x: Value) -> Value:
    """Single elements of data (N, C, H, W); positions are not checked against the extents."""
    _, channels, height, width = data.type.shape
    place = b.add(b.mul(b.add(b.mul(b.add(b.mul(batch, channels), channel), height), y), width), x)
    return b.gather(b.reshape(data, (data.type.size,)), b.expand_dims(place, place.type.rank), (0,))


@operator("_contrib_DeformablePSROIPooling")
class DeformablePSROIPooling(_PositionSensitive):
    """PSROIPooling with bilinear samples, in cells that offsets move.

    Args:
        trans: (R, 2 * classes, part_size, part_size), the offsets relative to the region's size; absent with
            `no_trans`.
        part_size: Edge of the grid of offsets; `pooled_size` if 0.
        sample_per_part: Number of samples along each axis of a cell.
        trans_std: Factor of the offsets.
        no_trans: True to move no cells.
    Returns:
        (R, output_dim, pooled_size, pooled_size).
    """

    inputs = ("data", "rois", "trans?")
    outputs = ("output", "top_count")
    hidden = 1
    group_size: Int
    pooled_size: Int
    part_size: Int = 0
    sample_per_part: Int = 1
    trans_std: Float = 0.0
    no_trans: Bool = False

    def has_input(self, name: str) -> bool:
        return not self.no_trans

    def decompose(self, b: MxBuilder, *inputs: Value) -> tuple[Value, Value]:
        data, rois, *trans = inputs
        check_regions(data, rois, (self.pooled_size, self.pooled_size), self.spatial_scale)
        if self.trans_std < 0:
            raise ValueError(f"trans_std={self.trans_std} must not be negative")
        self._check_channels(data, self.group_size)
        points = [self._points(b, rois, trans, along) for along in range(2)]
        space = points[0].type.shape
        inside: Value | None = None
        for point, extent in zip(points, data.type.shape[2:], strict=True):
            here = b.and_(b.ge(point, -0.5), b.le(point, extent - 0.5))
            inside = here if inside is None else b.and_(inside, here)
        assert inside is not None
        channels = self._channels(self.pooled_size, self.group_size).astype(np.int32)[..., None, None]
        batch = b.broadcast_along(b.cast(corner(b, rois, 0), DType.I32), space, 0)
        samples = self._sampled(b, data, batch, b.broadcast_to(b.constant(channels), space), points)
        count = b.sum(b.cast(inside, data.type.dtype), (4, 5))
        total = b.sum(b.select(inside, samples, b.full_like(samples, 0)), (4, 5))
        return b.div(total, b.maximum(count, 1)), count

    def _points(self, b: MxBuilder, rois: Value, trans: list[Value], along: int) -> Value:
        """The positions of samples along an axis: (R, output_dim, cells, cells, samples, samples)."""
        cells, samples = self.pooled_size, self.sample_per_part
        begin, extent, size = self._region(b, rois, along, cells, 0.5)
        cube = (rois.type.shape[0], self.output_dim, cells, cells)
        space = (*cube, samples, samples)
        start = b.add(
            b.mul(b.iota(cube, size.type.dtype, 2 + along), b.broadcast_along(size, cube, 0)),
            b.broadcast_along(begin, cube, 0),
        )
        if trans:
            moves = b.mul(self._moves(b, trans[0], along), self.trans_std)
            start = b.add(start, b.mul(moves, b.broadcast_along(extent, cube, 0)))
        step = b.broadcast_along(b.div(size, samples), space, 0)
        return b.add(b.broadcast(start, space, range(4)), b.mul(b.iota(space, size.type.dtype, 4 + along), step))

    def _moves(self, b: MxBuilder, trans: Value, along: int) -> Value:
        """The displacement of each cell of each result channel along an axis: (R, output_dim, cells, cells)."""
        cells, parts = self.pooled_size, self.part_size or self.pooled_size
        classes = trans.type.shape[1] // 2
        if trans.type.rank != 4 or not classes or self.output_dim % classes or trans.type.shape[2:] != (parts, parts):
            raise ValueError(f"trans should be (R, 2 * classes, {parts}, {parts}), got {trans.type.shape}")
        part = np.arange(cells) * parts // cells
        label = np.arange(self.output_dim) // (self.output_dim // classes)
        places = np.broadcast_arrays(2 * label[:, None, None] + 1 - along, part[:, None], part)
        moves = b.gather(trans, b.constant(np.stack(places, -1).astype(np.int64)), (1, 2, 3))
        return b.transpose(moves, (3, 0, 1, 2))

    def _sampled(self, b: MxBuilder, data: Value, batch: Value, channel: Value, points: list[Value]) -> Value:
        """Data interpolated between the four neighbours of positions, which are clamped to the image."""
        height, width = data.type.shape[2:]
        y, x = (b.minimum(b.maximum(p, 0), n - 1) for p, n in zip(points, (height, width), strict=True))
        top, left = b.floor(y), b.floor(x)
        dy, dx = b.sub(y, top), b.sub(x, left)
        total: Value | None = None
        for row, column in ((0, 0), (0, 1), (1, 0), (1, 1)):
            share = b.mul(dy if row else b.sub(1, dy), dx if column else b.sub(1, dx))
            moved = (b.minimum(b.add(v, n), end - 1) for v, n, end in ((top, row, height), (left, column, width)))
            below, aside = (b.cast(v, DType.I32) for v in moved)
            part = b.mul(elements_at(b, data, batch, channel, below, aside), share)
            total = part if total is None else b.add(total, part)
        assert total is not None
        return total
