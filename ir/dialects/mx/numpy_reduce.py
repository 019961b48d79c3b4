"""Reductions of `mx.np`. A reduction over all axes has shape ()."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from ...graph import Value
from ...promotion import DEFAULT_FLOAT
from ...types import DType
from .operator import Operator, declare, operator
from .parameters import OR_NONE, Bool, Int, OptionalFloat, OptionalInt, OptionalInts
from .reduce import ReducedDType
from .shapes import E, PartialShape, distinct_axes, unify_at

if TYPE_CHECKING:
    from .builder import MxBuilder

SummedDType = Annotated[
    Literal["bool", "float16", "float32", "float64", "int32", "int64", "int8", "uint8"] | None, OR_NONE
]
Reduction = Callable[["MxBuilder", Value, tuple[int, ...]], Value]


def axes_of(axis: Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """The axes that are reduced, counted from the front: all for None. A number has an axis 0, as in NumPy."""
    if axis is None or (rank == 0 and tuple(axis) in ((0,), (-1,))):
        return tuple(range(rank))
    return distinct_axes(axis, rank)


def without(shape: Sequence[E], axes: Sequence[int], keepdims: bool) -> tuple[E | Literal[1], ...]:
    """The shape after a reduction over the axes."""
    return tuple([1 if i in axes else n for i, n in enumerate(shape) if keepdims or i not in axes])


class Reduced(Operator):
    """A reduction over axes.

    Args:
        a, data: The array.
        axis: The axes: one, a tuple, or by default all.
        keepdims: True to keep the reduced axes with extent 1.
        initial: A number that is part of the reduction.
        dtype: Dtype of the result, in which it is computed.
        ddof: The number that is subtracted from the number of elements in the divisor.
    Returns:
        An array without the reduced axes.
    """

    inputs = ("a",)
    axis: OptionalInts
    keepdims: Bool

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        if inputs[0] is not None:
            unify_at(outputs, 0, without(inputs[0], axes_of(self.axis, len(inputs[0])), self.keepdims))

    def complete_dtypes(self, inputs: list[DType | None], outputs: list[DType | None]) -> None:
        """The dtype of the operand does not follow from the result's."""

    def reduce(self, b: MxBuilder, x: Value, function: Reduction) -> Value:
        """x reduced over the axes."""
        axes = axes_of(self.axis, x.type.rank)
        return b.reshape(function(b, x, axes), without(x.type.shape, axes, self.keepdims))


def count_of(x: Value, axes: Sequence[int]) -> int:
    """The number of elements that are reduced to one."""
    count = 1
    for axis in axes:
        count = count * x.type.shape[axis]
    return count


def mean(b: MxBuilder, x: Value, axes: tuple[int, ...]) -> Value:
    """The mean of floats."""
    return b.mean(x, axes)


def _sum_dtype(self: Any, dtype: DType) -> DType:
    if self.dtype:
        return DType.from_numpy(self.dtype)
    return DType.I64 if dtype is DType.BOOL else dtype


def _mean_dtype(self: Any, dtype: DType) -> DType:
    if self.dtype:
        return DType.from_numpy(self.dtype)
    return dtype if dtype.is_float else DEFAULT_FLOAT


def _own_dtype(self: Any, dtype: DType) -> DType:
    return dtype


def _extreme(name: str) -> Reduction:
    def reduce(b: MxBuilder, x: Value, axes: tuple[int, ...]) -> Value:
        if not count_of(x, axes):
            raise ValueError(f"zero-size array to reduction operation {name} which has no identity")
        return getattr(b, name)(x, axes)

    return reduce


# name, reduction, how `initial` joins, rule of dtypes, description, aliases
_TABLE: tuple[tuple[str, Reduction, str, Callable[[Any, DType], DType], str, tuple[str, ...]], ...] = (
    ("_np_sum", lambda b, x, axes: b.sum(x, axes), "add", _sum_dtype, "The sum", ()),
    ("_np_prod", lambda b, x, axes: b.prod(x, axes), "mul", _sum_dtype, "The product", ("_np_product",)),
    ("_np_max", _extreme("max"), "maximum", _own_dtype, "The largest element", ("_np_amax",)),
    ("_np_min", _extreme("min"), "minimum", _own_dtype, "The smallest element", ("_np_amin",)),
    ("_npi_mean", mean, "add", _mean_dtype, "The mean", ()),
)


def _declare(
    name: str,
    function: Reduction,
    join: str,
    rule: Callable[[Any, DType], DType],
    doc: str,
    aliases: tuple[str, ...],
) -> None:
    def decompose(self: Any, b: MxBuilder, *inputs: Value) -> Value:
        x = b.cast(inputs[0], rule(self, inputs[0].type.dtype))
        y = self.reduce(b, x, function)
        return y if self.initial is None else getattr(b, join)(y, b.full_like(y, self.initial))

    def output_dtypes(self: Any, inputs: Sequence[DType]) -> Sequence[DType | None]:
        return [rule(self, inputs[0])]

    parameters: dict[str, Any] = {"axis": OptionalInts}
    if rule is not _own_dtype:
        parameters["dtype"] = SummedDType
    parameters |= {"keepdims": Bool, "initial": OptionalFloat}
    defaults = {name: False if name == "keepdims" else None for name in parameters}
    members = {"__doc__": f"{doc} over axes.", "decompose": decompose, "output_dtypes": output_dtypes}
    declare(name, Reduced, {**members, **defaults}, aliases, parameters)


for _row in _TABLE:
    _declare(*_row)


class _Moment(Reduced):
    axis: OptionalInts = None
    dtype: ReducedDType = None
    ddof: Int = 0
    keepdims: Bool = False

    def output_dtypes(self, inputs: Sequence[DType]) -> Sequence[DType | None]:
        return [_mean_dtype(self, inputs[0])]

    def variance(self, b: MxBuilder, x: Value) -> Value:
        """The variance, in the dtype of the result."""
        dtype = _mean_dtype(self, x.type.dtype)
        wide = DType.F32 if dtype.is_float and dtype.bits < 32 else dtype
        x = b.cast(x, wide)

        def reduce(b: MxBuilder, x: Value, axes: tuple[int, ...]) -> Value:
            centre = b.broadcast_to(b.mean(x, axes, keepdims=True), x.type.shape)
            return b.div(b.sum(b.square(b.sub(x, centre)), axes), count_of(x, axes) - self.ddof)

        return self.reduce(b, x, reduce)


@operator("_npi_var")
class Variance(_Moment):
    """The variance over axes."""

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return b.cast(self.variance(b, inputs[0]), _mean_dtype(self, inputs[0].type.dtype))


@operator("_npi_std")
class Deviation(_Moment):
    """The standard deviation over axes."""

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        dtype, variance = _mean_dtype(self, inputs[0].type.dtype), self.variance(b, inputs[0])
        is_float = variance.type.dtype.is_float
        return b.cast(b.sqrt(variance if is_float else b.cast(variance, DType.F64)), dtype)


def _declare_test(name: str, test: Reduction, doc: str, aliases: tuple[str, ...]) -> None:
    def decompose(self: Any, b: MxBuilder, *inputs: Value) -> Value:
        return self.reduce(b, inputs[0], test)

    members: dict[str, Any] = {"__doc__": doc, "decompose": decompose, "output_dtype": DType.BOOL, "inputs": ("data",)}
    parameters: dict[str, Any] = {"axis": OptionalInts, "keepdims": Bool}
    declare(f"_np_{name}", Reduced, {**members, "axis": None, "keepdims": False}, aliases, parameters)


_declare_test("all", lambda b, x, axes: b.all(x, axes), "True where all elements along axes are nonzero.", ())
_declare_test(
    "any", lambda b, x, axes: b.any(x, axes), "True where any element along axes is nonzero.", ("_np_sometrue",)
)


class _Position(Operator):
    """The position of an extreme element, of dtype int64.

    Args:
        axis: The axis; None for the flattened array.
        keepdims: True to keep the axis with extent 1.
    Returns:
        An array without the axis.
    """

    axis: OptionalInt = None
    keepdims: Bool = False
    output_dtype = DType.I64

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        shape = inputs[0]
        if shape is not None:
            unify_at(outputs, 0, without(shape, self.axes(len(shape)), self.keepdims))

    def axes(self, rank: int) -> tuple[int, ...]:
        """The axes along which the position is counted."""
        return axes_of(None if self.axis is None else (self.axis,), rank)

    def find(self, b: MxBuilder, x: Value, kind: str) -> Value:
        """The position of the "max" or "min"."""
        axes = self.axes(x.type.rank)
        if not count_of(x, axes):
            raise ValueError(f"attempt to get arg{kind} of an empty sequence")
        is_flat = self.axis is None or not axes
        place = b.arg_reduce(kind, b.reshape(x, (x.type.size,)) if is_flat else x, 0 if is_flat else axes[0])
        return b.reshape(place, without(x.type.shape, axes, self.keepdims))


@operator("_npi_argmax")
class ArgMax(_Position):
    """The position of the largest element along an axis; the first of equal ones."""

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return self.find(b, inputs[0], "max")


@operator("_npi_argmin")
class ArgMin(_Position):
    """The position of the smallest element along an axis; the first of equal ones."""

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return self.find(b, inputs[0], "min")


@operator("_npi_average")
class Average(Operator):
    """The weighted mean over axes.

        output = sum(a * weights) / sum(weights)

    Args:
        a: The array.
        weights: An array of a's shape, or of the extent of the one axis.
        axis: The axes; all by default.
        returned: True for the sums of the weights as a second result.
        weighted: False without weights.
    Returns:
        output: The averages.
        sum_of_weights: The divisors.
    """

    inputs = ("a", "weights?")
    outputs = ("output", "sum_of_weights")
    axis: OptionalInts = None
    returned: Bool = False
    weighted: Bool = True

    def has_input(self, name: str) -> bool:
        return self.weighted

    @property
    def visible_outputs(self) -> int:
        return 2 if self.returned else 1

    def decompose(self, b: MxBuilder, *inputs: Value) -> tuple[Value, Value]:
        x = inputs[0]
        axes = axes_of(self.axis, x.type.rank)
        x = x if x.type.dtype.is_float else b.cast(x, DEFAULT_FLOAT)
        if not self.weighted:
            average = b.mean(x, axes)
            return average, b.full_like(average, count_of(x, axes))
        weights = b.cast(inputs[1], x.type.dtype)
        if weights.type.shape != x.type.shape:
            if len(axes) != 1 or weights.type.rank != 1 or weights.type.shape[0] != x.type.shape[axes[0]]:
                raise ValueError(f"weights of shape {weights.type.shape} do not fit a of shape {x.type.shape}")
            weights = b.broadcast_along(weights, x.type.shape, axes[0])
        total = b.sum(weights, axes)
        return b.div(b.sum(b.mul(x, weights), axes), total), total
