"""Fully connected layers and embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from ...graph import Value
from ...types import DType
from .operator import Operator, operator
from .parameters import Bool, DTypeName, Positive
from .shapes import PartialShape, is_known, unify_at

if TYPE_CHECKING:
    from .builder import MxBuilder


@operator("FullyConnected", aliases=("_npx_fully_connected", "_sparse_FullyConnected"))
class FullyConnected(Operator):
    """Applies a linear transformation: multiplies each row of data by the transposed weight and adds the bias.

        output[n, o] = sum_c data[n, c] * weight[o, c] + bias[o]

    Args:
        data: (N, ...). With `flatten`, all axes except the first are merged into one of length C; otherwise the
            transformation applies to the last axis, of length C.
        weight: (num_hidden, C).
        bias: (num_hidden,) or (num_hidden, 1); absent with `no_bias`.
        num_hidden: Length of an output row.
        no_bias: True to leave out the bias.
        flatten: False to keep the leading axes of data.
    Returns:
        (N, num_hidden), or (*data.shape[:-1], num_hidden) without `flatten`.
    Example:
        >>> x, w = nd.array([[1, 2]]), nd.array([[1, 0], [0, 1], [1, 1]])
        >>> nd.FullyConnected(x, w, num_hidden=3, no_bias=True).asnumpy()
        array([[1., 2., 3.]], dtype=float32)
    """

    inputs = ("data", "weight", "bias?")
    num_hidden: Positive
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
    """Looks up rows of a table by index.

        output[i, ..., :] = weight[data[i, ...], :]

    An index outside [0, input_dim) is clipped.

    Args:
        data: Indices of any shape and dtype.
        weight: (input_dim, output_dim), the table.
        input_dim: Number of rows of the table.
        output_dim: Length of a row.
        dtype: Dtype of the weight if inference does not determine it.
        sparse_grad: True for a row-sparse gradient of the weight.
    Returns:
        (*data.shape, output_dim).
    Example:
        >>> table = nd.array([[0, 0], [1, 10], [2, 20]])
        >>> nd.Embedding(nd.array([2, 1]), table, input_dim=3, output_dim=2).asnumpy()
        array([[ 2., 20.],
               [ 1., 10.]], dtype=float32)
    """

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
    """Embedding whose weight has a row-sparse gradient.

    Args:
        deterministic: True to sum a gradient in a fixed order. The order is always fixed here.
    """

    deterministic: Bool = False
