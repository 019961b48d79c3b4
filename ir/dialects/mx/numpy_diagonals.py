"""Operators of `mx.np` on diagonals, differences of neighbours, and padding."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from ...graph import Value
from ...types import DType
from .operator import Operator, operator
from .parameters import Bool, Float, Int, OptionalFloat, Text
from .shape_ops import Diag, Pad
from .shapes import normalize_axis

if TYPE_CHECKING:
    from .builder import MxBuilder


class _OfData(Operator):
    """Shared arguments of several operators.

    Args:
        k: The diagonal: 0 is the main one, a positive one is above it.
        offset: The diagonal: 0 is the main one, a positive one is above it.
        axis1: The axis of the rows.
        axis2: The axis of the columns.
    """


@operator("_np_diag")
class DiagOfMatrix(_OfData):
    """The diagonal of a matrix, or a matrix with a vector as its diagonal.

    Returns:
        A vector or a matrix.
    """

    probe_extents = (1, 60, 120)
    k: Int = 0

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        if inputs[0].type.rank not in (1, 2):
            raise ValueError("Input must be 1- or 2-d.")
        if inputs[0].type.rank == 2:
            return Diagonal(offset=self.k).decompose(b, *inputs)
        return Diag(k=self.k).decompose(b, *inputs)


@operator("_np_diagflat")
class DiagFlat(_OfData):
    """A matrix with the elements of an array as its diagonal.

    Returns:
        A matrix.
    """

    k: Int = 0

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return Diag(k=self.k).decompose(b, b.reshape(inputs[0], (inputs[0].type.size,)))


class _Diagonals(_OfData):
    probe_extents = (1, 60, 120)
    offset: Int = 0
    axis1: Int = 0
    axis2: Int = 1

    def diagonal(self, b: MxBuilder, x: Value) -> Value:
        """The diagonals, along the last axis."""
        if x.type.rank < 2:
            raise ValueError("diag requires an array of at least two dimensions")
        first, second = (normalize_axis(a, x.type.rank) for a in (self.axis1, self.axis2))
        if first == second:
            raise ValueError("axis1 and axis2 cannot be the same")
        rows, columns = x.type.shape[first], x.type.shape[second]
        if min(rows - max(-self.offset, 0), columns - max(self.offset, 0)) <= 0:
            others = tuple(n for i, n in enumerate(x.type.shape) if i not in (first, second))
            return b.full((*others, 0), 0, x.type.dtype)
        return Diag(k=self.offset, axis1=first, axis2=second).diagonal(b, x)


@operator("_np_diagonal")
class Diagonal(_Diagonals):
    """Diagonals of the matrices of two axes.

    Returns:
        The array without the two axes, and with the diagonals along the last one.
    """

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return self.diagonal(b, inputs[0])


@operator("_np_trace")
class Trace(_Diagonals):
    """The sums of the diagonals of the matrices of two axes.

    Returns:
        The array without the two axes.
    """

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return b.sum(self.diagonal(b, inputs[0]), (-1,))


def _triangle(b: MxBuilder, keeps: Callable[[Value, Value], Value], x: Value, k: int) -> Value:
    """Matrices, or a vector as each row of one, with zeros except where `keeps(row + k, column)`."""
    if not x.type.rank:
        raise ValueError("requires an array of at least one axis")
    if x.type.rank == 1:
        x = b.broadcast_to(x, (x.type.shape[0], x.type.shape[0]))
    shape = x.type.shape[-2:]
    kept = keeps(b.add(b.iota(shape, DType.I32, 0), k), b.iota(shape, DType.I32, 1))
    return b.select(b.broadcast_to(kept, x.type.shape), x, b.full_like(x, 0))


@operator("_npi_tril")
class Tril(_OfData):
    """The lower triangles of matrices, with zeros above.

    Returns:
        An array of data's shape; of a vector the matrix with this vector as each row.
    """

    k: Int = 0

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return _triangle(b, b.ge, inputs[0], self.k)


@operator("_npi_triu")
class Triu(_OfData):
    """The upper triangles of matrices, with zeros below.

    Returns:
        An array of data's shape; of a vector the matrix with this vector as each row.
    """

    k: Int = 0

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return _triangle(b, b.le, inputs[0], self.k)


# --- differences and padding


@operator("_npi_diff")
class Diff(Operator):
    """Differences of neighbours along an axis.

    Args:
        a: The array.
        n: How often they are taken.
        axis: The axis.
    Returns:
        An array whose axis is n elements shorter.
    """

    inputs = ("a",)
    n: Int = 1
    axis: Int = -1

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        (x,) = inputs
        if self.n < 0:
            raise ValueError(f"order must be non-negative but got {self.n}")
        axis = normalize_axis(self.axis, x.type.rank)
        for _ in range(self.n):
            extent = x.type.shape[axis]
            if extent < 2:
                return b.full((*x.type.shape[:axis], 0, *x.type.shape[axis + 1 :]), 0, x.type.dtype)
            x = b.sub(b.slice_axis(x, axis, 1, extent), b.slice_axis(x, axis, 0, extent - 1))
        return x


@operator("_npi_ediff1d")
class EDiff1D(Operator):
    """Differences of neighbours in the flattened array.

    Args:
        input1: The array.
        input2, input3: Arrays before and behind the differences.
        to_begin_arr_given, to_end_arr_given: True if these arrays are passed.
        to_begin_scalar, to_end_scalar: Numbers before and behind the differences.
    Returns:
        A vector.
    """

    inputs = ("input1", "input2?", "input3?")
    to_begin_arr_given: Bool = False
    to_end_arr_given: Bool = False
    to_begin_scalar: OptionalFloat = None
    to_end_scalar: OptionalFloat = None

    def has_input(self, name: str) -> bool:
        return self.to_begin_arr_given if name == "input2" else self.to_end_arr_given

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x = b.reshape(inputs[0], (inputs[0].type.size,))
        rest = list(inputs[1:])
        n = x.type.size
        parts = [b.sub(b.slice_axis(x, 0, 1, n), b.slice_axis(x, 0, 0, n - 1)) if n > 1 else b.slice_axis(x, 0, 0, 0)]
        if self.to_begin_arr_given or self.to_begin_scalar is not None:
            parts.insert(0, self._edge(b, x, rest.pop(0) if self.to_begin_arr_given else None, self.to_begin_scalar))
        if self.to_end_arr_given or self.to_end_scalar is not None:
            parts.append(self._edge(b, x, rest.pop(0) if self.to_end_arr_given else None, self.to_end_scalar))
        return b.concat(parts, 0) if len(parts) > 1 else parts[0]

    def _edge(self, b: MxBuilder, x: Value, array: Value | None, number: float | None) -> Value:
        if array is None:
            assert number is not None
            return b.full((1,), number if x.type.dtype.is_float else int(number), x.type.dtype)
        return b.cast(b.reshape(array, (array.type.size,)), x.type.dtype)


@operator("_npi_pad")
class PadArray(Operator):
    """Adds elements before and after axes.

    Args:
        pad_width: A pair of numbers for each axis.
        mode: "constant" adds a number, "edge" repeats the outermost elements, "reflect" and "symmetric" mirror the
            elements without and with the outermost one, "maximum" and "minimum" add the extreme element of the axis.
        constant_value: The number of "constant".
        reflect_type: "even".
    Returns:
        The enlarged array.
    """

    pad_width: Text
    mode: Literal["constant", "edge", "maximum", "minimum", "reflect", "symmetric"] = "constant"
    constant_value: Float = 0.0
    reflect_type: Text = "even"

    def _pairs(self, rank: int) -> list[tuple[int, int]]:
        from ast import literal_eval

        try:
            pairs = [(int(low), int(high)) for low, high in literal_eval(self.pad_width)]
        except (TypeError, ValueError, SyntaxError):
            raise ValueError(f"pad_width={self.pad_width}: must be a pair of integers for each axis") from None
        if len(pairs) != rank or any(n < 0 for pair in pairs for n in pair):
            raise ValueError(f"pad_width={self.pad_width}: must be {rank} pairs of integers that are not negative")
        return pairs

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        (x,) = inputs
        pairs = self._pairs(x.type.rank)
        if self.mode == "constant":
            number = self.constant_value if x.type.dtype.is_float else int(self.constant_value)
            return b.pad(x, b.full((), number, x.type.dtype), [p[0] for p in pairs], [p[1] for p in pairs])
        for axis, (low, high) in enumerate(pairs):
            if low or high:
                x = self._extended(b, x, axis, low, high)
        return x

    def _extended(self, b: MxBuilder, x: Value, axis: int, low: int, high: int) -> Value:
        extent = x.type.shape[axis]
        if not extent:
            raise ValueError(f"can't extend empty axis {axis} using modes other than 'constant' or 'empty'")
        if self.mode == "edge":
            return Pad(mode="edge", pad_width=()).extended(b, x, axis, low, high)
        if self.mode in ("maximum", "minimum"):
            value = (b.max if self.mode == "maximum" else b.min)(x, (axis,), keepdims=True)
            shape = x.type.shape
            edges = [b.broadcast_to(value, (*shape[:axis], n, *shape[axis + 1 :])) for n in (low, high)]
            return b.concat([edges[0], x, edges[1]], axis)
        return b.take(x, b.integers(self._mirrored(extent, low, high)), axis)

    def _mirrored(self, extent: int, low: int, high: int) -> list[int]:
        """The position of each element of the result."""
        skipped = 1 if self.mode == "reflect" else 0
        period = max(2 * (extent - skipped), 1)
        places = [i % period for i in range(-low, extent + high)]
        return [i if i < extent else period - 1 - i + skipped for i in places]
