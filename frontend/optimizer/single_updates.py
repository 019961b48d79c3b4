"""Updates of single weights by a rule, in place.

A row-sparse gradient updates only the rows that it stores. Without `lazy`, and for rules that have no update by rows,
all other rows are updated too, by a gradient of zeros.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..base import MXNetError
from ..ndarray.casting import densified
from ..ndarray.lazy_updates import write_back
from ..ndarray.sparse_arrays import RowSparseNDArray
from ..ndarray.sparse_rows import rows_of, write_rows
from .functions import update_function

if TYPE_CHECKING:
    from ..ndarray import NDArray

_ADAGRAD = ("adagrad", "group_adagrad")
_BY_ROWS = frozenset(("sgd", "sgd_mom", "adam", "ftrl", *_ADAGRAD))


def update_weight(
    rule: str,
    weight: NDArray,
    grad: NDArray,
    states: Sequence[NDArray],
    numbers: Mapping[str, float],
    lazy: bool = True,
) -> None:
    """Update a weight and its states by a rule. Any of the arrays can be sparse."""
    arrays = (weight, grad, *states)
    if any(a._is_sparse for a in arrays):
        _update_sparse(rule, weight, grad, states, numbers, lazy)
    else:
        update_function(rule, False)(arrays, numbers)


def _update_sparse(
    rule: str, weight: NDArray, grad: NDArray, states: Sequence[NDArray], numbers: Mapping[str, float], lazy: bool
) -> None:
    if rule == "adagrad" and isinstance(grad, RowSparseNDArray) and numbers["wd"]:
        raise MXNetError(f"adagrad has no weight decay for row-sparse gradients: wd must be 0, not {numbers['wd']}")
    targets = (weight, *states)
    if _updates_by_rows(rule, weight, grad, states, lazy):
        _update_rows(rule, targets, grad, numbers)
        return
    whole = [densified(a) for a in targets]
    update_function(rule, False)((whole[0], densified(grad), *whole[1:]), numbers)
    for target, dense in zip(targets, whole, strict=True):
        write_back(target, dense)


def _updates_by_rows(rule: str, weight: Any, grad: Any, states: Sequence[Any], lazy: bool) -> bool:
    """True if MXNet updates by rows for these storage types: a row-sparse gradient, and the same storage type for the
    weight and the states. FTRL requires row-sparse weights. Both AdaGrads accept all storage types."""
    if rule not in _BY_ROWS or not isinstance(grad, RowSparseNDArray) or not lazy:
        return False
    if rule in _ADAGRAD:
        return True
    alike = all(a.stype == weight.stype for a in states)
    return alike and (weight.stype == "row_sparse" or rule != "ftrl")


def _update_rows(rule: str, targets: Sequence[NDArray], grad: Any, numbers: Mapping[str, float]) -> None:
    """Update the rows that the gradient stores."""
    data, indices = grad._parts
    if targets[0].shape != grad.shape:
        raise MXNetError(f"{rule}_update: grad has the shape {grad.shape}, the weight {targets[0].shape}")
    numbers_of_rows = indices.asnumpy()
    if not len(numbers_of_rows):
        return
    weight, *states = (rows_of(a, numbers_of_rows) for a in targets)
    update_function(rule, False)((weight, data, *states), numbers)
    for target, part in zip(targets, (weight, *states), strict=True):
        write_rows(target, numbers_of_rows, part)
