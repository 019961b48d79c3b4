"""Updates of weights by gradients that store some rows alone: the other rows, and their states, stay as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...ir.types import TensorType
from ...runtime.writes import written
from ..base import MXNetError
from .sparse_arrays import RowSparseNDArray
from .storage import densified, write

if TYPE_CHECKING:
    from .eager import Bound
    from .ndarray import NDArray

_LAZY = frozenset(("mx.sgd_update", "mx.sgd_mom_update", "mx.adam_update", "mx._contrib_group_adagrad_update"))


def update_rows(bound: Bound, arrays: Sequence[NDArray], out: Any) -> Any:
    """The updated weight, which is `out` where one is given; None for operands that are updated as a whole.

    The arrays are the weight, the gradient, and states that are written in place.
    """
    operator: Any = bound.operator
    if operator.name not in _LAZY or not getattr(operator, "lazy_update", True):
        return None
    gradient = arrays[1]
    if not isinstance(gradient, RowSparseNDArray):
        return None
    data, indices = gradient._parts
    try:
        operator.require_shapes([TensorType(a.shape, data._dtype) for a in arrays])
    except ValueError as error:
        raise MXNetError(f"{operator.mx_name()}: {error}") from error
    rows = indices.asnumpy()
    whole = [densified(a) for i, a in enumerate(arrays) if i != 1]
    parts = [a._like(a._memory()[rows]) for a in whole]
    parts.insert(1, data)
    result = bound.call_for(parts).run(parts, None, None, bound.scalars) if len(rows) else parts[0]
    kept = whole[0] if out is arrays[0] else whole[0].copy()
    for target, part in zip((kept, *whole[1:]), (result, *parts[2:]), strict=True):
        target._memory()[rows] = part._memory()
        written(target._storage)
    for array, dense in zip((a for i, a in enumerate(arrays) if i > 1), whole[1:], strict=True):
        if array is not dense:
            write(array, dense)
    if out is None or out is kept:
        return kept
    write(out, kept)
    return out
