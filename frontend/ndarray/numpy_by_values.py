"""Operators of `mx.np` whose results' extents depend on values: they run on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as onp

from ..base import MXNetError
from ..dtypes import dtype_of, from_memory
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


def _values(x: NDArray) -> onp.ndarray:
    """The elements, which must not be written: on the host without a copy."""
    return from_memory(x._memory(), x._dtype)


def _nonzero(operator: Any, x: NDArray) -> NDArray:
    return _new(onp.stack(_indices(onp.atleast_1d(_values(x))), 1), x)


def nonzero_by_axis(x: NDArray) -> tuple[NDArray, ...]:
    """The indices of nonzero elements, an array for each axis."""
    return tuple([_new(place, x) for place in _indices(onp.atleast_1d(_values(x)))])


def _indices(values: onp.ndarray) -> list[onp.ndarray]:
    """The indices of nonzero elements for each axis. NumPy finds them in a vector several times faster than in a
    matrix; those of rows follow from the number of elements before each row."""
    places, extent = onp.flatnonzero(values), values.shape[-1]
    if values.ndim == 1 or not values.size:
        return [places] if values.ndim == 1 else [places] * values.ndim
    rows = onp.arange(values.size // extent)
    bounds = onp.searchsorted(places, onp.append(rows, len(rows)) * extent)
    row = onp.repeat(rows, onp.diff(bounds))
    before = [row] if values.ndim == 2 else list(onp.unravel_index(row, values.shape[:-1]))
    return [*before, places - row * extent]


def _unique(operator: Any, x: NDArray) -> Any:
    """The different elements; with a gradient, as elements taken from `x`."""
    axis, recorded = operator.axis, is_recorded((x,))
    wanted = operator.return_index, operator.return_inverse, operator.return_counts
    options = dict(zip(("return_index", "return_inverse", "return_counts"), wanted, strict=True))
    if recorded:
        options["return_index"] = True
    answer = onp.unique(_values(x), **options, axis=axis)
    found, *more = answer if isinstance(answer, tuple) else (answer,)
    named = dict(zip([name for name, is_wanted in options.items() if is_wanted], more, strict=True))
    result = _new(found, x)
    if recorded:
        places = _new(named["return_index"].astype(onp.int64), x)
        flat = x if axis is not None else invoke(operator_named("_np_reshape"), [x], {"newshape": (-1,)})
        result = invoke(operator_named("take"), [flat, places], {"axis": axis or 0}, numpy=True)
        if not operator.return_index:
            del named["return_index"]
    chosen = [_new(v.reshape(-1).astype(onp.int64), x) for v in named.values()]
    return [result, *chosen] if chosen else result


def _bincount(operator: Any, data: NDArray, weights: NDArray | None = None) -> NDArray:
    if data._dtype.is_float:
        raise MXNetError(f"bincount: x must have an integer dtype, not {data._dtype.full_name}")
    try:
        counts = onp.bincount(_values(data), None if weights is None else _values(weights), operator.minlength)
    except ValueError as error:
        raise MXNetError(f"bincount: {error}") from None
    return _new(counts.astype(data.dtype if weights is None else weights.dtype), data)


register_sized_by_values("_npx_nonzero", _nonzero)
register_sized_by_values("_npi_unique", _unique)
register_sized_by_values("_npi_bincount", _bincount)
