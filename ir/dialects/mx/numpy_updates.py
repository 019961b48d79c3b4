"""Operators of `mx.np` and `mx.npx` that write at positions: copies with elements added, replaced and inserted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...graph import Value
from ...types import DType
from .indexing_ops import as_integers, coordinates
from .numpy_indexing import InsertAt
from .operator import Operator, operator
from .parameters import OptionalFloat
from .shapes import PartialShape, unify_at

if TYPE_CHECKING:
    from .builder import MxBuilder


class _Updated(Operator):
    """A copy of an array that is changed at positions.

    Args:
        a: The array.
        ind: (K, ...), integers: the first K coordinates of each position, or (...) for the first axis.
        val: The values: an array that broadcasts to (*ind.shape[1:], *a.shape[K:]).
    Returns:
        An array of a's shape.
    """

    inputs = ("a", "ind", "val")
    own_dtypes = frozenset(("ind",))
    index_errors = True
    how = "set"

    def operands_problem(self, operands: list[np.ndarray]) -> str | None:
        """The error for a coordinate that the array does not have."""
        data, indices = operands[0], operands[1]
        if indices.ndim < 2:
            indices = indices.reshape(1, -1)
        for axis, (extent, places) in enumerate(zip(data.shape, indices, strict=False)):
            outside = places[(places < -extent) | (places > extent - 1)]
            if outside.size:
                return f"index {outside[0]:g} is out of bounds for axis {axis} with size {extent}"
        return None

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        unify_at(outputs, 0, inputs[0])
        unify_at(inputs, 0, outputs[0])

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x, ind, values = inputs
        points = coordinates(b, ind) if ind.type.rank > 1 else b.expand_dims(as_integers(b, ind), 1)
        count = points.type.shape[-1]
        if count > x.type.rank:
            raise ValueError(f"ind has {count} coordinates, a has {x.type.rank} axes")
        extents = b.broadcast_along(
            b.integers(x.type.shape[:count], points.type.dtype), points.type.shape, points.type.rank - 1
        )
        points = b.select(b.lt(points, 0), b.add(points, extents), points)
        shape = (*points.type.shape[:-1], *x.type.shape[count:])
        values = b.broadcast_to(b.cast(values, x.type.dtype), shape)
        return b.scatter(x, points, values, self.how, axes=tuple(range(count)))


@operator("_npx_index_update")
class IndexUpdate(_Updated):
    """A copy of an array with elements or slices replaced at positions."""


@operator("_npx_index_add")
class IndexAdd(_Updated):
    """A copy of an array with values added at positions; those of one position are added up."""

    how = "add"


@operator("_npi_insert_tensor")
class InsertTensor(InsertAt):
    """The array with slices inserted before the positions in an array of integers."""

    inputs = ("arr", "values?", "obj")
    own_dtypes = frozenset(("obj",))
    val: OptionalFloat = None

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x, axis = self.flattened(b, inputs[0])
        at = as_integers(b, b.reshape(inputs[-1], (inputs[-1].type.size,)))
        extent, count = x.type.shape[axis], at.type.shape[0]
        values = b.full((), self.val or 0.0, x.type.dtype) if len(inputs) < 3 else b.cast(inputs[1], x.type.dtype)
        shape = (*x.type.shape[:axis], count, *x.type.shape[axis + 1 :])
        both = b.concat([x, b.broadcast_to(values, shape)], axis)
        at = b.cast(b.select(b.lt(at, 0), b.add(at, extent), at), DType.I64)
        own = b.add(b.mul(b.iota((extent,), DType.I64, 0), 2), 1)
        order = b.argsort(b.concat([own, b.mul(at, 2)], 0), 0)
        return b.take(both, order, axis)
