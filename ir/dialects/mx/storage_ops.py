"""Operators for storage types. Values in a graph are dense, so they keep all elements, or the elements of some rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from ...graph import Value
from ...types import DType
from .indexing_ops import as_integers
from .operator import Operator, operator

if TYPE_CHECKING:
    from .builder import MxBuilder


@operator("cast_storage", aliases=("_sparse_cast_storage",))
class CastStorage(Operator):
    """The same array in another storage type.

    Args:
        stype: "default" for a dense array, "csr" for a matrix of compressed rows, "row_sparse" for an array with
            few nonzero rows.
    Returns:
        An array of data's shape.
    Example:
        >>> nd.cast_storage(nd.array([[0, 1], [0, 0]]), stype="csr").indices.asnumpy()
        array([1])
    """

    stype: Literal["csr", "default", "row_sparse"]

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return inputs[0]


@operator("_sparse_retain")
class SparseRetain(Operator):
    """A row-sparse array with only some of its rows; all other rows become 0.

    Args:
        data: The array.
        indices: Numbers of the rows to keep.
    Returns:
        A row-sparse array of data's shape.
    """

    inputs = ("data", "indices")
    own_dtypes = frozenset(("indices",))

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x, indices = inputs[0], b.cast(as_integers(b, inputs[1]), DType.I64)
        rows, count = x.type.shape[0], indices.type.shape[0]
        numbers = b.broadcast(b.iota((rows,), DType.I64, 0), (rows, count), (0,))
        hit = b.eq(numbers, b.broadcast(indices, (rows, count), (1,)))
        mask = b.broadcast(b.any(hit, (1,)), x.type.shape, (0,))
        return b.select(mask, x, b.full_like(x, 0))
