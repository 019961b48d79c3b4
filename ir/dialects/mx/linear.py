"""Matrix products."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from ...graph import Value
from ...types import Shape
from .operator import Operator, operator
from .parameters import OR_NONE, Bool, OptionalInt

if TYPE_CHECKING:
    from .builder import MxBuilder

StorageType = Annotated[Literal["csr", "default", "row_sparse"] | None, OR_NONE]


class _DotBase(Operator):
    """Shared arguments of several operators.

    Args:
        lhs: The left operand.
        rhs: The right operand.
        transpose_a: True to transpose lhs first.
        transpose_b: True to transpose rhs first.
        forward_stype: Storage type of the result; determined by the operands by default.
    """

    inputs = ("lhs", "rhs")
    transpose_a: Bool = False
    transpose_b: Bool = False
    forward_stype: StorageType = None

    def require_equal(self, x: Value, left: int, y: Value, right: int) -> None:
        """ValueError unless axis `left` of lhs has the extent of axis `right` of rhs."""
        m, n = x.type.shape[left], y.type.shape[right]
        if m != n:
            raise ValueError(f"axis {left} of lhs and axis {right} of rhs must have the same extent, not {m} and {n}")


@operator("dot", aliases=("_sparse_dot",))
class Dot(_DotBase):
    """The product of matrices or vectors: a sum over the last axis of lhs and the first of rhs.

        output[i, ..., j, ...] = sum_k lhs[i, ..., k] * rhs[k, j, ...]

    With `transpose_a` the sum is over the first axis of lhs, with `transpose_b` over the last axis of rhs.

    Returns:
        (*lhs.shape[:-1], *rhs.shape[1:]); (1,) for two vectors.
    Example:
        >>> nd.dot(nd.array([[1, 2], [3, 4]]), nd.array([1, 10])).asnumpy()
        array([21., 43.], dtype=float32)
    """

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x, y = inputs
        left = 0 if self.transpose_a else x.type.rank - 1
        right = y.type.rank - 1 if self.transpose_b else 0
        self.require_equal(x, left, y, right)
        z = b.contract(x, y, left, right)
        return z if z.type.rank else b.reshape(z, (1,))


@operator("batch_dot", aliases=("_npx_batch_dot",))
class BatchDot(_DotBase):
    """Matrix products of corresponding matrices in two stacks.

        output[b] = lhs[b] . rhs[b]

    Args:
        lhs: (..., M, K), or (..., K, M) with `transpose_a`.
        rhs: (..., K, N), or (..., N, K) with `transpose_b`.
    Returns:
        (..., M, N).
    Example:
        >>> nd.batch_dot(nd.array([[[1, 2]]]), nd.array([[[3], [4]]])).asnumpy()
        array([[[11.]]], dtype=float32)
    """

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x, y = inputs
        if x.type.rank != y.type.rank or x.type.rank < 3:
            raise ValueError(f"requires equal numbers of axes, at least 3, got {x.type.shape} and {y.type.shape}")
        batch = tuple(range(x.type.rank - 2))
        left = x.type.rank - (2 if self.transpose_a else 1)
        right = y.type.rank - (1 if self.transpose_b else 2)
        for axis in batch:
            self.require_equal(x, axis, y, axis)
        self.require_equal(x, left, y, right)
        return b.dot(x, y, lhs_batch=batch, rhs_batch=batch, lhs_contract=(left,), rhs_contract=(right,))


@operator("khatri_rao")
class KhatriRao(Operator):
    """The column-wise Kronecker product of matrices.

    Args:
        args: Matrices (M, K), (N, K), ... with the same number of columns.
    Returns:
        (M * N * ..., K).
    Example:
        >>> nd.khatri_rao(nd.array([[1, 2]]), nd.array([[3, 4], [5, 6]])).asnumpy()
        array([[ 3.,  8.],
               [ 5., 12.]], dtype=float32)
    """

    inputs = ("args*",)
    num_args: OptionalInt = None

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        product = inputs[0]
        for factor in inputs[1:]:
            if product.type.rank != 2 or factor.type.rank != 2 or product.type.shape[1] != factor.type.shape[1]:
                raise ValueError(f"requires matrices with equal columns, got {product.type.shape}, {factor.type.shape}")
            (m, columns), n = product.type.shape, factor.type.shape[0]
            shape: Shape = (m, n, columns)
            pair = b.mul(b.broadcast(product, shape, (0, 2)), b.broadcast(factor, shape, (1, 2)))
            product = b.reshape(pair, (m * n, columns))
        return product
