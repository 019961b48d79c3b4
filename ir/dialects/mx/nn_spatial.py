"""Operators that resample the positions of data (N, C, H, W)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import ceil, floor, prod
from typing import TYPE_CHECKING, Literal

import numpy as np

from ...graph import Value
from ...scalar import ReduceOp
from ...symbolic import is_symbolic
from ...types import DType, Shape
from .nn_convolution import Deconvolution
from .operator import Operator, operator
from .parameters import Bool, Int, Ints, Natural, OptionalBool, OptionalFloat, Positive
from .sampling import affine_grid, sample_at_grid
from .shapes import PartialShape, check_window, unify_at
from .taps import blend, multiply

if TYPE_CHECKING:
    from .builder import MxBuilder


def stretch(b: MxBuilder, x: Value, scale: int) -> Value:
    """Repeats each position `scale` times along both axes."""
    return b.custom_gradient(partial(_stretched, scale), partial(_stretched_gradient, scale), x)[0]


def _stretched(scale: int, b: MxBuilder, x: Value) -> Value:
    n, c, h, w = x.type.shape
    spread = b.broadcast(x, (n, c, h, scale, w, scale), (0, 1, 2, 4))
    return b.reshape(spread, (n, c, h * scale, w * scale))


def _stretched_gradient(
    scale: int, b: MxBuilder, operands: object, results: object, cotangents: Sequence[Value]
) -> Sequence[Value]:
    """Sums over windows, which have code of their own."""
    window = (1, 1, scale, scale)
    return [b.reduce_window(ReduceOp.ADD, cotangents[0], window, window, ((0, 0),) * 4)]


@operator("UpSampling")
class UpSampling(Operator):
    """Enlarges images by an integer factor.

    Args:
        data: One or more images (N, C, H, W); with "bilinear" one image and a filter (num_filter, 1, k, k). Several
            images are enlarged to the size of the first result.
        scale: The factor.
        num_filter: Number of channels of data; used with "bilinear".
        sample_type: "nearest" repeats positions, "bilinear" applies the filter as a Deconvolution.
        multi_input_mode: How several results are combined: "concat" concatenates channels, "sum" adds.
    Returns:
        (N, C, H * scale, W * scale).
    Example:
        >>> nd.UpSampling(nd.array([[[[1, 2]]]]), scale=2, sample_type="nearest").asnumpy()[0, 0]
        array([[1., 1., 2., 2.],
               [1., 1., 2., 2.]], dtype=float32)
    """

    inputs = ("data*",)
    scale: Positive
    num_filter: Int = 0
    sample_type: Literal["bilinear", "nearest"]
    multi_input_mode: Literal["concat", "sum"] = "concat"
    num_args: Int
    workspace: Natural = 512

    def variadic_count(self, passed: int | None) -> int:
        return 2 if self.sample_type == "bilinear" else super().variadic_count(passed)

    def variadic_names(self, count: int) -> list[str]:
        return ["data", "weight"] if self.sample_type == "bilinear" else super().variadic_names(count)

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        if self.sample_type == "bilinear":
            kernel = self._deconvolution().kernel
            unify_at(inputs, 1, (self.num_filter, 1, *kernel))

    def _deconvolution(self) -> Deconvolution:
        size, pad = 2 * self.scale - self.scale % 2, ceil((self.scale - 1) / 2)
        return Deconvolution(
            kernel=(size, size),
            stride=(self.scale, self.scale),
            pad=(pad, pad),
            num_filter=self.num_filter,
            num_group=self.num_filter,
        )

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        if self.sample_type == "bilinear":
            return self._deconvolution().decompose(b, *inputs)
        height = inputs[0].type.shape[2] * self.scale
        enlarged = [stretch(b, x, height // x.type.shape[2]) for x in inputs]
        if self.multi_input_mode == "concat":
            return b.concat(enlarged, 1) if len(enlarged) > 1 else enlarged[0]
        total = enlarged[0]
        for other in enlarged[1:]:
            total = b.add(total, other)
        return total


def interpolate(b: MxBuilder, x: Value, axis: int, size: int, align_corners: bool) -> Value:
    """Linear interpolation along one axis to `size` positions."""
    n = x.type.shape[axis]
    if n == size:
        return x
    if is_symbolic(n) or is_symbolic(size):
        position = _computed_positions(b, n, size, align_corners)
        return b.custom_gradient(partial(_between, axis), partial(_between_gradient, axis), x, position)[0]
    position = np.arange(size, dtype=np.float64)
    if align_corners:
        position *= (n - 1) / (size - 1) if size > 1 else 0
    else:
        position = np.maximum((position + 0.5) * n / size - 0.5, 0)
    low = position.astype(np.int32)
    part = position - low
    return blend(b, x, axis, (np.stack([low, np.minimum(low + 1, n - 1)]), np.stack([1 - part, part])))


def _computed_positions(b: MxBuilder, n: int, size: int, align_corners: bool) -> Value:
    """The positions (size,) among `n` elements, which each run computes in float64."""
    index = b.cast(b.iota((size,), DType.I32, 0), DType.F64)
    if align_corners:
        return b.mul(index, (n - 1) / (size - 1) if size > 1 else 0.0)
    position = b.maximum(b.sub(b.div(b.mul(b.add(index, 0.5), n), size), 0.5), 0)
    return b.minimum(position, n - 1)


def _between(axis: int, b: MxBuilder, x: Value, position: Value) -> Value:
    """Linear interpolation at positions along an axis."""
    low = b.cast(position, DType.I32)
    part = b.sub(position, b.cast(low, DType.F64))
    total: Value | None = None
    for place, weight in ((low, b.sub(1, part)), (b.add(low, 1), part)):  # a place beyond the end is clamped
        taken = b.take(x, place, axis)
        share = b.mul(taken, b.broadcast_along(b.cast(weight, x.type.dtype), taken.type.shape, axis))
        total = share if total is None else b.add(total, share)
    assert total is not None
    return total


def _between_gradient(
    axis: int, b: MxBuilder, operands: Sequence[Value], results: object, cotangents: Sequence[Value]
) -> Sequence[Value | None]:
    """A product with the matrix of weights, which fall linearly from 1 at a position to 0 at its neighbours."""
    x, position = operands
    space = position.type.shape[0], x.type.shape[axis]
    distance = b.abs(b.sub(b.broadcast_along(position, space, 0), b.iota(space, DType.F64, 1)))
    weights = b.maximum(b.sub(1, distance), 0)
    return [multiply(b, cotangents[0], axis, b.cast(weights, x.type.dtype)), None]


@operator("_contrib_BilinearResize2D")
class BilinearResize2D(Operator):
    """Resizes images by bilinear interpolation.

    Args:
        data: (N, C, H, W).
        like: An array with the height and width of the result; used with mode "like".
        height: Height of the result; used with mode "size".
        width: Width of the result; used with mode "size".
        scale_height: Factor of the height; an alternative to `height`.
        scale_width: Factor of the width; an alternative to `width`.
        mode: How the size is determined: "size", "like", "odd_scale" (factors; the result is odd), or the nearest even
            or odd size below or above ("to_even_down", "to_even_up", "to_odd_down", "to_odd_up").
        align_corners: True to align the centres of the corner pixels.
    Returns:
        (N, C, height, width).
    Example:
        >>> nd.contrib.BilinearResize2D(nd.array([[[[0, 2]]]]), height=1, width=3).asnumpy()
        array([[[[0., 1., 2.]]]], dtype=float32)
    """

    floats = True
    inputs = ("data", "like?")
    height: Int = 1
    width: Int = 1
    scale_height: OptionalFloat = None
    scale_width: OptionalFloat = None
    mode: Literal["like", "odd_scale", "size", "to_even_down", "to_even_up", "to_odd_down", "to_odd_up"] = "size"
    align_corners: Bool = True

    def has_input(self, name: str) -> bool:
        return self.mode == "like"

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x = inputs[0]
        if self.mode == "like":
            size = inputs[1].type.shape[2:]
        else:
            scaled = self.mode != "size" or (self.scale_height is not None and self.scale_width is not None)
            scales = (self.scale_height, self.scale_width) if scaled else (None, None)
            axes = zip(x.type.shape[2:], (self.height, self.width), scales, strict=True)
            size = tuple(self._extent(*w) for w in axes)
        if min(size) < 1:
            raise ValueError(f"the result would have the size {size}")
        grows = is_symbolic(size[0]) or is_symbolic(x.type.shape[2]) or size[0] >= x.type.shape[2]
        for axis in (3, 2) if grows else (2, 3):  # columns, whose elements are gathered, of fewer rows
            x = interpolate(b, x, axis, size[axis - 2], self.align_corners)
        return x

    def _extent(self, n: int, fixed: int, scale: float | None) -> int:
        odd = n % 2
        match self.mode:
            case "odd_scale":
                factor = 1.0 if scale is None else scale
                return floor((n - 1) * factor) + 1 if odd else floor(n * factor)
            case "to_even_down":
                return n - odd
            case "to_even_up":
                return n + odd
            case "to_odd_down":
                return n - 1 + odd
            case "to_odd_up":
                return n + 1 - odd
            case _:
                return fixed if scale is None else floor(n * scale)


@operator("_contrib_AdaptiveAvgPooling2D")
class AdaptiveAvgPooling2D(Operator):
    """Averages over a grid of windows that evenly cover the positions.

    Args:
        data: (N, C, H, W).
        output_size: Extents of the grid, or one number for both; (1, 1) by default.
    Returns:
        (N, C, *output_size).
    Example:
        >>> nd.contrib.AdaptiveAvgPooling2D(nd.array([[[[1, 3]]]]), output_size=1).asnumpy()
        array([[[[2.]]]], dtype=float32)
    """

    floats = True

    output_size: Ints = ()

    def check(self) -> None:
        if len(self.output_size) > 2 or any(n < 1 for n in self.output_size):
            raise ValueError(f"{self.mx_name()}: output_size={self.output_size}: must be one or two positive numbers")

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x = inputs[0]
        if x.type.rank != 4:
            raise ValueError(f"data must have 4 axes (N, C, H, W), got shape {x.type.shape}")
        rows, columns = self.output_size * 2 if len(self.output_size) == 1 else self.output_size or (1, 1)
        x = self._along(b, self._along(b, x, 3, columns), 2, rows)
        return x

    def _along(self, b: MxBuilder, x: Value, axis: int, size: int) -> Value:
        """Averages along one axis: splits it if the windows are equal, else multiplies by a matrix of weights."""
        shape = x.type.shape
        n = shape[axis]
        if n % size == 0:
            split = b.reshape(x, (*shape[:axis], size, n // size, *shape[axis + 1 :]))
            return b.mean(split, (axis + 1,))
        y = b.contract(x, self._weights(b, n, size, x.type.dtype), axis, 1)
        return y if axis == 3 else b.transpose(y, (0, 1, 3, 2))

    def _weights(self, b: MxBuilder, n: int, size: int, dtype: DType) -> Value:
        """(size, n): the weights of the elements in each window."""
        if is_symbolic(n):
            window, element = (b.iota((size, n), DType.I64, axis) for axis in (0, 1))
            begin = b.div(b.mul(window, n), size)
            end = b.div(b.add(b.mul(b.add(window, 1), n), size - 1), size)
            inside = b.and_(b.ge(element, begin), b.lt(element, end))
            weight = b.div(b.full(inside.type.shape, 1, DType.F64), b.cast(b.sub(end, begin), DType.F64))
            return b.cast(b.select(inside, weight, b.full_like(weight, 0)), dtype)
        weights = np.zeros((size, n))
        for i in range(size):
            begin, end = i * n // size, -(-(i + 1) * n // size)
            weights[i, begin:end] = 1 / (end - begin)
        return b.constant(weights, dtype)


class _Columns(Operator):
    """Shared arguments of several operators.

    Args:
        kernel: Extents of the window.
        stride: Steps of the window; 1 by default.
        dilate: Distances between the elements of the window; 1 by default.
        pad: Zeros added on both sides of each spatial axis; 0 by default.
    """

    def _window(self, kernel: Ints, stride: Ints, dilate: Ints, pad: Ints) -> list[tuple[int, int, int, int]]:
        check_window(self.mx_name(), len(kernel), kernel=kernel, stride=stride, dilate=dilate, pad=pad)
        ones, zeros = (1,) * len(kernel), (0,) * len(kernel)
        return list(zip(kernel, stride or ones, dilate or ones, pad or zeros, strict=True))


@operator("im2col")
class Im2Col(_Columns):
    """The windows of a convolution as columns of a matrix.

    Args:
        data: (N, C, *spatial).
    Returns:
        (N, C * elements of the window, windows).
    Example:
        >>> nd.im2col(nd.ones((1, 2, 4, 4)), kernel=(3, 3)).shape
        (1, 18, 4)
    """

    kernel: Ints
    stride: Ints = ()
    dilate: Ints = ()
    pad: Ints = ()

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x = inputs[0]
        n, c = x.type.shape[:2]
        kernel, stride, dilate, pad = zip(*self._window(self.kernel, self.stride, self.dilate, self.pad), strict=True)
        padding = ((0, 0), (0, 0), *((p, p) for p in pad))
        windows = b.windows(x, 0, (1, 1, *kernel), (1, 1, *stride), padding, (1, 1, *dilate))
        if windows.type.size == 0 and x.type.size:
            raise ValueError(f"kernel {kernel} does not fit {x.type.shape[2:]} padded by {pad}")
        rank = windows.type.rank
        ordered = b.transpose(windows, (0, 1, rank - 1, *range(2, rank - 1)))
        return b.reshape(ordered, (n, c * prod(kernel), prod(windows.type.shape[2:-1])))


@operator("col2im")
class Col2Im(_Columns):
    """Adds columns back into an image: the transpose of im2col.

    Args:
        data: (N, C * elements of the window, windows).
        output_size: Spatial extents of the image.
    Returns:
        (N, C, *output_size).
    Example:
        >>> nd.col2im(nd.ones((1, 18, 4)), output_size=(4, 4), kernel=(3, 3)).shape
        (1, 2, 4, 4)
    """

    output_size: Ints
    kernel: Ints
    stride: Ints = ()
    dilate: Ints = ()
    pad: Ints = ()

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x = inputs[0]
        window = self._window(self.kernel, self.stride, self.dilate, self.pad)
        n, channels = x.type.shape[0], x.type.shape[1] // prod(self.kernel)
        padded = tuple(size + 2 * p for size, (*_, p) in zip(self.output_size, window, strict=True))
        places = b.constant(self._places(window, padded))
        updates = b.transpose(b.reshape(x, (n * channels, places.type.shape[0])), (1, 0))
        zeros = b.full((n * channels, prod(padded)), 0, x.type.dtype)
        image = b.scatter(zeros, places, updates, ReduceOp.ADD, (1,))
        image = b.reshape(image, (n, channels, *padded))
        low = (0, 0, *(p for *_, p in window))
        stop = (n, channels, *(p + size for (*_, p), size in zip(window, self.output_size, strict=True)))
        return b.slice(image, low, stop)

    def _places(self, window: list[tuple[int, int, int, int]], padded: Shape) -> np.ndarray:
        """The position of each element of each column in the flattened padded image: (elements, 1)."""
        axes: list[np.ndarray] = []
        for (k, stride, dilate, _), size in zip(window, padded, strict=True):
            starts = np.arange(0, size - (k - 1) * dilate, stride)
            axes.append(np.arange(k)[:, None] * dilate + starts)
        flat = np.zeros((), np.int64)
        for positions, size in zip(axes, padded, strict=True):
            flat = flat[..., None, None] * size + positions
        rank = len(axes)
        return flat.transpose(*range(0, 2 * rank, 2), *range(1, 2 * rank, 2)).reshape(-1, 1)


def check_size(size: Shape) -> Shape:
    """`size`, the height and width of a grid; ValueError unless it is two positive numbers."""
    if len(size) != 2 or min(size) < 1:
        raise ValueError(f"target_shape={size} must be two positive numbers")
    return size


@operator("GridGenerator")
class GridGenerator(Operator):
    """Computes sampling positions for BilinearSampler, as coordinates x, y in [-1, 1].

    Args:
        data: Affine matrices (N, 6), or with "warp" a flow (N, 2, H, W) in pixels.
        transform_type: "affine" or "warp".
        target_shape: Height and width of the grid; used with "affine".
    Returns:
        (N, 2, H, W).
    Example:
        >>> nd.GridGenerator(nd.array([[1, 0, 0, 0, 1, 0]]), "affine", target_shape=(2, 3)).asnumpy()[0, 0]
        array([[-1.,  0.,  1.],
               [-1.,  0.,  1.]], dtype=float32)
    """

    floats = True

    transform_type: Literal["affine", "warp"]
    target_shape: Ints = (0, 0)

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        data = inputs[0]
        if self.transform_type == "affine":
            check_size(self.target_shape)
            return affine_grid(b, data, self.target_shape)
        _, _, h, w = data.type.shape
        y, x = np.mgrid[:h, :w]
        moved = b.add(data, b.broadcast(b.constant(np.stack([x, y]), data.type.dtype), data.type.shape, (1, 2, 3)))
        halves = b.constant(np.array([2 / max(w - 1, 1), 2 / max(h - 1, 1)]), data.type.dtype)
        return b.sub(b.mul(moved, b.broadcast_along(halves, data.type.shape, 1)), 1)


@operator("BilinearSampler")
class BilinearSampler(Operator):
    """Samples images at the positions of a grid by bilinear interpolation; positions outside are 0.

    Args:
        data: (N, C, H, W).
        grid: (N, 2, H', W') of coordinates x, y in [-1, 1], where -1 and 1 are the centres of the outermost pixels.
    Returns:
        (N, C, H', W').
    """

    floats = True
    inputs = ("data", "grid")
    outputs = ("output", "tmp")
    hidden = 1
    cudnn_off: OptionalBool = None

    def decompose(self, b: MxBuilder, *inputs: Value) -> tuple[Value, Value]:
        return sample_at_grid(b, *inputs), inputs[1]


@operator("SpatialTransformer")
class SpatialTransformer(Operator):
    """Samples images on a regular grid transformed by affine matrices: GridGenerator and BilinearSampler combined.

    Args:
        data: (N, C, H, W).
        loc: (N, 6), the affine matrices.
        target_shape: Height and width of the result.
        transform_type: "affine", the only supported type.
        sampler_type: "bilinear", the only supported type.
    Returns:
        (N, C, *target_shape).
    """

    floats = True
    inputs = ("data", "loc")
    outputs = ("output", "grid")
    hidden = 1
    target_shape: Ints = (0, 0)
    transform_type: Literal["affine"]
    sampler_type: Literal["bilinear"]
    cudnn_off: OptionalBool = None

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        if inputs[0] is not None:
            unify_at(inputs, 1, (inputs[0][0], 6))

    def decompose(self, b: MxBuilder, *inputs: Value) -> tuple[Value, Value]:
        size = check_size(self.target_shape)
        grid = affine_grid(b, inputs[1], size)
        return sample_at_grid(b, inputs[0], grid), grid
