"""Operators of `mx.np` that choose, count and find elements."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Literal

from ...graph import Value
from ...promotion import DEFAULT_FLOAT, promoted
from ...types import DType
from .arithmetic import truth
from .gradients import no_gradient
from .numpy_reduce import axes_of, without
from .operator import Operator, operator
from .parameters import Bool, Float, Int, OptionalFloat, OptionalInt, OptionalInts, Text
from .shapes import UNKNOWN, PartialShape, broadcast_partial, normalize_axis, unify_at

if TYPE_CHECKING:
    import numpy as np

    from .builder import MxBuilder


class _Where(Operator):
    """Elements of one array where a condition holds, of another one elsewhere.

    Args:
        condition: The condition: nonzero elements are true.
        x: The elements where it is true.
        y: The elements where it is false.
        scalar: The number instead of the array that is not passed.
    Returns:
        An array of the shape to which all broadcast.
    """

    inputs = ("condition", "x", "y")
    own_dtypes = frozenset(("condition",))

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        known = [shape for shape in inputs if shape is not None]
        if len(known) == len(inputs):
            unify_at(outputs, 0, reduce(broadcast_partial, known))

    def complete_dtypes(self, inputs: list[DType | None], outputs: list[DType | None]) -> None:
        """The dtypes of the operands promote."""

    def output_dtypes(self, inputs: Sequence[DType]) -> Sequence[DType | None]:
        return [promoted(inputs[1:])] if len(inputs) > 1 else [DEFAULT_FLOAT]

    def chosen(self, b: MxBuilder, condition: Value, *values: Value) -> Value:
        """The elements of the two values."""
        dtype = promoted([v.type.dtype for v in values])
        shape: tuple[int, ...] = ()
        for v in (condition, *values):
            shape = tuple(broadcast_partial(shape, v.type.shape))  # type: ignore[arg-type]
        spread = [b.broadcast_to(v, shape) for v in (truth(b, condition), *(b.cast(v, dtype) for v in values))]
        return b.select(*spread)


@operator("_npi_where")
class Where(_Where):
    """Elements of x where the condition is true, of y elsewhere."""

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return self.chosen(b, *inputs)


def _number(b: MxBuilder, value: float, like: Value) -> Value:
    dtype = like.type.dtype
    return b.full((), value if dtype.is_float or dtype is DType.BOOL else int(value), dtype)


@operator("_npi_where_lscalar")
class WhereLeftNumber(_Where):
    """A number where the condition is true, elements of an array elsewhere."""

    inputs = ("condition", "x")
    scalar: Float = 0.0

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        condition, x = inputs
        return self.chosen(b, condition, _number(b, self.scalar, x), x)


@operator("_npi_where_rscalar")
class WhereRightNumber(_Where):
    """Elements of an array where the condition is true, a number elsewhere."""

    inputs = ("condition", "y")
    scalar: Float = 0.0

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        condition, y = inputs
        return self.chosen(b, condition, y, _number(b, self.scalar, y))


@operator("_npi_where_scalar2")
class WhereNumbers(_Where):
    """The number x where the condition is true, y elsewhere.

    Args:
        x: The number where it is true.
        y: The number where it is false.
    """

    inputs = ("condition",)
    x: Float = 0.0
    y: Float = 0.0

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return self.chosen(b, inputs[0], b.full((), self.x), b.full((), self.y))


class _SizedByValues(Operator):
    """An operator whose result's extents depend on values: it runs alone.

    Args:
        x, data: The array.
    """

    sized_by_values = True

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        raise ValueError("the extent of the result depends on values, so it has no compiled program")


@operator("_npx_nonzero", aliases=("_npi_nonzero",))
class NonZero(_SizedByValues):
    """The indices of nonzero elements, of dtype int64.

    Returns:
        (number of nonzero elements, number of axes).
    """

    inputs = ("x",)
    output_dtype = DType.I64

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        if inputs[0] is not None:
            unify_at(outputs, 0, (UNKNOWN, len(inputs[0])))


@operator("_npi_unique")
class Unique(_SizedByValues):
    """The different elements in rising order.

    Args:
        return_index: True for the positions of the first occurrences.
        return_inverse: True for the positions of all elements among the results.
        return_counts: True for the numbers of occurrences.
        axis: The axis along which slices are compared; None for the elements of the flattened array.
    Returns:
        unique: The elements.
        indices: The further results, of dtype int64.
    """

    return_index: Bool = False
    return_inverse: Bool = False
    return_counts: Bool = False
    axis: OptionalInt = None

    def output_names(self) -> tuple[str, ...]:
        return tuple(f"output{i}" for i in range(1 + self.return_index + self.return_inverse + self.return_counts))


@operator("_npi_bincount")
class BinCount(_SizedByValues):
    """How often each number occurs, or the sum of its weights.

    Args:
        weights: A weight for each element.
        minlength: The least number of counts.
        has_weights: True with weights.
    """

    inputs = ("data", "weights?")
    own_dtypes = frozenset(("weights",))
    minlength: Int = 0
    has_weights: Bool = False

    def has_input(self, name: str) -> bool:
        return self.has_weights


@operator("_npi_polyval")
class PolyVal(Operator):
    """The values of a polynomial.

    Args:
        p: The coefficients, that of the highest power first.
        x: The arguments.
    Returns:
        An array of x's shape.
    """

    inputs = ("p", "x")

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        p, x = inputs
        if p.type.rank != 1:
            raise ValueError("p must have one axis")
        y = b.full_like(x, 0)
        for i in range(p.type.shape[0]):
            coefficient = b.reshape(b.slice_axis(p, 0, i, i + 1), ())
            y = b.add(b.mul(y, x), b.broadcast_to(coefficient, x.type.shape))
        return y


@operator("_npi_percentile")
class Percentile(Operator):
    """Percentiles over axes.

    Args:
        a: The array.
        q: The percentages as an array.
        axis: The axes; all by default.
        interpolation: How a percentile between two elements is computed.
        keepdims: True to keep the reduced axes with extent 1.
        q_scalar: The percentage as a number.
    Returns:
        (*q.shape, *rest): the percentiles.
    """

    inputs = ("a", "q?")
    own_dtypes = frozenset(("q",))
    gradient = no_gradient
    axis: OptionalInts = None
    interpolation: Literal["higher", "linear", "lower", "midpoint", "nearest"] = "linear"
    keepdims: Bool = False
    q_scalar: OptionalFloat = None

    def has_input(self, name: str) -> bool:
        return self.q_scalar is None

    def output_dtypes(self, inputs: Sequence[DType]) -> Sequence[DType | None]:
        return [inputs[0] if inputs[0] in (DType.F64,) else DType.F32]

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x = inputs[0]
        dtype = DType.F64 if x.type.dtype is DType.F64 else DType.F32
        q = b.cast(inputs[1], DType.F64) if len(inputs) > 1 else b.constant(self.q_scalar, DType.F64)
        axes = axes_of(self.axis, x.type.rank)
        others = [i for i in range(x.type.rank) if i not in axes]
        flat = b.transpose(x, (*axes, *others))
        count = 1
        for axis in axes:
            count *= x.type.shape[axis]
        rest = tuple(x.type.shape[i] for i in others)
        (ordered,) = b.sort(b.cast(b.reshape(flat, (count, *rest)), dtype), 0)
        place = b.mul(b.div(q, 100.0), float(count - 1))
        low, high = b.cast(b.floor(place), DType.I64), b.cast(b.ceil(place), DType.I64)
        shape = (*q.type.shape, *rest)
        below, above = b.take(ordered, low, 0), b.take(ordered, high, 0)
        part = b.cast(b.sub(place, b.floor(place)), dtype)
        part = b.broadcast(part, shape, range(q.type.rank))
        kept = without(x.type.shape, axes, self.keepdims)
        nearest = b.broadcast(b.eq(b.rint(place), b.ceil(place)), shape, range(q.type.rank))
        return b.reshape(self._between(b, below, above, part, nearest), (*q.type.shape, *kept))

    def _between(self, b: MxBuilder, below: Value, above: Value, part: Value, nearest: Value) -> Value:
        match self.interpolation:
            case "lower":
                return below
            case "higher":
                return above
            case "midpoint":
                return b.mul(b.add(below, above), 0.5)
            case "nearest":
                return b.select(nearest, above, below)
            case _:
                return b.add(below, b.mul(b.sub(above, below), part))


@operator("_npi_share_memory")
class ShareMemory(Operator):
    """False: operands of a graph share no memory. `np.shares_memory` compares the arrays.

    Args:
        a: An array.
        b: An array.
    """

    inputs = ("a", "b")
    own_dtypes = frozenset(("a", "b"))
    output_dtype = DType.BOOL

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return b.full((), False, DType.BOOL)


@operator("_npi_diag_indices_from")
class DiagIndicesFrom(Operator):
    """The indices of the main diagonal of a square array, of dtype int64.

    Returns:
        (number of axes, extent).
    """

    output_dtype = DType.I64

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        shape = inputs[0].type.shape
        if len(shape) < 2 or len(set(shape)) != 1:
            raise ValueError("All dimensions of input must be of equal length")
        return b.iota((len(shape), shape[0]), DType.I64, 1)


@operator("_npx_constraint_check")
class ConstraintCheck(Operator):
    """True if all elements are true. Otherwise the call is an error with the text `msg`; in loops and branches of a
    compiled graph the result is False.

    Args:
        input: The conditions.
        msg: The text of the error.
    """

    inputs = ("input",)
    output_dtype = DType.BOOL
    has_gradient = False
    msg: Text = "Constraint violated."

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return b.all(inputs[0])

    def verify(self, b: MxBuilder, *inputs: Value) -> None:
        b.require(truth(b, inputs[0]), self.msg)

    def results_problem(self, operands: list[np.ndarray], results: list[np.ndarray]) -> str | None:
        return None if results[0].all() else self.msg


class _MaskAssign(Operator):
    """Writes to the elements where a mask is true.

    Args:
        data: The array.
        mask: The mask, over the axes from `start_axis` on.
        value: The number, or an array that broadcasts.
        start_axis: The first axis of the mask.
    Returns:
        The array with the new elements.
    """

    inputs = ("data", "mask")
    own_dtypes = frozenset(("mask",))
    start_axis: Int = 0

    def spread(self, b: MxBuilder, data: Value, mask: Value) -> Value:
        """The mask with the shape of the data."""
        axes = range(self.start_axis, self.start_axis + mask.type.rank)
        return b.broadcast(truth(b, mask), data.type.shape, axes)


@operator("_npi_boolean_mask_assign_scalar")
class MaskAssignNumber(_MaskAssign):
    """Writes a number to the elements where a mask is true."""

    value: Float = 0.0

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        data, mask = inputs
        return b.select(self.spread(b, data, mask), b.broadcast_to(_number(b, self.value, data), data.type.shape), data)


@operator("_npi_boolean_mask_assign_tensor")
class MaskAssignArray(_MaskAssign):
    """Writes elements of an array to those where a mask is true."""

    inputs = ("data", "mask", "value")

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        data, mask, value = inputs
        return b.select(self.spread(b, data, mask), b.broadcast_to(value, data.type.shape), data)


class _Edited(Operator):
    """Removes or adds slices along an axis.

    Args:
        arr: The array.
        obj: The positions as an array.
        values: The slices that are added.
        val: The number that is added.
        start, stop, step: The positions as a slice.
        int_ind: The position as a number.
        axis: The axis; None for the flattened array.
    """

    start: OptionalInt = None
    stop: OptionalInt = None
    step: OptionalInt = None
    int_ind: OptionalInt = None
    axis: OptionalInt = None

    def flattened(self, b: MxBuilder, x: Value) -> tuple[Value, int]:
        """The array and the axis."""
        if self.axis is None:
            return b.reshape(x, (x.type.size,)), 0
        return x, normalize_axis(self.axis, x.type.rank)

    def positions(self, extent: int) -> list[int]:
        """The positions, if they are no array."""
        if self.int_ind is not None:
            return [self.int_ind]
        return list(range(*slice(self.start, self.stop, self.step).indices(extent)))


@operator("_npi_delete")
class Delete(_Edited):
    """The array without slices along an axis."""

    inputs = ("arr",)

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x, axis = self.flattened(b, inputs[0])
        extent = x.type.shape[axis]
        removed = self.positions(extent)
        bad = next((i for i in removed if not -extent <= i < extent), None)
        if bad is not None:
            raise ValueError(f"index {bad} is out of bounds for axis {axis} with size {extent}")
        gone = {i % extent for i in removed}
        return b.take(x, b.integers([i for i in range(extent) if i not in gone]), axis)


def _inserted(b: MxBuilder, x: Value, values: Value, places: Sequence[int], axis: int) -> Value:
    """x with one slice of the values before each of the places."""
    extent = x.type.shape[axis]
    bad = next((i for i in places if not -extent <= i <= extent), None)
    if bad is not None:
        raise ValueError(f"index {bad} is out of bounds for axis {axis} with size {extent}")
    at = [i + extent if i < 0 else i for i in places]
    order = sorted(range(len(at)), key=lambda k: at[k])
    shape = (*x.type.shape[:axis], len(at), *x.type.shape[axis + 1 :])
    both = b.concat([x, b.broadcast_to(values, shape)], axis)
    taken: list[int] = []
    done = 0
    for k in order:
        taken += [*range(done, at[k]), extent + k]
        done = at[k]
    return b.take(both, b.integers([*taken, *range(done, extent)]), axis)


@operator("_npi_insert_scalar")
class InsertAt(_Edited):
    """The array with slices inserted before one position."""

    inputs = ("arr", "values?")
    val: OptionalFloat = None

    def has_input(self, name: str) -> bool:
        return self.val is None

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x, axis = self.flattened(b, inputs[0])
        values = _number(b, self.val or 0.0, x) if len(inputs) < 2 else b.cast(inputs[1], x.type.dtype)
        if self.int_ind is None or not values.type.rank:
            return _inserted(b, x, values, self.positions(x.type.shape[axis]), axis)
        if values.type.rank < x.type.rank or axis:
            values = (
                b.transpose(values, _moved(values.type.rank, 0, axis)) if values.type.rank == x.type.rank else values
            )
        if values.type.rank < x.type.rank:
            values = b.reshape(values, (1,) * (x.type.rank - values.type.rank) + values.type.shape)
            values = b.transpose(values, _moved(values.type.rank, 0, axis))
        count = values.type.shape[axis]
        return _inserted(b, x, values, [self.int_ind] * count, axis)


def _moved(rank: int, source: int, destination: int) -> list[int]:
    order = [i for i in range(rank) if i != source]
    order.insert(destination, source)
    return order


@operator("_npi_insert_slice")
class InsertSlice(InsertAt):
    """The array with slices inserted before the positions of a slice."""
