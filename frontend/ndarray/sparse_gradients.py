"""Gradients of operators on sparse arrays: by rules that make no dense copies of the operands, or those of the dense
operators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...runtime.modes import modes
from ..base import MXNetError
from .casting import row_sparse_of
from .row_sums import summed
from .sparse_arrays import CSRNDArray, RowSparseNDArray
from .sparse_dot import dot
from .sparse_rows import rows_of
from .tape import ForwardRun, Origin, entry_of, record, zeros_of

if TYPE_CHECKING:
    from .ndarray import NDArray
    from .operator_function import BoundOperator

Rule = Callable[[Any, Sequence["NDArray"], int, "NDArray"], Any]
"""rule(operator, arrays, position, cotangent) -> the gradient by one operand; None: that of the dense operator."""


def record_sparse(bound: BoundOperator, arrays: Sequence[NDArray], result: Any) -> None:
    """Put a call with sparse operands or results on the tape. Its gradient is in the mode of the call. The gradient of
    the dense operator computes the forward again in the backward pass.
    """
    results = list(result) if isinstance(result, list | tuple) else [result]
    positions = [i for i, a in enumerate(arrays) if entry_of(a) is not None]
    record(arrays, positions, SparsePullback(bound, arrays, positions), results)


class SparsePullback:
    """The gradient of a call with sparse operands or results by the operands at `wrt`."""

    def __init__(self, bound: BoundOperator, arrays: Sequence[NDArray], wrt: Sequence[int]) -> None:
        self.bound, self.arrays, self.wrt = bound, arrays, wrt
        self.training = modes.training

    def __call__(self, cotangents: list[NDArray | None], differentiable: bool) -> Sequence[NDArray | None]:
        if differentiable:
            name = self.bound.operator.mx_name()
            raise MXNetError(f"{name}: the gradient of a call with sparse arrays cannot be differentiated")
        gradients = _by_rule(self.bound.operator, self.arrays, self.wrt, cotangents)
        if gradients is not None:
            return gradients
        dense = _Dense(self.bound, self.arrays, self.wrt, self.training)
        if not dense.derivative.runs(any(c is not None for c in cotangents)):
            return [None] * len(self.wrt)
        gradients = dense.gradients(cotangents)
        return [gradients.get(i) for i in self.wrt]

    def reads_cotangent(self, position: int) -> bool:
        """Whether the gradient of the dense operator depends on the cotangent of a result that can have one."""
        return _Dense(self.bound, self.arrays, self.wrt, self.training).derivative.traits.reads_cotangent[position]

    def origin(self) -> Origin:
        return Origin(self.bound.operator, self.arrays, self.wrt)


def _by_rule(
    operator: Any, arrays: Sequence[NDArray], positions: Sequence[int], cotangents: Sequence[NDArray | None]
) -> list[NDArray] | None:
    rule, (first, *more) = _RULES.get(operator.name), cotangents
    if rule is None or first is None or more:
        return None
    gradients = [rule(operator, arrays, i, first) for i in positions]
    return None if any(g is None for g in gradients) else gradients


class _Dense:
    """The derivative of a call on dense copies of its operands, by those at `wrt` that can have a gradient."""

    def __init__(
        self, bound: BoundOperator, arrays: Sequence[NDArray], positions: Sequence[int], training: bool
    ) -> None:
        self.arrays = [a.tostype("default") if a._is_sparse else a.detach() for a in arrays]
        specialization = bound.function.specialization(self.arrays, training)
        if specialization.random or bound.scalars:
            raise MXNetError(f"{bound.operator.mx_name()}: a call with sparse arrays has no gradient")
        self.types = specialization.types
        self.wrt = [i for i in positions if self.arrays[i]._dtype.has_cotangent]
        self.derivative = specialization.differentiable.derivative(self.wrt)

    def gradients(self, cotangents: Sequence[NDArray | None]) -> Mapping[int, NDArray]:
        """The gradients by position."""
        run = ForwardRun(self.derivative, self.arrays, (), 0)
        seeds = [
            zeros_of(t, run.context) if c is None else c.tostype("default")
            for c, t in zip(cotangents, self.types, strict=True)
            if t.dtype.has_cotangent
        ]
        return dict(zip(self.wrt, run.gradients(seeds), strict=True))


def _dot(operator: Any, arrays: Sequence[NDArray], position: int, cotangent: NDArray) -> Any:
    """The gradient of a product with a csr matrix by the dense operand. x^T g stores the rows of the columns that x
    stores."""
    x, y = arrays
    cotangent = cotangent.tostype("default")
    if position == 1 and isinstance(x, CSRNDArray) and not operator.transpose_b:
        flipped: dict[str, Any] = {"transpose_a": not operator.transpose_a, "forward_stype": None}
        return dot(operator.with_values(**flipped), [x, cotangent])
    if position == 0 and isinstance(y, CSRNDArray) and not operator.transpose_a:
        flipped = {"transpose_b": not operator.transpose_b, "forward_stype": "default"}
        return dot(operator.with_values(**flipped), [cotangent, y])
    return None


def _embedding(operator: Any, arrays: Sequence[NDArray], position: int, cotangent: NDArray) -> Any:
    """The gradient by a row-sparse table stores the rows that were looked up."""
    indices, table = arrays
    if position != 1 or indices._is_sparse or not isinstance(table, RowSparseNDArray):
        return None
    numbers = indices.asnumpy().astype(np.int64).reshape(-1)
    stored, sums = summed(numbers, cotangent.asnumpy().reshape(len(numbers), -1))
    return row_sparse_of(sums, stored, table._shape, table._context, table.dtype)


def _square_sum(operator: Any, arrays: Sequence[NDArray], position: int, cotangent: NDArray) -> Any:
    """The gradient of the sum of squares of the rows of a row-sparse matrix stores the rows that both the matrix and
    the cotangent store."""
    (x,) = arrays
    if not isinstance(x, RowSparseNDArray) or x.ndim != 2 or operator.axis != (1,):
        return None
    numbers = x.indices.asnumpy()
    if isinstance(cotangent, RowSparseNDArray):
        numbers = np.intersect1d(numbers, cotangent.indices.asnumpy())
        factors = rows_of(cotangent, numbers).asnumpy()
    else:
        factors = cotangent.asnumpy().reshape(-1, 1)[numbers]
    return row_sparse_of(2 * rows_of(x, numbers).asnumpy() * factors, numbers, x._shape, x._context, x.dtype)


_RULES: Mapping[str, Rule] = {
    "mx._square_sum": _square_sum,
    "mx.dot": _dot,
    "mx.Embedding": _embedding,
    "mx._contrib_SparseEmbedding": _embedding,
}
