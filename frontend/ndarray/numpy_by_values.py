"""Operators of `mx.np` whose results' extents depend on values: they run on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as onp

from ..base import MXNetError
from ..dtypes import dtype_of
from .array_classes import array_class, empty_array
from .eager import invoke, operator_named, register_sized_by_values
from .tape import is_recorded

if TYPE_CHECKING:
    from .ndarray import NDArray


def _new(values: onp.ndarray, like: NDArray) -> NDArray:
    """An array of `mx.np` with these elements, on the device of another one."""
    result = empty_array(values.shape, dtype_of(values.dtype), like._context, array_class("numpy"))
    result._write(onp.ascontiguousarray(values))
    return result


def _nonzero(operator: Any, x: NDArray) -> NDArray:
    return _new(onp.stack(onp.nonzero(onp.atleast_1d(x.asnumpy())), 1).astype(onp.int64), x)


def _unique(operator: Any, x: NDArray) -> Any:
    """The different elements; with a gradient, as elements taken from `x`."""
    values = x.asnumpy()
    axis = operator.axis
    found, index, inverse, counts = onp.unique(
        values, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    result = _new(found, x)
    if is_recorded((x,)):
        places = _new(index.astype(onp.int64), x)
        flat = x if axis is not None else invoke(operator_named("_np_reshape"), [x], {"newshape": (-1,)})
        result = invoke(operator_named("take"), [flat, places], {"axis": axis or 0}, numpy=True)
    more = [(operator.return_index, index), (operator.return_inverse, inverse.reshape(-1))]
    more.append((operator.return_counts, counts))
    chosen = [_new(v.astype(onp.int64), x) for wanted, v in more if wanted]
    return [result, *chosen] if chosen else result


def _bincount(operator: Any, data: NDArray, weights: NDArray | None = None) -> NDArray:
    if data._dtype.is_float:
        raise MXNetError(f"bincount: x must have an integer dtype, not {data._dtype.full_name}")
    try:
        counts = onp.bincount(data.asnumpy(), None if weights is None else weights.asnumpy(), operator.minlength)
    except ValueError as error:
        raise MXNetError(f"bincount: {error}") from None
    return _new(counts.astype(data.dtype if weights is None else weights.dtype), data)


register_sized_by_values("_npx_nonzero", _nonzero)
register_sized_by_values("_npi_unique", _unique)
register_sized_by_values("_npi_bincount", _bincount)
