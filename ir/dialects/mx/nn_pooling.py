"""Pooling over windows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import ceil, prod
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from ...graph import Value
from ...lazy_dataclass import dataclass
from ...scalar import ReduceOp
from ...symbolic import is_symbolic
from ...types import DType, Shape
from .gradients import first_maximum
from .nn_convolution import is_channels_last
from .operator import Operator, operator
from .parameters import Bool, Ints, OptionalBool, OptionalInt, PoolingLayout
from .shapes import PartialShape, check_layout, check_window, either

if TYPE_CHECKING:
    from .builder import MxBuilder

_T = TypeVar("_T")
Pads = tuple[tuple[int, int], ...]


class _PoolingBase(Operator):
    """Shared arguments of several operators.

    Args:
        data: (N, C, *spatial) with one to three spatial axes.
        kernel: Extents of the window, one per spatial axis; unused with `global_pool`.
        pool_type: "max", "avg", "sum", or "lp" for the p-norm of each window.
        global_pool: True for one window that covers all positions.
        pooling_convention: How the number of windows is rounded: "valid" down, "full" up; "same" is ceil(n / stride).
        stride: Steps of the window along the spatial axes; 1 by default.
        pad: Positions added on both sides of each spatial axis; 0 by default.
    """

    if TYPE_CHECKING:  # each subclass declares these at MXNet's own place
        kernel: Shape
        stride: Shape
        pad: Shape
        pool_type: Any
        global_pool: bool

    def check(self) -> None:
        if not self.global_pool:
            rank = len(self.kernel)
            strides, pad = self._steps_and_pads(rank)
            check_window(self.mx_name(), rank, kernel=self.kernel, stride=strides, pad=pad)
            check_layout(self.mx_name(), getattr(self, "layout", None), rank)

    def _steps_and_pads(self, rank: int) -> tuple[Shape, Shape]:
        """The strides and the padding of `rank` spatial axes: defaults if absent; excess numbers are ignored."""
        return self.stride[:rank] or (1,) * rank, self.pad[:rank] or (0,) * rank

    def _spatial(self, rank: int) -> tuple[int, ...]:
        last = is_channels_last(getattr(self, "layout", None))
        return tuple(range(1, rank - 1) if last else range(2, rank))

    def _windows(
        self, b: MxBuilder, x: Value, kernel: Shape, strides: Shape, pads: Pads, counts: Sequence[Counts]
    ) -> Value:
        """Pool x. `counts` has the number of elements per window along each axis; an average divides by their
        product."""
        axes = self._spatial(x.type.rank)

        def full(values: tuple[_T, ...], neutral: _T) -> tuple[_T, ...]:
            return tuple(values[axes.index(i)] if i in axes else neutral for i in range(x.type.rank))

        window, steps, padding = full(kernel, 1), full(strides, 1), full(pads, (0, 0))
        if self.pool_type == "max":
            return self._maximum(b, x, window, steps, padding)
        if self.pool_type == "lp":
            return self._root(b, b.reduce_window(ReduceOp.ADD, self._power(b, x), window, steps, padding))
        total = b.reduce_window(ReduceOp.ADD, x, window, steps, padding)
        return self._divide(b, total, counts, axes) if self.pool_type == "avg" else total

    def _maximum(self, b: MxBuilder, x: Value, window: Shape, steps: Shape, padding: Pads) -> Value:
        return b.reduce_window(ReduceOp.MAX, x, window, steps, padding)

    def _divide(self, b: MxBuilder, total: Value, counts: Sequence[Counts], axes: tuple[int, ...]) -> Value:
        if all(c.uniform for c in counts):
            return b.mul(total, 1.0 / float(prod(c.kernel for c in counts)))
        if any(is_symbolic(c.windows) for c in counts):
            return b.mul(total, self._reciprocals(b, total, counts, axes))
        product = np.ones(())
        for c in counts:
            product = np.multiply.outer(product, c.numbers())
        product = np.maximum(product, 1)  # the average of a window that contains only padding is 0
        if product.size and (product == product.flat[0]).all():
            return b.mul(total, 1.0 / float(product.flat[0]))
        reciprocal = b.constant(1.0 / product, total.type.dtype)
        return b.mul(total, b.broadcast(reciprocal, total.type.shape, axes))

    def _reciprocals(self, b: MxBuilder, total: Value, counts: Sequence[Counts], axes: tuple[int, ...]) -> Value:
        """The reciprocals that an average multiplies by, computed in the graph for symbolic extents."""
        shape = tuple(total.type.shape[a] for a in axes)
        product = b.constant(1.0, DType.F64)
        for k, c in enumerate(counts):
            along = b.broadcast_along(b.cast(c.values(b), DType.F64), shape, k)
            product = b.mul(b.broadcast(product, shape, ()) if not k else product, along)
        reciprocal = b.cast(b.div(1.0, b.maximum(product, 1.0)), total.type.dtype)
        return b.broadcast(reciprocal, total.type.shape, axes)

    def _global(self, b: MxBuilder, x: Value) -> Value:
        axes = self._spatial(x.type.rank)
        match self.pool_type:
            case "max":
                return self._global_maximum(b, x, axes)
            case "avg":
                return b.mean(x, axes, keepdims=True)
            case "lp":
                return self._root(b, b.sum(self._power(b, x), axes, keepdims=True))
            case _:
                return b.sum(x, axes, keepdims=True)

    def _global_maximum(self, b: MxBuilder, x: Value, axes: tuple[int, ...]) -> Value:
        return first_maximum(b, x, axes, keepdims=True)

    def _order(self) -> int:
        order: int | None = getattr(self, "p_value", None)
        if order not in (1, 2, 3):
            raise ValueError(f"p_value={order}: Lp pooling requires 1, 2 or 3")
        return order

    def _power(self, b: MxBuilder, x: Value) -> Value:
        return reduce(b.mul, [x] * self._order())

    def _root(self, b: MxBuilder, x: Value) -> Value:
        match self._order():
            case 1:
                return x
            case 2:
                return b.custom_gradient(type(b).sqrt, self._root_gradient, x)[0]
            case _:
                return b.custom_gradient(type(b).cbrt, self._root_gradient, x)[0]

    def _root_gradient(
        self, b: MxBuilder, operands: object, results: Sequence[Value], cotangents: Sequence[Value]
    ) -> list[Value]:
        """0 for windows of zeros."""
        (y,), order = results, self._order()
        slope = b.div(cotangents[0], b.mul(y if order == 2 else b.square(y), order))
        return [b.select(b.eq(y, 0), b.full_like(y, 0), slope)]


def pooled_extents(spatial: Shape, kernel: Shape, strides: Shape, pad: Shape, convention: str) -> Shape:
    """Number of windows along each axis in MXNet's conventions. ValueError if the kernel does not fit."""
    if len(kernel) != len(spatial):
        raise ValueError(f"kernel {kernel} does not fit an input with {len(spatial)} spatial axes")
    sizes = list(zip(spatial, kernel, strides, pad, strict=True))
    for n, k, _, p in sizes:
        if convention != "same" and k > n + 2 * p:
            raise ValueError(f"kernel size ({k}) exceeds input ({n} padded to {n + 2 * p})")
    if convention == "valid":
        return tuple((n + 2 * p - k) // s + 1 for n, k, s, p in sizes)
    if convention == "full":
        return tuple(1 + ceil((n + 2 * p - k) / s) for n, k, s, p in sizes)
    return tuple(ceil((n + 2 * p) / s) for n, _, s, p in sizes)


_LOWEST = {
    DType.F16: -65504.0,
    DType.BF16: -3.3895313892515355e38,
    DType.F32: -3.4028234663852886e38,
    DType.F64: -1.7976931348623157e308,
}
"""The lowest finite number: MXNet's maximum of a window with only padding. For integers it is the neutral element."""


@dataclass(frozen=True, slots=True)
class Counts:
    """The number of elements that each of `windows` windows covers along an axis with `size` elements; positions past
    the padding never count. `inside`: no window reaches past the padding."""

    size: int
    windows: int
    kernel: int
    stride: int
    pad: int
    include_pad: bool
    inside: bool

    @property
    def uniform(self) -> bool:
        """True if every window covers the whole kernel, whatever the extents."""
        return self.inside and (self.include_pad or self.pad == 0)

    def numbers(self) -> np.ndarray:
        begin = np.arange(self.windows) * self.stride - self.pad
        end = np.minimum(begin + self.kernel, self.size + self.pad)
        return end - begin if self.include_pad else np.maximum(np.minimum(end, self.size) - np.maximum(begin, 0), 0)

    def values(self, b: MxBuilder) -> Value:
        """`numbers` as an I64 value of the graph."""
        begin = b.sub(b.mul(b.iota((self.windows,), DType.I64, 0), self.stride), self.pad)
        end = b.minimum(b.add(begin, self.kernel), self.size + self.pad)
        if self.include_pad:
            return b.sub(end, begin)
        return b.maximum(b.sub(b.minimum(end, self.size), b.maximum(begin, 0)), 0)


@operator("Pooling", aliases=("_npx_pooling",))
class Pooling(_PoolingBase):
    """Reduces each window to one number: maximum, average, sum or p-norm.

        output extent = floor((n + 2 * pad - kernel) / stride) + 1    ("valid"; "full" rounds up)

    Args:
        p_value: The p of "lp".
        count_include_pad: False to divide averages by the number of positions inside data only; True by default.
        layout: Order of the axes of data; by default NCW, NCHW or NCDHW.
    Returns:
        (N, C, *output extents).
    Example:
        >>> x = nd.array([[[[1, 2], [3, 4]]]])
        >>> nd.Pooling(x, kernel=(2, 2), pool_type="avg").asnumpy().item()
        2.5
    """

    kernel: Ints = ()
    pool_type: Literal["avg", "lp", "max", "sum"] = "max"
    global_pool: Bool = False
    cudnn_off: Bool = False
    pooling_convention: Literal["full", "same", "valid"] = "valid"
    stride: Ints = ()
    pad: Ints = ()
    p_value: OptionalInt = None
    count_include_pad: OptionalBool = None
    layout: PoolingLayout = None

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        complete_batch(inputs, outputs)

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x = inputs[0]
        if self.global_pool:
            return self._global(b, x)
        spatial = tuple(x.type.shape[a] for a in self._spatial(x.type.rank))
        strides, pad = self._steps_and_pads(len(spatial))
        out = pooled_extents(spatial, self.kernel, strides, pad, self.pooling_convention)
        if any(p >= k for p, k in zip(pad, self.kernel, strict=True)):
            raise ValueError(f"pad={pad} must be smaller than kernel={self.kernel}")
        sizes = list(zip(spatial, out, self.kernel, strides, pad, strict=True))
        valid = self.pooling_convention == "valid"
        pads = tuple((p, p if valid else (o - 1) * s + k - n - p) for n, o, k, s, p in sizes)
        include = self.count_include_pad is not False
        counts = [Counts(*size, include_pad=include, inside=valid) for size in sizes]
        y = self._windows(b, x, self.kernel, strides, pads, counts)
        past_the_end = any((o - 1) * s - p >= n for n, o, _, s, p in sizes)
        lowest = _LOWEST.get(x.type.dtype) if past_the_end and self.pool_type == "max" else None
        return y if lowest is None else b.maximum(y, lowest)


@operator("Pooling_v1")
class PoolingV1(_PoolingBase):
    """The first version of Pooling, for old models: averages always divide by the extent of the kernel."""

    kernel: Ints = ()
    pool_type: Literal["avg", "max", "sum"] = "max"
    global_pool: Bool = False
    pooling_convention: Literal["full", "valid"] = "valid"
    stride: Ints = ()
    pad: Ints = ()

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        complete_batch(inputs, outputs)

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x = inputs[0]
        if self.global_pool:
            return self._global(b, x)
        spatial = x.type.shape[2:]
        strides, pad = self._steps_and_pads(len(spatial))
        out = pooled_extents(spatial, self.kernel, strides, pad, self.pooling_convention)
        sizes = zip(spatial, out, self.kernel, strides, pad, strict=True)
        pads = tuple((p, (o - 1) * s + k - n - p) for n, o, k, s, p in sizes)
        counts = [
            Counts(n, o, k, s, 0, True, True) for n, o, k, s in zip(spatial, out, self.kernel, strides, strict=True)
        ]
        return self._windows(b, x, self.kernel, strides, pads, counts)

    def _global_maximum(self, b: MxBuilder, x: Value, axes: tuple[int, ...]) -> Value:
        return b.max(x, axes, keepdims=True)

    def _maximum(self, b: MxBuilder, x: Value, window: Shape, steps: Shape, padding: Pads) -> Value:
        """Padding counts as zeros; positions past it, which the convention "full" reaches, are ignored."""
        zeros = tuple(p for p, _ in padding)
        padded = b.pad(x, b.full((), 0, x.type.dtype), zeros, zeros)
        past = tuple((0, high - low) for low, high in padding)

        def forward(b: MxBuilder, x: Value) -> Value:
            return b.reduce_window(ReduceOp.MAX, x, window, steps, past)

        def gradient(
            b: MxBuilder, operands: Sequence[Value], results: Sequence[Value], cotangents: Sequence[Value]
        ) -> list[Value]:
            """Every element that equals the maximum of a window gets the window's whole cotangent."""
            from ..core.gradient import pull_back

            x, first = operands[0], len(b.nodes)
            rows = b.windows(x, ReduceOp.MAX.neutral(x.type.dtype), window, steps, past, (1,) * x.type.rank)
            gathered, kept = b.nodes[first:], tuple(range(x.type.rank))
            y, g = (b.broadcast(v, rows.type.shape, kept) for v in (results[0], cotangents[0]))
            chosen = b.select(b.eq(rows, y), g, b.full_like(rows, 0))
            return pull_back(b, gathered, {rows: chosen}, [x])

        return b.custom_gradient(forward, gradient, padded)[0]


def complete_batch(inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
    """Unify the batch axes of data and output."""
    data, out = inputs[0], outputs[0]
    if data is not None and out is not None:
        inputs[0] = (either(data[0], out[0]), *data[1:])
