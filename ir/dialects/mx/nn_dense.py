"""Fully connected layers and embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...graph import Value
from ...types import DType
from .builder import MxBuilder
from .operator import Operator, operator
from .parameters import Bool, DTypeName, Int, Positive
from .shapes import PartialShape, is_known, unify_at


@operator("FullyConnected", aliases=("_npx_fully_connected", "_sparse_FullyConnected"))
class FullyConnected(Operator):
    """Applies a linear transformation: y = x W^T + b. The bias has the shape (num_hidden,) or (num_hidden, 1).

    With `flatten` all axes of data but the first are folded into one; otherwise it acts on the last axis.
    """

    inputs = ("data", "weight", "bias?")
    num_hidden: Int
    no_bias: Bool = False
    flatten: Bool = True

    def has_input(self, name: str) -> bool:
        return not self.no_bias

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        data = inputs[0]
        if data is None:
            return
        unify_at(inputs, 1, (self.num_hidden, prod(data[1:]) if self.flatten else data[-1]))
        if len(inputs) > 2:
            column = inputs[2] is not None and len(inputs[2]) == 2
            unify_at(inputs, 2, (self.num_hidden, 1) if column else (self.num_hidden,))
        unify_at(outputs, 0, (data[0], self.num_hidden) if self.flatten else (*data[:-1], self.num_hidden))
        if outputs[0] is not None:
            unify_at(inputs, 0, (outputs[0][0], *data[1:]) if self.flatten else (*outputs[0][:-1], data[-1]))

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        data, weight, *bias = inputs
        shape = data.type.shape
        rows = b.reshape(data, (shape[0], prod(shape[1:])) if self.flatten else (prod(shape[:-1]), shape[-1]))
        y = b.contract(rows, weight, 1, 1)
        if bias:
            y = b.add(y, b.broadcast_along(b.reshape(bias[0], (self.num_hidden,)), y.type.shape, 1))
        return y if self.flatten else b.reshape(y, (*shape[:-1], self.num_hidden))


@operator("Embedding", aliases=("_npx_embedding", "_sparse_Embedding"))
class Embedding(Operator):
    """Maps whole numbers to the rows of weight; numbers out of range take the nearest row."""

    inputs = ("data", "weight")
    own_dtypes = frozenset(("data",))
    input_dim: Positive
    output_dim: Positive
    dtype: DTypeName = "float32"
    sparse_grad: Bool = False

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        if inputs[0] is None and is_known(outputs[0]) and outputs[0]:
            unify_at(inputs, 0, outputs[0][:-1])
        if inputs[0] is not None:
            unify_at(inputs, 1, (self.input_dim, self.output_dim))
            unify_at(outputs, 0, (*inputs[0], self.output_dim))

    def complete_dtypes(self, inputs: list[DType | None], outputs: list[DType | None]) -> None:
        inputs[0] = inputs[0] or DType.F32
        inputs[1] = inputs[1] or outputs[0] or DType.from_numpy(self.dtype)

    def output_dtypes(self, inputs: Sequence[DType]) -> Sequence[DType | None]:
        return [inputs[1]]

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        data, weight = inputs
        return b.take(weight, b.cast(data, DType.I32 if not data.type.dtype.is_integer else data.type.dtype), 0)


@operator("_contrib_SparseEmbedding")
class SparseEmbedding(Embedding):
    """Embedding, whose gradient is row-sparse; `deterministic` is about the order in which a gradient is added up."""

    deterministic: Bool = False
