"""Updates of weights by row-sparse gradients: rows that the gradient does not store keep their weights and states.

With `lazy_update=False` these rows are updated too, by a gradient of zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.types import TensorType
from ...runtime.writes import written
from ..base import MXNetError
from ..tracebacks import cause_of
from .casting import densified, row_sparse_of, write
from .sparse_arrays import RowSparseNDArray

if TYPE_CHECKING:
    from .ndarray import NDArray
    from .operator_function import BoundOperator

_ADAGRAD = ("mx._contrib_group_adagrad_update", "mx._sparse_adagrad_update")
_BY_ROWS = frozenset(("mx.sgd_update", "mx.sgd_mom_update", "mx.adam_update", "mx.ftrl_update", *_ADAGRAD))


def update_rows(bound: BoundOperator, arrays: Sequence[NDArray], out: Any) -> Any:
    """The updated weight, which is `out` if passed; None for operands that are not updated by rows.

    The arrays are the weight, the gradient, and the states, which are updated in place.
    """
    operator: Any = bound.operator
    if operator.name not in _BY_ROWS or not _updates_by_rows(operator.name, arrays, out):
        return None
    gradient: Any = arrays[1]
    data, indices = gradient._parts
    try:
        operator.require_shapes([TensorType(a.shape, data._dtype) for a in arrays])
    except ValueError as error:
        raise MXNetError(f"{operator.mx_name()}: {error}") from cause_of(error)
    lazy = getattr(operator, "lazy_update", True)
    rows: Any = indices.asnumpy() if lazy else slice(None)
    whole = [densified(a) for i, a in enumerate(arrays) if i != 1]
    parts = [a._like(a._memory()[rows]) for a in whole]
    parts.insert(1, data if lazy else densified(gradient))
    result = bound.specialization(parts).call(parts, None, None, bound.scalars) if parts[0].size else parts[0]
    kept = whole[0] if out is arrays[0] else whole[0].copy()
    for target, part in zip((kept, *whole[1:]), (result, *parts[2:]), strict=True):
        target._write(part._memory(), rows)
        written(target._storage)
    for array, dense in zip(arrays[2:], whole[1:], strict=True):
        write_back(array, dense)
    if out is None:
        return kept
    write_back(out, kept)
    return out


def _updates_by_rows(name: str, arrays: Sequence[NDArray], out: Any) -> bool:
    """True if MXNet updates by rows for these storage types: a row-sparse gradient, and the same storage type for the
    weight, the result and the states. FTRL requires row-sparse weights. Both AdaGrads accept all storage types."""
    weight, gradient, *states = arrays
    if not isinstance(gradient, RowSparseNDArray):
        return False
    if name in _ADAGRAD:
        return True
    alike = all(a.stype == weight.stype for a in (*states, *([] if out is None else [out])))
    return alike and (weight.stype == "row_sparse" or name != "mx.ftrl_update")


def write_back(array: Any, dense: NDArray) -> None:
    """Copy a dense array into `array`. As in MXNet, a row-sparse array then stores all rows."""
    if array is dense:
        return
    if isinstance(array, RowSparseNDArray):
        values = dense.asnumpy()
        dense = row_sparse_of(values, np.arange(len(values)), values.shape, array.context, array.dtype)
    write(array, dense)
