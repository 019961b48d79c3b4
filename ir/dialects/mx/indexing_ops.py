"""Operators that read or write elements at positions held in another array."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import prod
from operator import mul
from typing import TYPE_CHECKING, Literal

import numpy as np

from ...graph import Value
from ...types import DType
from .gradients import no_gradient
from .operator import Operator, operator
from .parameters import Bool, DTypeName, Float, Int, Ints, OptionalInt
from .shapes import PartialShape, normalize_axis, unify_at

if TYPE_CHECKING:
    from .builder import MxBuilder


def as_integers(b: MxBuilder, indices: Value) -> Value:
    """Indices as integers: MXNet passes floats, which are truncated."""
    return indices if indices.type.dtype.is_integer else b.cast(indices, DType.I64)


def wrapped(b: MxBuilder, indices: Value, extent: int) -> Value:
    """Indices modulo the extent, never negative."""
    return b.mod(indices, extent)


@operator("take", aliases=("_npi_take",))
class Take(Operator):
    """Slices of an array along one axis, at given indices.

        output[i, ...] = a[indices[i], ...]    (axis 0)

    Args:
        a: The array.
        indices: Indices of any shape and dtype.
        axis: The axis.
        mode: What happens to an index out of range: "clip" takes the nearest, "wrap" counts modulo the extent,
            "raise" is an MXNetError (in loops and branches of a compiled graph, "clip").
    Returns:
        a's shape, with the axis replaced by the shape of indices.
    Example:
        >>> nd.take(nd.array([[1, 2], [3, 4], [5, 6]]), nd.array([2, 0])).asnumpy()
        array([[5., 6.],
               [1., 2.]], dtype=float32)
    """

    inputs = ("a", "indices")
    own_dtypes = frozenset(("indices",))
    axis: Int = 0
    mode: Literal["clip", "raise", "wrap"] = "clip"

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x, indices = inputs[0], as_integers(b, inputs[1])
        axis = normalize_axis(self.axis, x.type.rank)
        if self.mode == "wrap":
            indices = wrapped(b, indices, x.type.shape[axis])
        return b.take(x, indices, axis)

    def verify(self, b: MxBuilder, *inputs: Value) -> None:
        if self.mode == "raise":
            indices, axis = as_integers(b, inputs[1]), normalize_axis(self.axis, inputs[0].type.rank)
            inside = b.and_(b.ge(indices, 0), b.lt(indices, inputs[0].type.shape[axis]))
            b.require(inside, f"take: indices are out of bounds for axis {self.axis}")

    def checks_operands(self) -> bool:
        return self.mode == "raise"

    def operands_problem(self, operands: list[np.ndarray]) -> str | None:
        extent = operands[0].shape[self.axis]
        if not operands[1].size:
            return None
        least, largest = int(operands[1].min()), int(operands[1].max())
        if least < 0 or largest >= extent:
            return f"indices from {least} to {largest} are out of bounds for axis {self.axis} of {extent}"
        return None


@operator("batch_take")
class BatchTake(Operator):
    """One element of each row.

        output[i] = a[i, indices[i]]

    Args:
        a: (N, M).
        indices: (N,), the columns.
    Returns:
        (N,).
    Example:
        >>> nd.batch_take(nd.array([[1, 2], [3, 4]]), nd.array([1, 0], dtype="int32")).asnumpy()
        array([2., 3.], dtype=float32)
    """

    inputs = ("a", "indices")
    own_dtypes = frozenset(("indices",))

    def complete_dtypes(self, inputs: list[DType | None], outputs: list[DType | None]) -> None:
        super().complete_dtypes(inputs, outputs)
        inputs[1] = inputs[1] or DType.I32

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x = inputs[0]
        if x.type.rank < 2 or inputs[1].type.size != x.type.shape[0]:
            raise ValueError(f"requires one index for each row of a, got {x.type.shape} and {inputs[1].type.shape}")
        rows = b.reshape(x, (x.type.shape[0], prod(x.type.shape[1:])))
        indices = b.reshape(as_integers(b, inputs[1]), (x.type.shape[0], 1))
        return b.reshape(b.gather(rows, indices, axes=(1,), batch=1), inputs[1].type.shape)


@operator("pick", aliases=("_npx_pick", "choose_element_0index"))
class Pick(Operator):
    """One element along an axis for each position of the other axes.

        output[i] = data[i, index[i]]    (axis 1)

    Args:
        data: The array.
        index: Positions along the axis, in data's shape without it or with extent 1 there.
        axis: The axis; None for the flattened array.
        keepdims: True to keep the axis with extent 1.
        mode: What happens to an index out of range: "clip" takes the nearest, "wrap" counts modulo the extent.
    Returns:
        data's shape without the axis.
    Example:
        >>> nd.pick(nd.array([[1, 2], [3, 4]]), nd.array([1, 0])).asnumpy()
        array([2., 3.], dtype=float32)
    """

    inputs = ("data", "index")
    own_dtypes = frozenset(("index",))
    axis: OptionalInt = -1
    keepdims: Bool = False
    mode: Literal["clip", "wrap"] = "clip"

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        data, index = inputs
        if data is None or self.axis is None:
            return
        axis = normalize_axis(self.axis, len(data))
        kept, wide = data[:axis] + data[axis + 1 :] or (1,), (*data[:axis], 1, *data[axis + 1 :])
        unify_at(inputs, 1, wide if index is not None and len(index) == len(data) else kept)
        unify_at(outputs, 0, wide if self.keepdims else kept)

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x, index = inputs[0], as_integers(b, inputs[1])
        if self.axis is None:
            x = b.reshape(x, (x.type.size,))
        axis = normalize_axis(self.axis or 0, x.type.rank)
        shape = x.type.shape
        if self.mode == "wrap":
            index = wrapped(b, index, shape[axis])
        rows = b.transpose(x, (*(i for i in range(len(shape)) if i != axis), axis))
        count = x.type.size // shape[axis]
        picked = b.gather(b.reshape(rows, (count, shape[axis])), b.reshape(index, (count, 1)), axes=(1,), batch=1)
        left = (*shape[:axis], *((1,) if self.keepdims else ()), *shape[axis + 1 :])
        return b.reshape(picked, left or (1,))


@operator("fill_element_0index")
class FillElement0Index(Operator):
    """A copy of a matrix with one element of each row replaced.

        output[i, rhs[i]] = mhs[i]

    Args:
        lhs: (N, M), the matrix.
        mhs: (N,), the new elements.
        rhs: (N,), their columns.
    Returns:
        (N, M).
    """

    inputs = ("lhs", "mhs", "rhs")

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x, values, columns = inputs
        if x.type.rank != 2 or values.type.shape != x.type.shape[:1] or columns.type.shape != x.type.shape[:1]:
            raise ValueError(f"lhs must be a matrix, mhs and rhs must have one number per row, got {x.type.shape}")
        at = b.reshape(as_integers(b, columns), (x.type.shape[0], 1))
        return b.scatter(x, at, values, "set", axes=(1,), batch=1)


@operator("one_hot", aliases=("_npx_one_hot",))
class OneHot(Operator):
    """Vectors that are `on_value` at one index and `off_value` elsewhere.

        output[..., k] = on_value if k == indices[...] else off_value

    Args:
        indices: Indices of any shape.
        depth: Length of the vectors.
        on_value: Value at the index.
        off_value: Value elsewhere.
        dtype: Dtype of the result.
    Returns:
        (*indices.shape, depth).
    Example:
        >>> nd.one_hot(nd.array([1, 0]), depth=3).asnumpy()
        array([[0., 1., 0.],
               [1., 0., 0.]], dtype=float32)
    """

    inputs = ("indices",)
    extent_parameters = ("depth",)
    depth: Int
    on_value: Float = 1.0
    off_value: Float = 0.0
    dtype: DTypeName = "float32"

    def check(self) -> None:
        if self.depth < 0:
            raise ValueError(f"one_hot: depth={self.depth}: must not be negative")

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        indices, dtype = as_integers(b, inputs[0]), DType.from_numpy(self.dtype)
        shape = (*indices.type.shape, self.depth)
        spread = b.broadcast(indices, shape, tuple(range(len(shape) - 1)))
        hit = b.eq(spread, b.iota(shape, indices.type.dtype, len(shape) - 1))
        return b.select(hit, b.full(shape, self.on_value, dtype), b.full(shape, self.off_value, dtype))


@operator("gather_nd", aliases=("_npi_gather_nd", "_npx_gather_nd"))
class GatherND(Operator):
    """Elements or slices of an array at given coordinates.

        output[j] = data[indices[0, j], indices[1, j], ...]

    A negative coordinate counts from the end. A coordinate out of range is an IndexError in an eager call, and clipped
    in a compiled graph.

    Args:
        data: The array.
        indices: (K, ...), the first K coordinates of each element of the result.
    Returns:
        (*indices.shape[1:], *data.shape[K:]).
    Example:
        >>> nd.gather_nd(nd.array([[1, 2], [3, 4]]), nd.array([[0, 1], [1, 0]])).asnumpy()
        array([2., 3.], dtype=float32)
    """

    inputs = ("data", "indices")
    own_dtypes = frozenset(("indices",))
    index_errors = True

    def operands_problem(self, operands: list[np.ndarray]) -> str | None:
        data, indices = operands
        for axis, (extent, coordinates) in enumerate(zip(data.shape, indices, strict=False)):
            outside = coordinates[(coordinates < -extent) | (coordinates > extent - 1)]
            if outside.size:
                return f"index {outside[0]:g} is out of bounds for axis {axis} with size {extent}"
        return None

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x, points = inputs[0], coordinates(b, inputs[1])
        count = points.type.shape[-1]
        if count > x.type.rank:
            raise ValueError(f"indices hold {count} coordinates, data has {x.type.rank} axes")
        extents = b.broadcast_along(
            b.integers(x.type.shape[:count], points.type.dtype), points.type.shape, points.type.rank - 1
        )
        points = b.select(b.lt(points, 0), b.add(points, extents), points)
        return b.gather(x, points, axes=tuple(range(count)))


def coordinates(b: MxBuilder, indices: Value) -> Value:
    """(K, ...) -> (..., K), as integers."""
    return b.transpose(as_integers(b, indices), (*range(1, indices.type.rank), 0))


@operator("scatter_nd")
class ScatterND(Operator):
    """Zeros with elements or slices written at given coordinates: the inverse of gather_nd.

        output[indices[0, j], indices[1, j], ...] = data[j]

    Args:
        data: The elements or slices.
        indices: (K, ...), the first K coordinates of each of them.
        shape: Shape of the result.
    Returns:
        An array of that shape.
    Example:
        >>> nd.scatter_nd(nd.array([5, 6]), nd.array([[0, 2]]), shape=(3,)).asnumpy()
        array([5., 0., 6.], dtype=float32)
    """

    inputs = ("data", "indices")
    own_dtypes = frozenset(("indices",))
    shape: Ints

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        data, points = inputs[0], coordinates(b, inputs[1])
        if min(self.shape, default=0) < 1:
            raise ValueError(f"shape={self.shape} must have positive extents")
        zeros = b.full(self.shape, 0, data.type.dtype)
        return b.scatter(zeros, points, data, "set", axes=tuple(range(points.type.shape[-1])))

    def gradient(  # type: ignore[override]
        self, b: MxBuilder, operands: Sequence[Value], results: object, cotangents: Sequence[Value]
    ) -> list[Value | None]:
        """Each number gets the cotangent at its coordinates, even if another number overwrote it."""
        points = coordinates(b, operands[1])
        return [b.gather(cotangents[0], points, tuple(range(points.type.shape[-1]))), None]


@operator("_scatter_set_nd", aliases=("_npi_scatter_set_nd",))
class ScatterSetND(Operator):
    """A copy of an array with elements or slices replaced at given coordinates.

    Args:
        lhs: The array.
        rhs: The new elements or slices.
        indices: (K, ...), the first K coordinates of each of them.
        shape: Shape of the result.
    """

    inputs = ("lhs", "rhs", "indices")
    own_dtypes = frozenset(("indices",))
    shape: Ints

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x, data, points = inputs[0], inputs[1], coordinates(b, inputs[2])
        return b.scatter(x, points, data, "set", axes=tuple(range(points.type.shape[-1])))


def _weights(shape: tuple[int, ...]) -> list[int]:
    """The distance of one step along each axis in row-major order."""
    return list(accumulate(reversed(shape[1:]), mul, initial=1))[::-1]


@operator("_ravel_multi_index", aliases=("ravel_multi_index",))
class RavelMultiIndex(Operator):
    """Row-major positions in an array from coordinates.

        output = data[0] * shape[1] * ... + data[1] * shape[2] * ... + ... + data[K - 1]

    Args:
        data: (K, ...), the coordinates.
        shape: Shape of the array.
    Returns:
        data.shape[1:].
    Example:
        >>> nd.ravel_multi_index(nd.array([[0, 1], [2, 0]]), shape=(2, 3)).asnumpy()
        array([2., 3.], dtype=float32)
    """

    gradient = no_gradient
    shape: Ints = ()

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x = inputs[0]
        self._require_rows(x.type.shape[0])
        weights = b.broadcast_along(b.constant(np.array(_weights(self.shape)), x.type.dtype), x.type.shape, 0)
        return b.sum(b.mul(x, weights), (0,))

    def _require_rows(self, rows: int) -> None:
        if rows != len(self.shape):
            raise ValueError(f"shape={self.shape} must have {rows} numbers, one for each row of coordinates")


@operator("_unravel_index", aliases=("unravel_index",))
class UnravelIndex(Operator):
    """Coordinates in an array from row-major positions: the inverse of ravel_multi_index.

    Args:
        data: The positions.
        shape: Shape of the array, with K axes.
    Returns:
        (K, *data.shape).
    Example:
        >>> nd.unravel_index(nd.array([2, 3]), shape=(2, 3)).asnumpy()
        array([[0., 1.],
               [2., 0.]], dtype=float32)
    """

    shape: Ints = ()

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x = inputs[0]
        position = as_integers(b, x)
        rows: list[Value] = []
        for weight, extent in zip(_weights(self.shape), self.shape, strict=True):
            row = b.div(position, weight)
            rows.append(b.expand_dims(b.mod(row, extent) if rows else row, 0))
        return b.cast(b.concat(rows, 0), x.type.dtype)


@operator("_contrib_index_copy")
class IndexCopy(Operator):
    """A copy of an array with slices along the first axis replaced.

        output[index_vector[i]] = new_tensor[i]

    Args:
        old_tensor: The array.
        index_vector: (N,), the indices.
        new_tensor: (N, *old_tensor.shape[1:]), the slices.
    Returns:
        An array of old_tensor's shape.
    Example:
        >>> old, at = nd.zeros((3, 1)), nd.array([2], dtype="int32")
        >>> nd.contrib.index_copy(old, at, nd.array([[5]])).asnumpy()
        array([[0.],
               [0.],
               [5.]], dtype=float32)
    """

    inputs = ("old_tensor", "index_vector", "new_tensor")
    own_dtypes = frozenset(("index_vector",))

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        if outputs[0] is not None:
            unify_at(inputs, 0, outputs[0])

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        old, index, new = inputs
        rows = b.reshape(as_integers(b, index), (index.type.size, 1))
        return b.scatter(old, rows, new, "set", axes=(0,))
