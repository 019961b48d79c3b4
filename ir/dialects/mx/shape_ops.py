"""Operators that rearrange one array: reshape, transpose, repeat, pad and others."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Literal

import numpy as np

from ...graph import Value
from ...types import DType, Shape
from .operator import Elementwise, Operator, operator
from .parameters import Bool, Float, Int, Ints, Natural, OptionalInt, OptionalInts
from .shapes import (
    UNKNOWN,
    PartialShape,
    distinct_axes,
    either,
    is_known,
    known_rank,
    normalize_axes,
    normalize_axis,
    unify_at,
    unify_permuted,
)

if TYPE_CHECKING:
    from .builder import MxBuilder


def reshaped(shape: Shape, target: Shape, reverse: bool = False) -> Shape:
    """The shape that results from MXNet's reshape codes.

    0 copies an extent, -1 is inferred, -2 copies all remaining extents, -3 multiplies two extents, -4 splits one extent
    into the two that follow (one of them can be -1). With `reverse` codes match from the right.
    """
    if reverse:
        return reshaped(shape[::-1], _reversed_codes(target))[::-1]
    extents: list[int] = []
    rest = list(shape)
    codes = list(target)
    while codes:
        extents += _next_extents(codes, rest, shape, target)
    return _infer_missing(extents, prod(shape), shape, target)


def _reversed_codes(target: Shape) -> Shape:
    """The codes from right to left; a -4 stays before its two extents, which are swapped."""
    groups: list[Shape] = []
    i = 0
    while i < len(target):
        width = 3 if target[i] == -4 else 1
        group = target[i : i + width]
        groups.append((group[0], *group[:0:-1]) if width == 3 else group)
        i += width
    return tuple(n for group in reversed(groups) for n in group)


def _next_extents(codes: list[int], rest: list[int], shape: Shape, target: Shape) -> list[int]:
    """Remove one code (with its arguments) from `codes` and the extents that it uses from `rest`."""
    code = codes.pop(0)
    if code == -2:
        taken, rest[:] = list(rest), []
        return taken
    if code in (0, -3, -4) and len(rest) < (2 if code == -3 else 1):
        raise ValueError(f"cannot reshape {shape} to {target}: no extent is left for {code}")
    match code:
        case 0:
            return [rest.pop(0)]
        case -3:
            return [rest.pop(0) * rest.pop(0)]
        case -4:
            return _split(rest.pop(0), codes.pop(0), codes.pop(0))
        case _:
            if rest:
                rest.pop(0)
            return [code]


def _split(extent: int, left: int, right: int) -> list[int]:
    if left == -1:
        left = extent // right
    if right == -1:
        right = extent // left
    if left * right != extent:
        raise ValueError(f"cannot split an extent of {extent} into {left} and {right}")
    return [left, right]


def _infer_missing(extents: list[int], size: int, shape: Shape, target: Shape) -> Shape:
    if extents.count(-1) > 1:
        raise ValueError(f"cannot reshape {shape} to {target}: more than one -1")
    known = prod(n for n in extents if n != -1)
    if -1 in extents and known:
        extents[extents.index(-1)] = size // known
    if -1 in extents or prod(extents) != size:
        raise ValueError(f"cannot reshape array of size {size} into shape {target}")
    return tuple(extents)


@operator("Reshape", aliases=("reshape",))
class Reshape(Operator):
    """The same elements, in row-major order, with another shape.

    `shape` consists of extents and codes. 0 keeps an extent of data, -1 is inferred (once), -2 keeps all remaining
    extents, -3 multiplies the next two, and -4 splits one into the two numbers that follow. Without a shape, one
    element becomes a scalar.

    Args:
        shape: The extents and codes.
        reverse: True to match codes from the last axis.
        target_shape: The older form of `shape`, where 0 is inferred.
        keep_highest: True to keep the first extent; used with `target_shape`.
    Returns:
        An array of that shape.
    Example:
        >>> nd.reshape(nd.ones((2, 3, 4)), shape=(0, -1)).shape
        (2, 12)
    """

    extent_parameters = ("shape",)
    shape: Ints = ()
    reverse: Bool = False
    target_shape: Ints = ()
    keep_highest: Bool = False

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        data, out = inputs[0], outputs[0]
        if self.shape and all(n > 0 for n in self.shape):
            unify_at(outputs, 0, self.shape)
        if data is not None and is_known(out) and data.count(UNKNOWN) == 1:
            rest = prod(n for n in data if n is not UNKNOWN)
            inputs[0] = tuple(either(n, prod(out) // rest if rest else UNKNOWN) for n in data)

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        own = inputs[0].type.shape
        if self.shape:
            return b.reshape(inputs[0], reshaped(own, self.shape, self.reverse))
        if not self.target_shape and prod(own) != 1:
            raise ValueError("Reshape requires the parameter shape")
        return b.reshape(inputs[0], self._old_style(own))

    def _old_style(self, own: Shape) -> Shape:
        """`target_shape` with at most one 0, which is inferred; `keep_highest` copies the first extent."""
        target = list(self.target_shape)
        if self.keep_highest:
            target[0] = own[0]
        if 0 in target:
            missing = target.index(0)
            target[missing] = prod(own) // prod(n for i, n in enumerate(target) if i != missing)
        return tuple(target)


@operator("Flatten", aliases=("_npx_batch_flatten", "flatten"))
class Flatten(Operator):
    """Merges all axes except the first.

    Args:
        data: (N, ...).
    Returns:
        (N, product of the other extents).
    Example:
        >>> nd.flatten(nd.ones((2, 3, 4))).shape
        (2, 12)
    """

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        shape = inputs[0].type.shape
        return b.reshape(inputs[0], (shape[0], prod(shape[1:])))


@operator("transpose")
class Transpose(Operator):
    """Permutes the axes.

        output.shape[i] = data.shape[axes[i]]

    Args:
        axes: The axis of data for each axis of the result; by default they are reversed.
    Returns:
        The permuted array.
    Example:
        >>> nd.transpose(nd.ones((2, 3, 4)), axes=(0, 2, 1)).shape
        (2, 4, 3)
    """

    axes: Ints = ()

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        rank = known_rank(inputs[0], outputs[0])
        if rank is not None:
            unify_permuted(inputs, outputs, self._order(rank))

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return b.transpose(inputs[0], self._order(inputs[0].type.rank))

    def _order(self, rank: int) -> tuple[int, ...]:
        axes = tuple(normalize_axis(a, rank) for a in self.axes) or tuple(range(rank))[::-1]
        if sorted(axes) != list(range(rank)):
            raise ValueError(f"axes={self.axes} must contain each of the {rank} axes once")
        return axes


@operator("SwapAxis", aliases=("_npi_swapaxes", "swapaxes"))
class SwapAxis(Operator):
    """Swaps two axes.

    Args:
        dim1: The first axis.
        dim2: The second axis.
    Returns:
        The array with these axes swapped.
    Example:
        >>> nd.swapaxes(nd.ones((2, 3, 4)), dim1=0, dim2=2).shape
        (4, 3, 2)
    """

    dim1: Int = 0
    dim2: Int = 0

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        rank = known_rank(inputs[0], outputs[0])
        if rank is not None:
            unify_permuted(inputs, outputs, self._order(rank))

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return b.transpose(inputs[0], self._order(inputs[0].type.rank))

    def _order(self, rank: int) -> tuple[int, ...]:
        order = list(range(rank))
        first, second = (normalize_axis(a, rank) for a in (self.dim1, self.dim2))
        order[first], order[second] = order[second], order[first]
        return tuple(order)


@operator("expand_dims", aliases=("_npi_expand_dims",))
class ExpandDims(Operator):
    """Inserts an axis of extent 1.

    Args:
        axis: Position of the new axis; a negative one counts from the end.
    Returns:
        The array with one more axis.
    Example:
        >>> nd.expand_dims(nd.ones((2, 3)), axis=1).shape
        (2, 1, 3)
    """

    axis: Int

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        if inputs[0] is not None:
            axis = normalize_axis(self.axis, len(inputs[0]) + 1)
            unify_at(outputs, 0, (*inputs[0][:axis], 1, *inputs[0][axis:]))
        shape = outputs[0]
        if shape is not None and len(shape) > 1:
            axis = normalize_axis(self.axis, len(shape))
            unify_at(outputs, 0, (*shape[:axis], 1, *shape[axis + 1 :]))
            unify_at(inputs, 0, (*shape[:axis], *shape[axis + 1 :]))

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        shape = inputs[0].type.shape
        axis = normalize_axis(self.axis, len(shape) + 1)
        return b.reshape(inputs[0], (*shape[:axis], 1, *shape[axis:]))


@operator("squeeze")
class Squeeze(Operator):
    """Removes axes of extent 1.

    Args:
        axis: The axes; all of extent 1 by default.
    Returns:
        The array without these axes.
    Example:
        >>> nd.squeeze(nd.ones((2, 1, 3))).shape
        (2, 3)
    """

    probe_extents = (1, 60, 120)
    axis: OptionalInts = None

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        shape = inputs[0].type.shape
        gone = self._removed(shape)
        return b.reshape(inputs[0], tuple(n for i, n in enumerate(shape) if i not in gone) or (1,))

    def _removed(self, shape: Shape) -> tuple[int, ...]:
        if self.axis is None:
            return tuple(i for i, n in enumerate(shape) if n == 1)
        gone = normalize_axes(self.axis, len(shape))
        if any(shape[i] != 1 for i in gone):
            raise ValueError(f"cannot squeeze axes {self.axis} of {shape}: an extent is not 1")
        return gone


@operator("reshape_like", aliases=("_npx_reshape_like",))
class ReshapeLike(Operator):
    """Reshapes an array to the shape of another, or replaces a range of its axes by a range of the other's.

    Args:
        lhs: The array.
        rhs: The array with the target shape.
        lhs_begin: First axis of the range in lhs; 0 by default.
        lhs_end: End of the range in lhs; all axes by default.
        rhs_begin: First axis of the range in rhs; 0 by default.
        rhs_end: End of the range in rhs; all axes by default.
    Returns:
        An array with the elements of lhs.
    Example:
        >>> nd.reshape_like(nd.ones((6,)), nd.zeros((2, 3))).shape
        (2, 3)
    """

    inputs = ("lhs", "rhs")
    own_dtypes = frozenset(("rhs",))
    lhs_begin: OptionalInt = None
    lhs_end: OptionalInt = None
    rhs_begin: OptionalInt = None
    rhs_end: OptionalInt = None

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x, like = (v.type.shape for v in inputs)
        for rank, end in ((len(x), self.lhs_end), (len(like), self.rhs_end)):
            if end is not None and not -rank <= end <= rank:
                raise ValueError(f"the end {end} is out of range for {rank} axes")
        left = slice(self.lhs_begin, self.lhs_end).indices(len(x))
        right = slice(self.rhs_begin, self.rhs_end)
        return b.reshape(inputs[0], (*x[: left[0]], *like[right], *x[left[1] :]))


@operator("shape_array", aliases=("_npx_shape_array",))
class ShapeArray(Operator):
    """The shape of an array as an array of int64.

    Returns:
        (number of axes,).
    Example:
        >>> nd.shape_array(nd.ones((2, 3))).asnumpy()
        array([2, 3])
    """

    output_dtype = DType.I64

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        unify_at(outputs, 0, (UNKNOWN if inputs[0] is None else len(inputs[0]),))

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return b.integers(inputs[0].type.shape)


@operator("size_array")
class SizeArray(Operator):
    """The number of elements of an array as an array of one int64.

    Returns:
        (1,).
    Example:
        >>> nd.size_array(nd.ones((2, 3))).asnumpy()
        array([6])
    """

    output_dtype = DType.I64

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        unify_at(outputs, 0, (1,))

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return b.integers((inputs[0].type.size,))


@operator("tile", aliases=("_npi_tile",))
class Tile(Operator):
    """Repeats a whole array along each axis.

    Args:
        reps: Number of copies along each axis; 0 requires `mx.util.np_shape`. The shorter of data's shape and `reps` is
            padded with ones in front.
    Returns:
        An array with data's extents times `reps`.
    Example:
        >>> nd.tile(nd.array([1, 2]), reps=(2, 2)).asnumpy()
        array([[1., 2., 1., 2.],
               [1., 2., 1., 2.]], dtype=float32)
    """

    extent_parameters = ("reps",)
    reps: Ints

    def with_legacy_shapes(self) -> Operator:
        """0 copies would make an unknown extent: -1, which `decompose` refuses."""
        return self.resolved(reps=tuple(n or -1 for n in self.reps)) if 0 in self.reps else self

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        own = inputs[0].type.shape
        rank = max(len(own), len(self.reps))
        shape = (1,) * (rank - len(own)) + own
        if min(self.reps, default=0) < 0:
            raise ValueError(f"reps={self.reps}: must be positive, or 0 with NumPy's shapes (np_shape)")
        reps = (1,) * (rank - len(self.reps)) + self.reps
        spread = tuple(n for pair in zip(reps, shape, strict=True) for n in pair)
        x = b.broadcast(b.reshape(inputs[0], shape), spread, tuple(range(1, 2 * rank, 2)))
        return b.reshape(x, tuple(r * n for r, n in zip(reps, shape, strict=True)))


@operator("repeat", aliases=("_np_repeat",))
class Repeat(Operator):
    """Repeats each element along an axis.

    Args:
        repeats: Number of copies of each element.
        axis: The axis; None for the flattened array.
    Returns:
        An array whose extent along the axis is `repeats` times as large.
    Example:
        >>> nd.repeat(nd.array([1, 2]), repeats=2).asnumpy()
        array([1., 1., 2., 2.], dtype=float32)
    """

    repeats: Natural
    axis: OptionalInt = None

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x = inputs[0] if self.axis is not None else b.reshape(inputs[0], (inputs[0].type.size,))
        shape = x.type.shape
        axis = normalize_axis(self.axis or 0, len(shape))
        spread = (*shape[: axis + 1], self.repeats, *shape[axis + 1 :])
        axes = tuple(i for i in range(len(spread)) if i != axis + 1)
        return b.reshape(b.broadcast(x, spread, axes), (*shape[:axis], shape[axis] * self.repeats, *shape[axis + 1 :]))


@operator("reverse", aliases=("flip",))
class Reverse(Elementwise):
    """Reverses the order of the elements along axes.

    Args:
        axis: The axes.
    Returns:
        An array of data's shape.
    Example:
        >>> nd.reverse(nd.array([[1, 2], [3, 4]]), axis=1).asnumpy()
        array([[2., 1.],
               [4., 3.]], dtype=float32)
    """

    axis: Ints

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return b.reverse(inputs[0], distinct_axes(self.axis, inputs[0].type.rank))


@operator("Pad", aliases=("pad",))
class Pad(Operator):
    """Adds elements before and after axes.

    Args:
        data: Array of 4 or 5 axes.
        mode: "constant" adds a number, "edge" repeats the outermost elements, "reflect" mirrors the elements at the
            edge.
        pad_width: Two numbers for each axis: the number of elements before and after it. The first four are 0.
        constant_value: The number of "constant".
    Returns:
        The enlarged array.
    Example:
        >>> nd.pad(nd.ones((1, 1, 1, 2)), mode="constant", pad_width=(0, 0, 0, 0, 0, 0, 1, 1)).asnumpy()[0, 0]
        array([[0., 1., 1., 0.]], dtype=float32)
    """

    extent_parameters = ("pad_width",)
    mode: Literal["constant", "edge", "reflect"]
    pad_width: Ints
    constant_value: Float = 0.0

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x = inputs[0]
        if len(self.pad_width) != 2 * x.type.rank:
            raise ValueError(f"pad_width {self.pad_width} requires two numbers for each of {x.type.rank} axes")
        if self.mode == "constant":
            return b.pad(x, b.full((), self.constant_value, x.type.dtype), self.pad_width[::2], self.pad_width[1::2])
        for axis in range(x.type.rank):
            x = self.extended(b, x, axis, *self.pad_width[2 * axis : 2 * axis + 2])
        return x

    def extended(self, b: MxBuilder, x: Value, axis: int, low: int, high: int) -> Value:
        """x with elements before and after an axis, taken from x."""
        n = x.type.shape[axis]
        if not (low or high):
            return x
        if self.mode == "reflect":
            before = b.reverse(b.slice_axis(x, axis, 1, 1 + low), (axis,))
            after = b.reverse(b.slice_axis(x, axis, n - 1 - high, n - 1), (axis,))
            return b.concat([before, x, after], axis)
        ends = [(0, 1, low), (n - 1, n, high)]
        before, after = (self._edge(b, b.slice_axis(x, axis, lo, hi), axis, width) for lo, hi, width in ends)
        return b.concat([before, x, after], axis)

    def _edge(self, b: MxBuilder, edge: Value, axis: int, width: int) -> Value:
        shape = edge.type.shape
        return b.broadcast_to(edge, (*shape[:axis], width, *shape[axis + 1 :]))


@operator("diag")
class Diag(Operator):
    """Extracts a diagonal of matrices, or creates a matrix with a diagonal.

    Args:
        data: Array with several axes, or the elements of a diagonal (n,).
        k: The diagonal: 0 for the main one, positive for upper ones, negative for lower ones.
        axis1: Axis of the rows.
        axis2: Axis of the columns.
    Returns:
        data's shape with the diagonal as the last axis instead of the two; (n + |k|, n + |k|) for an array with one
            axis.
    Example:
        >>> nd.diag(nd.array([[1, 2], [3, 4]])).asnumpy()
        array([1., 4.], dtype=float32)
    """

    probe_extents = (1, 60, 120)  # the result depends on the shorter axis
    k: Int = 0
    axis1: Int = 0
    axis2: Int = 1

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x = inputs[0]
        return self._matrix(b, x) if x.type.rank == 1 else self.diagonal(b, x)

    def _matrix(self, b: MxBuilder, x: Value) -> Value:
        n = x.type.shape[0] + abs(self.k)
        spread = b.pad(x, b.full((), 0, x.type.dtype), (max(self.k, 0),), (max(-self.k, 0),))
        rows = b.broadcast_along(spread, (n, n), 1)
        eye = b.eq(b.add(b.iota((n, n), DType.I32, 0), self.k), b.iota((n, n), DType.I32, 1))
        return b.select(eye, rows, b.full_like(rows, 0))

    def diagonal(self, b: MxBuilder, x: Value) -> Value:
        """The diagonals of an array with several axes, along the last axis of the result."""
        rank = x.type.rank
        first, second = normalize_axis(self.axis1, rank), normalize_axis(self.axis2, rank)
        rows, columns = x.type.shape[first], x.type.shape[second]
        begin = (max(-self.k, 0), max(self.k, 0))
        length = max(min(rows - begin[0], columns - begin[1]), 0)
        if not length and rows and columns:
            raise ValueError(f"diagonal {self.k} is out of range for {x.type.shape}")
        others = tuple(i for i in range(rank) if i not in (first, second))
        planes = b.transpose(x, (first, second, *others))
        steps = np.arange(length)
        points = b.constant(np.stack([steps + begin[0], steps + begin[1]], 1).astype(np.int32))
        return b.transpose(b.gather(planes, points, axes=(0, 1)), (*range(1, rank - 1), 0))
