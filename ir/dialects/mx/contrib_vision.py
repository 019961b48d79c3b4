"""Pooling of regions of interest, which are rows (batch index, x1, y1, x2, y2) in the image's coordinates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...graph import Graph, Value
from ...types import DType, Shape
from ..core.gradient import pull_back
from .builder import MxBuilder
from .gradients import first_maximum
from .operator import Operator, operator
from .parameters import Bool, Float, Int, Ints


def corner(b: MxBuilder, rois: Value, index: int) -> Value:
    """One number per region: (R, 5) -> (R,)."""
    return b.reshape(b.slice_axis(rois, 1, index, index + 1), (rois.type.shape[0],))


def check_regions(data: Value, rois: Value, size: Shape, scale: float, width: int = 5) -> None:
    """ValueError unless data has 4 axes, regions have `width` numbers, and size and scale are valid."""
    if data.type.rank != 4 or rois.type.rank != 2 or rois.type.shape[1] != width:
        raise ValueError(f"takes data (N, C, H, W) and rois (R, {width}), got {data.type.shape} and {rois.type.shape}")
    if len(size) != 2 or min(size) < 1 or scale < 0:
        raise ValueError(f"pooled_size={size} must be two positive numbers, spatial_scale={scale} non-negative")


@operator("ROIPooling", aliases=("_npx_roi_pooling",))
class ROIPooling(Operator):
    """The maximum over each cell of a grid on each region of an image; 0 for an empty cell.

    Args:
        data: (N, C, H, W).
        rois: (R, 5), regions: index of the image, then left, top, right and bottom in pixels of the original image.
        pooled_size: Rows and columns of the grid.
        spatial_scale: Size of data relative to the original image.
    Returns:
        (R, C, *pooled_size).
    """

    floats = True
    inputs = ("data", "rois")
    outputs = ("output", "maxidx")
    hidden = 1
    pooled_size: Ints
    spatial_scale: Float

    def decompose(self, b: MxBuilder, *inputs: Value) -> tuple[Value, Value]:
        data, rois = inputs
        check_regions(data, rois, self.pooled_size, self.spatial_scale)
        count, (channels, height, width) = rois.type.shape[0], data.type.shape[1:]
        image = b.take(data, b.cast(corner(b, rois, 0), DType.I32), 0)
        inside_y = self._cells(b, rois, 2, self.pooled_size[0], height)
        inside_x = self._cells(b, rois, 1, self.pooled_size[1], width)
        columns = self._masked_max(b, image, inside_x, (count, channels, height, self.pooled_size[1], width), (0, 3, 4))
        space = (count, channels, self.pooled_size[0], self.pooled_size[1], height)
        across = b.broadcast(b.transpose(columns, (0, 1, 3, 2)), space, (0, 1, 3, 4))
        mask = b.broadcast(inside_y, space, (0, 2, 4))
        best = first_maximum(b, b.select(mask, across, b.full_like(across, -np.inf)), (4,))
        output = b.select(b.is_inf(best), b.full_like(best, 0), best)
        return output, b.full_like(output, -1)

    def _masked_max(self, b: MxBuilder, image: Value, inside: Value, space: Shape, axes: tuple[int, ...]) -> Value:
        spread = b.broadcast(image, space, (0, 1, 2, 4))
        mask = b.broadcast(inside, space, axes)
        return first_maximum(b, b.select(mask, spread, b.full_like(spread, -np.inf)), (4,))

    def _cells(self, b: MxBuilder, rois: Value, first: int, cells: int, extent: int) -> Value:
        """BOOL (R, cells, extent): true if a position of one axis is in a cell."""
        count = rois.type.shape[0]
        rois = (
            b.cast(rois, DType.F32) if rois.type.dtype.bits < 32 else rois
        )  # a cell's end must not depend on 16-bit rounding
        begin, end = (b.round(b.mul(corner(b, rois, i), self.spatial_scale)) for i in (first, first + 2))
        size = b.div(b.maximum(b.add(b.sub(end, begin), 1), 1), cells)
        flat = (count, cells)
        step = b.iota(flat, DType.I32, 1)
        size, begin = b.broadcast_along(size, flat, 0), b.broadcast_along(begin, flat, 0)
        low = b.add(b.floor(b.mul(b.cast(step, size.type.dtype), size)), begin)
        high = b.add(b.ceil(b.mul(b.cast(b.add(step, 1), size.type.dtype), size)), begin)
        space = (count, cells, extent)
        position = b.iota(space, size.type.dtype, 2)
        return b.and_(b.ge(position, b.broadcast(low, space, (0, 1))), b.lt(position, b.broadcast(high, space, (0, 1))))


def bilinear(b: MxBuilder, pixels: Value, batch: Value, y: Value, x: Value) -> Value:
    """Samples (P, C) of pixels (N, H, W, C) at (P,) positions, clamped to the border; 0 beyond one position outside."""
    images, height, width, channels = pixels.type.shape
    outside = b.or_(b.or_(b.lt(y, -1), b.gt(y, height)), b.or_(b.lt(x, -1), b.gt(x, width)))
    weight = b.select(b.or_(outside, b.lt(batch, 0)), b.full_like(y, 0), b.full_like(y, 1))
    y, x = (b.minimum(b.maximum(v, 0), n - 1) for v, n in ((y, height), (x, width)))
    top, left = b.floor(y), b.floor(x)
    dy, dx = b.sub(y, top), b.sub(x, left)
    rows = b.reshape(pixels, (images * height * width, channels))
    first = b.mul(b.cast(batch, DType.I32), height)
    total: Value | None = None
    for row, column in ((0, 0), (0, 1), (1, 0), (1, 1)):
        share = b.mul(b.mul(dy if row else b.sub(1, dy), dx if column else b.sub(1, dx)), weight)
        below = b.cast(b.minimum(b.add(top, row), height - 1), DType.I32)
        aside = b.cast(b.minimum(b.add(left, column), width - 1), DType.I32)
        place = b.add(b.mul(b.add(first, below), width), aside)
        corner = b.gather(rows, b.expand_dims(place, 1), (0,))
        part = b.mul(corner, b.broadcast_along(share, corner.type.shape, 0))
        total = part if total is None else b.add(total, part)
    assert total is not None
    return total


class _Aligned(Operator):
    """Shared arguments of several operators.

    Args:
        data: (N, C, H, W).
        rois: Regions in pixels of the original image.
        pooled_size: Rows and columns of the grid.
        spatial_scale: Size of data relative to the original image.
    """

    floats = True
    inputs = ("data", "rois")
    pooled_size: Ints
    spatial_scale: Float

    @property
    def sampled(self) -> int:
        raise NotImplementedError

    def _axis(self, b: MxBuilder, rois: Value, along: int) -> list[Value]:
        """The start of each region, the extent of its cells and the samples per cell along one axis (0 or 1)."""
        raise NotImplementedError

    def _samples(self, b: MxBuilder, size: Value) -> Value:
        return b.full_like(size, self.sampled) if self.sampled > 0 else b.maximum(b.ceil(size), 1)

    def _mean(self, b: MxBuilder, data: Value, rois: Value) -> Value:
        """(R, C, cells y, cells x)."""
        geometry = [v for along in range(2) for v in self._axis(b, rois, along)]
        sample = self._adaptive if self.sampled <= 0 else self._fixed
        total = sample(b, b.transpose(data, (0, 2, 3, 1)), rois, geometry)
        samples = b.mul(geometry[2], geometry[5])
        mean = b.div(total, b.broadcast_along(samples, total.type.shape, 0))
        return b.transpose(mean, (0, 3, 1, 2))

    def _rotated(self, b: MxBuilder, rois: Value, y: Value, x: Value) -> tuple[Value, Value]:
        """The positions of samples (R, cells y, cells x) in data."""
        return y, x

    def _sample(
        self, b: MxBuilder, pixels: Value, rois: Value, geometry: list[Value], row: Value, column: Value
    ) -> Value:
        """One sample of every cell: (R, cells y, cells x, C). `row` and `column` are scalars."""
        space = (rois.type.shape[0], *self.pooled_size)
        y = self._place(b, geometry[:3], row, space, 1)
        x = self._place(b, geometry[3:], column, space, 2)
        y, x = self._rotated(b, rois, y, x)
        batch = b.broadcast_along(corner(b, rois, 0), space, 0)
        flat = [b.reshape(v, (batch.type.size,)) for v in (batch, y, x)]
        return b.reshape(bilinear(b, pixels, *flat), (*space, pixels.type.shape[3]))

    def _place(self, b: MxBuilder, axis: list[Value], which: Value, space: Shape, along: int) -> Value:
        begin, size, samples = (b.broadcast_along(v, space, 0) for v in axis)
        cell = b.iota(space, size.type.dtype, along)
        within = b.div(b.add(b.broadcast(which, space, ()), 0.5), samples)
        return b.add(begin, b.mul(b.add(cell, within), size))

    def _fixed(self, b: MxBuilder, pixels: Value, rois: Value, geometry: list[Value]) -> Value:
        total: Value | None = None
        for k in range(self.sampled**2):
            at = [b.full((), n, rois.type.dtype) for n in divmod(k, self.sampled)]
            part = self._sample(b, pixels, rois, geometry, *at)
            total = part if total is None else b.add(total, part)
        assert total is not None
        return total

    def _adaptive(self, b: MxBuilder, pixels: Value, rois: Value, geometry: list[Value]) -> Value:
        """A loop over the samples of the cell with the most samples; cells with fewer skip the others."""
        return b.custom_gradient(self._looped, self._looped_gradient, pixels, rois, *geometry)[0]

    def _looped(self, b: MxBuilder, pixels: Value, rois: Value, *geometry: Value) -> Value:
        rows, columns = (b.cast(b.max(geometry[i]), DType.I32) for i in (2, 5))
        total = b.full((rois.type.shape[0], *self.pooled_size, pixels.type.shape[3]), 0, pixels.type.dtype)
        state = [b.full((), 0, DType.I32), total, rows, columns, pixels, rois, *geometry]
        return b.while_(_more(state), self._step(state), *state)[1]

    def _step(self, state: list[Value]) -> Graph:
        b = MxBuilder("sample")
        index, total, rows, columns, pixels, rois, *geometry = [b.input(v.type) for v in state]
        part = self._counted(b, index, columns, pixels, rois, geometry)
        return b.build([b.add(index, 1), b.add(total, part), rows, columns, pixels, rois, *geometry])

    def _counted(
        self, b: MxBuilder, index: Value, columns: Value, pixels: Value, rois: Value, geometry: list[Value]
    ) -> Value:
        """Sample number `index` of every cell; 0 for cells with fewer samples."""
        row, column = (b.cast(v, rois.type.dtype) for v in (b.div(index, columns), b.mod(index, columns)))
        part = self._sample(b, pixels, rois, geometry, row, column)
        counted = b.and_(_below(b, row, geometry[2]), _below(b, column, geometry[5]))
        return b.select(b.broadcast_along(counted, part.type.shape, 0), part, b.full_like(part, 0))

    def _looped_gradient(
        self, b: MxBuilder, operands: Sequence[Value], results: object, cotangents: Sequence[Value]
    ) -> list[Value | None]:
        """The gradient with respect to the pixels: the same loop, which sums the gradients of the samples."""
        pixels, _, *geometry = operands
        rows, columns = (b.cast(b.max(geometry[i]), DType.I32) for i in (2, 5))
        state = [b.full((), 0, DType.I32), b.full_like(pixels, 0), rows, columns, *operands, cotangents[0]]
        total = b.while_(_more(state), self._step_back(state), *state)[1]
        return [total, *[None] * (len(operands) - 1)]

    def _step_back(self, state: list[Value]) -> Graph:
        b = MxBuilder("sample_backward")
        index, total, rows, columns, pixels, rois, *geometry, g = [b.input(v.type) for v in state]
        part = self._counted(b, index, columns, pixels, rois, geometry)
        (gradient,) = pull_back(b, b.nodes, {part: g}, [pixels])
        return b.build([b.add(index, 1), b.add(total, gradient), rows, columns, pixels, rois, *geometry, g])


@operator("_contrib_ROIAlign")
class ROIAlign(_Aligned):
    """The mean of bilinear samples in each cell of a grid on each region; 0 for a region with a negative index.

    Args:
        rois: (R, 5), regions: index of the image, then left, top, right and bottom in pixels of the original image.
        sample_ratio: Number of samples along each axis of a cell; if below 1, the number of positions it covers.
        position_sensitive: True if each cell reads its own channels.
        aligned: True to shift regions by half a pixel, because pixel centres are at half integers.
    Returns:
        (R, C, *pooled_size).
    """

    sample_ratio: Int = -1
    position_sensitive: Bool = False
    aligned: Bool = False

    @property
    def sampled(self) -> int:
        return self.sample_ratio

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        data, rois = inputs
        check_regions(data, rois, self.pooled_size, self.spatial_scale)
        output = self._mean(b, data, b.stop_gradient(rois))
        return self._diagonal(b, output) if self.position_sensitive else output

    def _axis(self, b: MxBuilder, rois: Value, along: int) -> list[Value]:
        shift = 0.5 if self.aligned else 0.0
        ends = (2 - along, 4 - along)
        begin, end = (b.sub(b.mul(corner(b, rois, i), self.spatial_scale), shift) for i in ends)
        extent = b.sub(end, begin)
        size = b.div(extent if self.aligned else b.maximum(extent, 1), self.pooled_size[along])
        return [begin, size, self._samples(b, size)]

    def _diagonal(self, b: MxBuilder, pooled: Value) -> Value:
        """Channel (c, i, j) at cell (i, j): each cell has its own channels."""
        count, channels, rows, columns = pooled.type.shape
        split = b.reshape(pooled, (count, channels // (rows * columns), rows * columns, rows * columns))
        cells = np.arange(rows * columns, dtype=np.int32)
        picked = b.gather(split, b.constant(np.stack([cells, cells], 1)), (2, 3))
        return b.reshape(b.transpose(picked, (1, 2, 0)), (count, channels // (rows * columns), rows, columns))


@operator("_contrib_RROIAlign")
class RROIAlign(_Aligned):
    """ROIAlign for rotated regions.

    Args:
        rois: (R, 6), regions: index of the image, centre x and y, width, height, and degrees counterclockwise.
        sampling_ratio: Number of samples along each axis of a cell; if below 1, the number of positions it covers.
    Returns:
        (R, C, *pooled_size).
    """

    sampling_ratio: Int = -1

    @property
    def sampled(self) -> int:
        return self.sampling_ratio

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        data, rois = inputs
        check_regions(data, rois, self.pooled_size, self.spatial_scale, width=6)
        return self._mean(b, data, b.stop_gradient(rois))

    def _axis(self, b: MxBuilder, rois: Value, along: int) -> list[Value]:
        """Relative to the region's centre."""
        extent = b.maximum(b.mul(corner(b, rois, 4 - along), self.spatial_scale), 1)
        size = b.div(extent, self.pooled_size[along])
        return [b.mul(extent, -0.5), size, self._samples(b, size)]

    def _rotated(self, b: MxBuilder, rois: Value, y: Value, x: Value) -> tuple[Value, Value]:
        angle = b.mul(corner(b, rois, 5), np.pi / 180)
        center = [b.mul(corner(b, rois, i), self.spatial_scale) for i in (2, 1)]
        cosine, sine, down, right = (
            b.broadcast_along(v, y.type.shape, 0) for v in (b.cos(angle), b.sin(angle), *center)
        )
        rotated_y = b.sub(b.mul(y, cosine), b.mul(x, sine))
        rotated_x = b.add(b.mul(x, cosine), b.mul(y, sine))
        return b.add(rotated_y, down), b.add(rotated_x, right)


def _below(b: MxBuilder, number: Value, limits: Value) -> Value:
    return b.lt(b.broadcast(number, limits.type.shape, ()), limits)


def _more(state: list[Value]) -> Graph:
    """BOOL: true if the loop's index is less than rows times columns."""
    b = MxBuilder("more_samples")
    index, _, rows, columns, *_ = [b.input(v.type) for v in state]
    return b.build([b.lt(index, b.mul(rows, columns))])
