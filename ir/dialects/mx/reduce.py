"""Reductions over axes. MXNet has no scalar arrays: a reduction over all axes has shape (1,)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from ...graph import Value
from ...scalar import ReduceOp
from ...types import DType
from .operator import Operator, declare, operator
from .parameters import OR_NONE, Bool, Int, OptionalInt, OptionalInts
from .shapes import PartialShape, distinct_axes, normalize_axis, unify_all

if TYPE_CHECKING:
    from .builder import MxBuilder

Reduction = Callable[["MxBuilder", Value, tuple[int, ...]], Value]
ReducedDType = Annotated[Literal["float16", "float32", "float64", "int32", "int64", "int8"] | None, OR_NONE]


def reduced_axes(axis: tuple[int, ...] | None, rank: int, exclude: bool = False) -> tuple[int, ...]:
    """The axes that a reduction removes: all for None or (); with `exclude`, all except `axis`."""
    named = distinct_axes(axis, rank) if axis else tuple(range(rank))
    return tuple(i for i in range(rank) if i not in named) if exclude and axis else named


def reduce_with(b: MxBuilder, x: Value, axes: tuple[int, ...], keepdims: bool, function: Reduction) -> Value:
    """Reduce over `axes`. With `keepdims` they keep extent 1; the shape (1,) replaces ()."""
    shape = x.type.shape
    kept = tuple(1 if i in axes else n for i, n in enumerate(shape))
    left = tuple(n for i, n in enumerate(shape) if i not in axes) or (1,)
    return b.reshape(function(b, x, axes), kept if keepdims else left)


def _sum(b: MxBuilder, x: Value, axes: tuple[int, ...]) -> Value:
    return b.sum(x, axes)


def _mean(b: MxBuilder, x: Value, axes: tuple[int, ...]) -> Value:
    if x.type.dtype.is_float:
        return b.mean(x, axes)
    return b.cast(b.mean(b.cast(x, DType.F64), axes), x.type.dtype)


def _max(b: MxBuilder, x: Value, axes: tuple[int, ...]) -> Value:
    _require_elements(x)
    return b.max(x, axes)


def _min(b: MxBuilder, x: Value, axes: tuple[int, ...]) -> Value:
    _require_elements(x)
    return b.min(x, axes)


def _require_elements(x: Value) -> None:
    if not x.type.size:
        raise ValueError(f"data has no elements, got shape {x.type.shape}")


def _without_nan(b: MxBuilder, x: Value, neutral: float) -> Value:
    return b.select(b.is_nan(x), b.full_like(x, neutral), x) if x.type.dtype.is_float else x


# name, function, description, the rows' results of [[1, 2], [3, 4]], aliases
_TABLE: tuple[tuple[str, Reduction, str, str, tuple[str, ...]], ...] = (
    ("sum", _sum, "The sum over axes.", "[3.0, 7.0]", ("_sparse_sum", "sum_axis")),
    ("mean", _mean, "The mean over axes: the sum divided by the number of elements.", "[1.5, 3.5]", ("_sparse_mean",)),
    ("prod", lambda b, x, axes: b.prod(x, axes), "The product over axes.", "[2.0, 12.0]", ()),
    ("max", _max, "The largest element over axes.", "[2.0, 4.0]", ("max_axis",)),
    ("min", _min, "The smallest element over axes.", "[1.0, 3.0]", ("min_axis",)),
    (
        "nansum",
        lambda b, x, axes: b.sum(_without_nan(b, x, 0), axes),
        "The sum over axes, where NaN counts as 0.",
        "[3.0, 7.0]",
        (),
    ),
    (
        "nanprod",
        lambda b, x, axes: b.prod(_without_nan(b, x, 1), axes),
        "The product over axes, where NaN counts as 1.",
        "[2.0, 12.0]",
        (),
    ),
    ("_square_sum", lambda b, x, axes: b.sum(b.square(x), axes), "The sum of squares over axes.", "", ()),
)


class ReduceOperator(Operator):
    """A reduction over axes.

    Args:
        axis: The axes that are reduced; all by default.
        keepdims: True to keep the reduced axes with extent 1.
        exclude: True to reduce all axes except `axis`.
    Returns:
        data's shape without the reduced axes; (1,) if none is left.
    """

    axis: OptionalInts = None
    keepdims: Bool = False
    exclude: Bool = False


def _declare(name: str, function: Reduction, doc: str, result: str, aliases: tuple[str, ...]) -> None:
    def decompose(self: ReduceOperator, b: MxBuilder, *inputs: Value) -> Value:
        axes = reduced_axes(self.axis, inputs[0].type.rank, self.exclude)
        return reduce_with(b, inputs[0], axes, self.keepdims, function)

    if result:
        doc += f"\n\nExample:\n    >>> nd.{name}(nd.array([[1, 2], [3, 4]]), axis=1).asnumpy().tolist()\n    {result}"
    declare(name, ReduceOperator, {"__doc__": doc, "decompose": decompose}, aliases)


for _row in _TABLE:
    _declare(*_row)


@operator("norm", aliases=("_sparse_norm",))
class Norm(Operator):
    """The length of vectors: the L1 or L2 norm over axes.

        output = sum(|data|)  (ord 1),  sqrt(sum(data^2))  (ord 2)

    Args:
        ord: 1 or 2.
        axis: The axes that are reduced; all by default.
        out_dtype: Dtype of the result; data's dtype by default.
        keepdims: True to keep the reduced axes with extent 1.
    Returns:
        data's shape without the reduced axes; (1,) if none is left.
    Example:
        >>> nd.norm(nd.array([[3, 4], [6, 8]]), axis=1).asnumpy()
        array([ 5., 10.], dtype=float32)
    """

    ord: Int = 2
    axis: OptionalInts = None
    out_dtype: ReducedDType = None
    keepdims: Bool = False

    def check(self) -> None:
        if self.ord not in (1, 2):
            raise ValueError(f"norm: ord={self.ord}: must be 1 or 2")

    def complete_dtypes(self, inputs: list[DType | None], outputs: list[DType | None]) -> None:
        inputs[0] = inputs[0] or (None if self.out_dtype else outputs[0])

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        axes = reduced_axes(self.axis, inputs[0].type.rank)
        y = reduce_with(b, inputs[0], axes, self.keepdims, self._length)
        return b.cast(y, DType.from_numpy(self.out_dtype)) if self.out_dtype else y

    def output_dtypes(self, inputs: Sequence[DType]) -> Sequence[DType | None]:
        return [DType.from_numpy(self.out_dtype) if self.out_dtype else inputs[0]]

    def _length(self, b: MxBuilder, x: Value, axes: tuple[int, ...]) -> Value:
        wide = b.cast(x, DType.F32) if x.type.dtype.bits < 32 or not x.type.dtype.is_float else x
        y = b.sum(b.abs(wide), axes) if self.ord == 1 else b.sqrt(b.sum(b.square(wide), axes))
        return b.cast(y, x.type.dtype)


@operator("moments")
class Moments(Operator):
    """Mean and variance over axes.

        mean = sum(data) / n;    var = sum((data - mean)^2) / n

    Args:
        axes: The axes that are reduced; all by default.
        keepdims: True to keep them with extent 1.
    Returns:
        output0: The mean.
        output1: The variance.
    Example:
        >>> [a.asnumpy().tolist() for a in nd.moments(nd.array([1, 3]), axes=0)]
        [[2.0], [1.0]]
    """

    outputs = ("output0", "output1")
    axes: OptionalInts = None
    keepdims: Bool = False

    def decompose(self, b: MxBuilder, *inputs: Value) -> tuple[Value, Value]:
        x = inputs[0]
        axes = reduced_axes(self.axes, x.type.rank)
        mean = b.mean(x, axes, keepdims=True)
        centred = b.sub(x, b.broadcast_to(mean, x.type.shape))
        variance = reduce_with(b, b.square(centred), axes, self.keepdims, _mean)
        return reduce_with(b, x, axes, self.keepdims, _mean), variance


class _ArgOperator(Operator):
    """Shared arguments of several operators.

    Args:
        axis: The axis; None for the flattened array.
        keepdims: True to keep the axis with extent 1.
    """

    axis: OptionalInt = None
    keepdims: Bool = False

    def _find(self, b: MxBuilder, x: Value, kind: str) -> Value:
        """Positions along the axis in x's dtype, as in MXNet: they are rounded or truncated to fit the dtype."""
        shape = x.type.shape
        if self.axis is None:
            position = b.arg_reduce(kind, b.reshape(x, (x.type.size,)), 0)
            return b.reshape(b.cast(position, x.type.dtype), (1,) * len(shape) if self.keepdims else (1,))
        axis = normalize_axis(self.axis, len(shape))
        left = (
            tuple(1 if i == axis else n for i, n in enumerate(shape))
            if self.keepdims
            else (shape[:axis] + shape[axis + 1 :] or (1,))
        )
        return b.reshape(b.cast(b.arg_reduce(kind, x, axis), x.type.dtype), left)


@operator("argmax")
class ArgMax(_ArgOperator):
    """The position of the largest element along an axis; the first of equal elements. Floats, as in MXNet.

    Returns:
        data's shape without the axis.
    Example:
        >>> nd.argmax(nd.array([[1, 5, 2], [7, 0, 7]]), axis=1).asnumpy()
        array([1., 0.], dtype=float32)
    """

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return self._find(b, inputs[0], "max")


@operator("argmin")
class ArgMin(_ArgOperator):
    """The position of the smallest element along an axis; the first of equal elements. Floats, as in MXNet.

    Returns:
        data's shape without the axis.
    Example:
        >>> nd.argmin(nd.array([[1, 5, 2], [7, 0, 7]]), axis=1).asnumpy()
        array([0., 1.], dtype=float32)
    """

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return self._find(b, inputs[0], "min")


@operator("argmax_channel")
class ArgMaxChannel(Operator):
    """The position of the largest element along axis 1.

    Args:
        data: (N, C, ...).
    Returns:
        (N, ...).
    Example:
        >>> nd.argmax_channel(nd.array([[1, 5, 2]])).asnumpy()
        array([1.], dtype=float32)
    """

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        if inputs[0].type.rank < 2:
            raise ValueError(f"data must have at least 2 axes, got shape {inputs[0].type.shape}")
        return b.cast(b.arg_reduce("max", inputs[0], 1), inputs[0].type.dtype)


@operator("_np_cumsum", aliases=("cumsum",))
class CumSum(Operator):
    """The cumulative sum along an axis.

        output[i] = a[0] + ... + a[i]

    Args:
        a: The array.
        axis: The axis; None for the flattened array.
        dtype: Dtype of the result; the dtype of `a` by default.
    Returns:
        An array of a's shape; with one axis if `axis` is None.
    """

    inputs = ("a",)
    combination = ReduceOp.ADD
    axis: OptionalInt = None
    dtype: ReducedDType = None

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        if self.axis is not None:
            unify_all(inputs, outputs)

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x = b.cast(inputs[0], self._dtype(inputs[0].type.dtype))
        if self.axis is None:
            return b.cumulative(self.combination, b.reshape(x, (x.type.size,)), 0)
        return b.cumulative(self.combination, x, normalize_axis(self.axis, x.type.rank))

    def output_dtypes(self, inputs: Sequence[DType]) -> Sequence[DType | None]:
        return [self._dtype(inputs[0])]

    def _dtype(self, dtype: DType) -> DType:
        """`dtype`, or the array's dtype; int64 for booleans."""
        if self.dtype:
            return DType.from_numpy(self.dtype)
        return DType.I64 if dtype is DType.BOOL else dtype


@operator("_npi_cumprod")
class CumProd(CumSum):
    """The cumulative product along an axis. That of integers has the dtype int64 by default."""

    combination = ReduceOp.MUL

    def _dtype(self, dtype: DType) -> DType:
        return DType.I64 if not self.dtype and not dtype.is_float else super()._dtype(dtype)
