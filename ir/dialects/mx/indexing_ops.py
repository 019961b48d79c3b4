"""Operators that read or write elements at positions held in another array."""

from __future__ import annotations

from itertools import accumulate
from operator import mul
from typing import Literal

import numpy as np
from pydantic import Field

from ...graph import Value
from ...types import DType
from .builder import MxBuilder
from .operator import Operator, operator
from .parameters import Bool, DTypeName, Float, Int, Ints, OptionalInt
from .shapes import PartialShape, normalize_axis, unify_at


def whole(b: MxBuilder, indices: Value) -> Value:
    """Indices as integers: MXNet passes them as floats, whose fraction is cut off."""
    return indices if indices.type.dtype.is_integer else b.cast(indices, DType.I64)


def wrapped(b: MxBuilder, indices: Value, extent: int) -> Value:
    """Indices modulo the extent, never negative."""
    return b.mod(indices, extent)


@operator("take", aliases=("_npi_take",))
class Take(Operator):
    """The slices of `a` along an axis at the given indices, which are clipped to the axis or wrap around it.

    Mode "raise" raises in an eager call for an index outside; a compiled program cannot, and clips.
    """

    inputs = ("a", "indices")
    own_dtypes = frozenset(("indices",))
    axis: Int = 0
    mode: Literal["clip", "raise", "wrap"] = "clip"

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x, indices = inputs[0], whole(b, inputs[1])
        axis = normalize_axis(self.axis, x.type.rank)
        if self.mode == "wrap":
            indices = wrapped(b, indices, x.type.shape[axis])
        return b.take(x, indices, axis)

    def checks_operands(self) -> bool:
        return self.mode == "raise"

    def operands_problem(self, operands: list[np.ndarray]) -> str | None:
        indices, extent = operands[1].astype(np.int64), operands[0].shape[self.axis]
        if indices.size and (indices.min() < 0 or indices.max() >= extent):
            return f"indices from {indices.min()} to {indices.max()} are out of bounds for axis {self.axis} of {extent}"
        return None


@operator("batch_take")
class BatchTake(Operator):
    """For each row of `a` the element at the row's index."""

    inputs = ("a", "indices")
    own_dtypes = frozenset(("indices",))

    def complete_dtypes(self, inputs: list[DType | None], outputs: list[DType | None]) -> None:
        super().complete_dtypes(inputs, outputs)
        inputs[1] = inputs[1] or DType.I32

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x = inputs[0]
        if x.type.rank < 2 or inputs[1].type.size != x.type.shape[0]:
            raise ValueError(f"needs one index for each row of a, got {x.type.shape} and {inputs[1].type.shape}")
        rows = b.reshape(x, (x.type.shape[0], x.type.size // x.type.shape[0]))
        indices = b.reshape(whole(b, inputs[1]), (x.type.shape[0], 1))
        return b.reshape(b.gather(rows, indices, axes=(1,), batch=1), inputs[1].type.shape)


@operator("pick", aliases=("_npx_pick", "choose_element_0index"))
class Pick(Operator):
    """For each position of the other axes the element at that position's index along `axis`."""

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
        x, index = inputs[0], whole(b, inputs[1])
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
    """A copy of lhs in which row i has mhs[i] at column rhs[i]."""

    inputs = ("lhs", "mhs", "rhs")

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x, values, columns = inputs
        if x.type.rank != 2 or values.type.shape != x.type.shape[:1] or columns.type.shape != x.type.shape[:1]:
            raise ValueError(f"lhs must be a matrix, mhs and rhs have one number for each of its rows: {x.type.shape}")
        at = b.reshape(whole(b, columns), (x.type.shape[0], 1))
        return b.scatter(x, at, values, "set", axes=(1,), batch=1)


@operator("one_hot", aliases=("_npx_one_hot",))
class OneHot(Operator):
    """A new last axis of `depth` elements, `on_value` at the index and `off_value` elsewhere."""

    inputs = ("indices",)
    depth: Int
    on_value: Float = 1.0
    off_value: Float = 0.0
    dtype: DTypeName = "float32"

    def check(self) -> None:
        if self.depth < 0:
            raise ValueError(f"one_hot: depth={self.depth}: must not be negative")

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        indices, dtype = whole(b, inputs[0]), DType.from_numpy(self.dtype)
        shape = (*indices.type.shape, self.depth)
        spread = b.broadcast(indices, shape, tuple(range(len(shape) - 1)))
        hit = b.eq(spread, b.iota(shape, indices.type.dtype, len(shape) - 1))
        return b.select(hit, b.full(shape, self.on_value, dtype), b.full(shape, self.off_value, dtype))


@operator("gather_nd", aliases=("_npi_gather_nd", "_npx_gather_nd"))
class GatherND(Operator):
    """Elements or slices of data at coordinates: column j of `indices` (K, ...) holds the first K coordinates.

    Coordinates below 0 count from the end. An eager call raises for one outside; a compiled program cannot, and clips.
    """

    inputs = ("data", "indices")
    own_dtypes = frozenset(("indices",))
    index_errors = True

    def operands_problem(self, operands: list[np.ndarray]) -> str | None:
        data, indices = operands
        for axis, (extent, found) in enumerate(zip(data.shape, indices, strict=False)):
            outside = found[(found < -extent) | (found > extent - 1)]
            if outside.size:
                return f"index {outside[0]:g} is out of bounds for axis {axis} with size {extent}"
        return None

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x, points = inputs[0], coordinates(b, inputs[1])
        count = points.type.shape[-1]
        if count > x.type.rank:
            raise ValueError(f"indices hold {count} coordinates, data has {x.type.rank} axes")
        extents = b.broadcast_along(
            b.constant(np.array(x.type.shape[:count]), points.type.dtype), points.type.shape, points.type.rank - 1
        )
        points = b.select(b.lt(points, 0), b.add(points, extents), points)
        return b.gather(x, points, axes=tuple(range(count)))


def coordinates(b: MxBuilder, indices: Value) -> Value:
    """(K, ...) -> (..., K), as integers."""
    return b.transpose(whole(b, indices), (*range(1, indices.type.rank), 0))


@operator("scatter_nd")
class ScatterND(Operator):
    """Zeros of `shape` with data written at coordinates, the inverse of gather_nd."""

    inputs = ("data", "indices")
    own_dtypes = frozenset(("indices",))
    shape: Ints

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        data, points = inputs[0], coordinates(b, inputs[1])
        if min(self.shape, default=0) < 1:
            raise ValueError(f"shape={self.shape} must have positive extents")
        zeros = b.full(self.shape, 0, data.type.dtype)
        return b.scatter(zeros, points, data, "set", axes=tuple(range(points.type.shape[-1])))


@operator("_scatter_set_nd", aliases=("_npi_scatter_set_nd",))
class ScatterSetND(Operator):
    """A copy of lhs with rhs written at coordinates."""

    inputs = ("lhs", "rhs", "indices")
    own_dtypes = frozenset(("indices",))
    shape: Ints

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x, data, points = inputs[0], inputs[1], coordinates(b, inputs[2])
        return b.scatter(x, points, data, "set", axes=tuple(range(points.type.shape[-1])))


def _weights(shape: tuple[int, ...]) -> list[int]:
    """How far one step along each axis goes in row-major order."""
    return list(accumulate(reversed(shape[1:]), mul, initial=1))[::-1]


@operator("_ravel_multi_index", aliases=("ravel_multi_index",))
class RavelMultiIndex(Operator):
    """Row-major positions in an array of `shape` from coordinates (K, ...)."""

    shape: Ints = Field(())

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x = inputs[0]
        self._require_rows(x.type.shape[0])
        weights = b.broadcast_along(b.constant(np.array(_weights(self.shape)), x.type.dtype), x.type.shape, 0)
        return b.sum(b.mul(x, weights), (0,))

    def _require_rows(self, rows: int) -> None:
        if rows != len(self.shape):
            raise ValueError(f"shape={self.shape} has not one number for each of the {rows} rows of coordinates")


@operator("_unravel_index", aliases=("unravel_index",))
class UnravelIndex(Operator):
    """Coordinates (K, ...) in an array of `shape` from row-major positions."""

    shape: Ints = Field(())

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x = inputs[0]
        position = whole(b, x)
        rows: list[Value] = []
        for weight, extent in zip(_weights(self.shape), self.shape, strict=True):
            row = b.div(position, weight)
            rows.append(b.expand_dims(b.mod(row, extent) if rows else row, 0))
        return b.cast(b.concat(rows, 0), x.type.dtype)


@operator("_contrib_index_copy")
class IndexCopy(Operator):
    """A copy of the old tensor with the rows of the new one at the given indices."""

    inputs = ("old_tensor", "index_vector", "new_tensor")
    own_dtypes = frozenset(("index_vector",))

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        if outputs[0] is not None:
            unify_at(inputs, 0, outputs[0])

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        old, index, new = inputs
        rows = b.reshape(whole(b, index), (index.type.size, 1))
        return b.scatter(old, rows, new, "set", axes=(0,))
