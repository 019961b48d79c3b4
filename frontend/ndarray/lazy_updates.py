"""Updates of weights by row-sparse gradients: rows that the gradient does not store keep their weights and states.

With `lazy_update=False` these rows are updated too, by a gradient of zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.types import TensorType
from ..base import MXNetError
from ..tracebacks import cause_of
from .casting import densified, row_sparse_of, write
from .sparse_arrays import RowSparseNDArray
from .sparse_rows import rows_of, write_rows

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
    weight, _, *states = arrays
    target = weight if out is weight else densified(weight).copy()
    if getattr(operator, "lazy_update", True):
        _update_stored(bound, (target, *states), data, indices.asnumpy())
    else:
        _update_all(bound, (target, *states), densified(gradient))
    if out is None:
        return target
    if out is not weight:
        write_back(out, target)
    return out


def _update_stored(bound: BoundOperator, targets: Sequence[NDArray], data: NDArray, rows: np.ndarray) -> None:
    """Update these rows of a weight and its states."""
    if not len(rows):
        return
    weight, *states = (rows_of(a, rows) for a in targets)
    operands = [weight, data, *states]
    new = bound.specialization(operands).call(operands, None, None, bound.scalars)
    for target, part in zip(targets, (new, *states), strict=True):
        write_rows(target, rows, part)


def _update_all(bound: BoundOperator, targets: Sequence[NDArray], gradient: NDArray) -> None:
    """Update a weight and its states by a dense gradient."""
    weight, *states = (densified(a) for a in targets)
    operands = [weight, gradient, *states]
    new = bound.specialization(operands).call(operands, None, None, bound.scalars)
    for target, whole in zip(targets, (new, *states), strict=True):
        write_back(target, whole)


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
