"""The primitive that multiplies a matrix in compressed rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...graph import Node, Value
from ...lazy_dataclass import dataclass
from ...scalar import ReduceOp
from ...types import DType, TensorType
from .primitive import Array, Arrays, Gradients, Primitive, Types, accumulator, check_same_dtype, operands

if TYPE_CHECKING:
    from .builder import CoreBuilder


@dataclass(frozen=True)
class CsrDot(Primitive):
    """data (n,), columns (n,), pointers (rows + 1,), dense (inner, width) -> (rows, width): a matrix product.

    Row r of the left matrix has the elements data[i] in columns[i] for i from pointers[r] to pointers[r + 1]. Pointers
    ascend from 0 to n and columns are in [0, inner); other numbers are undefined.
    """

    name = "core.csr_dot"

    def infer(self, *types: TensorType) -> Types:
        data, columns, pointers, dense = operands(types, 4)
        check_same_dtype(data, dense)
        if (data.rank, columns.rank, pointers.rank, dense.rank) != (1, 1, 1, 2) or data.shape != columns.shape:
            shapes = f"{data.shape}, {columns.shape}, {pointers.shape} and {dense.shape}"
            raise ValueError(f"data, columns, pointers and a dense matrix have shapes (n,), (n,), (rows + 1,) and "
                             f"(inner, width), not {shapes}")  # fmt: skip
        if not (columns.dtype.is_integer and pointers.dtype.is_integer) or data.dtype is DType.BOOL:
            raise TypeError("columns and pointers are integers, and elements numbers")
        return (TensorType((pointers.shape[0] - 1, dense.shape[1]), data.dtype),)

    def evaluate(self, *arrays: Array) -> Arrays:
        data, columns, pointers, dense = arrays
        wide = accumulator(data.dtype)
        sums = np.zeros((len(pointers) - 1, dense.shape[1]), wide)
        stored = slice(pointers[0], pointers[-1])
        rows = np.repeat(np.arange(len(sums)), np.diff(pointers))
        np.add.at(sums, rows, data[stored, None].astype(wide) * dense[columns[stored]])
        return (sums.astype(data.dtype),)

    def vanishes(self, node: Node, zero: Sequence[bool]) -> bool:
        return zero[0] or zero[3]

    def vjp(self, b: CoreBuilder, node: Node, cotangents: Sequence[Value]) -> Gradients:
        data, columns, pointers, dense = node.inputs
        moved = b.take(cotangents[0], _rows(b, data, pointers), 0)
        products = b.mul(b.broadcast(data, moved.type.shape, (0,)), moved)
        gradient = b.scatter(b.full_like(dense, 0), b.expand_dims(columns, 1), products, "add", (0,))
        return [b.sum(b.mul(moved, b.take(dense, columns, 0)), (1,)), None, None, gradient]

    def expand(self, b: CoreBuilder, *operands: Value) -> Value:
        """All products of elements in memory, added to their rows. Targets with a kernel keep the primitive."""
        data, columns, pointers, dense = operands
        taken = b.take(dense, columns, 0)
        products = b.mul(b.broadcast(data, taken.type.shape, (0,)), taken)
        rows, (count,) = _rows(b, data, pointers), pointers.type.shape
        zeros = b.full((count - 1, dense.type.shape[1]), 0, data.type.dtype)
        return b.scatter(zeros, b.expand_dims(rows, 1), products, "add", (0,))


def _rows(b: CoreBuilder, data: Value, pointers: Value) -> Value:
    """The row of each element: the number of rows that begin at it or before it, except the first one."""
    zeros = b.full(data.type.shape, 0, DType.I64)
    begins = b.slice_axis(pointers, 0, 1, pointers.type.shape[0])
    ones = b.full(begins.type.shape, 1, DType.I64)
    return b.cumulative(ReduceOp.ADD, b.scatter(zeros, b.expand_dims(begins, 1), ones, "add", (0,)), 0)
