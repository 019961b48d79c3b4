"""Products of sparse matrices, by which the frontend computes `dot` of arrays in csr."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...graph import Value
from .operator import Operator

if TYPE_CHECKING:
    from .builder import MxBuilder


class CsrDot(Operator):
    """The product of a matrix in compressed rows and a dense matrix. Users have no name for it.

    Args:
        data: (n,), the stored elements.
        indices: (n,), their columns.
        indptr: (rows + 1,), where the elements of each row begin, and n.
        rhs: (columns, width), a dense matrix.
    Returns:
        (rows, width).
    """

    name = "mx.dot_csr"

    inputs = ("data", "indices", "indptr", "rhs")
    own_dtypes = frozenset(("indices", "indptr"))

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return b.csr_dot(*inputs)
