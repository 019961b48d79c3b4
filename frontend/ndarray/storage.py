"""Applies operators to sparse operands, and chooses the storage type of the result.

MXNet's operators support sparse operands in some cases, which `storage_rules.py` lists. In all other cases the operands
are converted to dense arrays, and the result is dense. A result is converted to the storage type of `out`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..base import MXNetError
from ..context import Context
from .casting import densified, write
from .eager import register_storage_dispatch
from .ndarray import NDArray
from .sparse_gradients import record_sparse
from .tape import is_recorded

if TYPE_CHECKING:
    from .operator_function import BoundOperator


def dispatch(bound: BoundOperator, arrays: Sequence[NDArray], out: Any, context: Context | None) -> Any:
    """Apply an operator to operands and `out`, some of which can be sparse. A user's operator in Python is called: it
    chooses storage types itself."""
    if bound.operator.name == "mx.Custom":
        operator: Any = bound.operator
        return operator.kind.apply(operator, arrays, out, context)
    result = _applied(bound, arrays, out, context)
    if is_recorded(arrays):
        record_sparse(bound, arrays, result)
    return result


def _applied(bound: BoundOperator, arrays: Sequence[NDArray], out: Any, context: Context | None) -> Any:
    from .lazy_updates import update_rows
    from .storage_rules import RULES

    updated = update_rows(bound, arrays, out)
    if updated is not None:
        return updated
    counted = len(bound.operator.input_names(len(arrays))) == len(arrays)
    rule = RULES.get(bound.operator.mx_name()) if counted and not _fills_zeros(bound.operator, out) else None
    result = None if rule is None else rule(bound.operator, list(arrays))
    if result is None:
        result = _densely(bound, arrays, context)
    if out is None:
        return result
    results, outs = _listed(result), _listed(out)
    if len(results) != len(outs):
        raise MXNetError(f"{bound.operator.mx_name()} has {len(results)} outputs, out has {len(outs)}")
    for target, source in zip(outs, results, strict=True):
        write(target, source)
    return out


def _fills_zeros(operator: Any, out: Any) -> bool:
    """True for operators that skip elements that are not stored, if `out` is dense: then they compute all elements."""
    return operator.name.startswith("mx._scatter_") and out is not None and not _listed(out)[0]._is_sparse


def _listed(arrays: Any) -> list[NDArray]:
    return [arrays] if isinstance(arrays, NDArray) else list(arrays)


def _densely(bound: BoundOperator, arrays: Sequence[NDArray], context: Context | None) -> Any:
    """Apply the operator to dense copies; updated states are written back."""
    dense = [densified(a) for a in arrays]
    specialization = bound.specialization(dense)
    result = specialization.call(dense, None, context, bound.scalars)
    for i in specialization.state:
        if arrays[i] is not dense[i]:
            write(arrays[i], dense[i])
    return result


register_storage_dispatch(dispatch)
