"""Functions of `mx.np` that select or count elements, or compute by their order; see `numpy_functions.py`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as onp

from .base import numeric_types
from .numpy_functions import Operators
from .numpy_functions import public as _public_in

_public = _public_in("")


@_public
def unique(
    F: Operators,
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: Any = None,
) -> Any:
    """The different elements in rising order; with further results, of dtype int64, a tuple."""
    options = {"return_index": return_index, "return_inverse": return_inverse, "return_counts": return_counts}
    result = F("_npi_unique")(ar, **options, axis=axis)
    return tuple(result) if isinstance(result, list) else result


@_public
def bincount(F: Operators, x: Any, weights: Any = None, minlength: int = 0) -> Any:
    """How often each number occurs in an array of integers, or the sum of its weights."""
    if minlength < 0:
        raise ValueError("Minlength value should greater than 0")
    arrays = [x] if weights is None else [x, weights]
    return F("_npi_bincount")(*arrays, minlength=minlength, has_weights=weights is not None)


@_public
def percentile(
    F: Operators,
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: Any = None,
    interpolation: str = "linear",
    keepdims: bool = False,
) -> Any:
    """Percentiles over axes; see NumPy for the interpolations."""
    if overwrite_input is not None:
        raise NotImplementedError("overwrite_input is not supported yet")
    if isinstance(q, int | float | list | tuple) and not all(0 <= v <= 100 for v in onp.ravel(q)):
        raise ValueError(f"percentile exceeds the valid range: {q} is outside of [0, 100]")
    params = {"axis": axis, "interpolation": interpolation, "keepdims": keepdims, "out": out}
    if isinstance(q, numeric_types):
        return F("_npi_percentile")(a, q_scalar=float(q), **params)
    if isinstance(q, list | tuple):
        q = import_module(".numpy", __package__).array(q, ctx=a.ctx)
    return F("_npi_percentile")(a, q, **params)


@_public
def quantile(
    F: Operators,
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: Any = None,
    interpolation: str = "linear",
    keepdims: bool = False,
) -> Any:
    """Quantiles over axes: percentiles of q * 100."""
    q = [100 * v for v in q] if isinstance(q, list | tuple) else q * 100
    return percentile(F, a, q, axis, out, overwrite_input, interpolation, keepdims)


@_public
def polyval(F: Operators, p: Any, x: Any) -> Any:
    """The values of a polynomial, whose coefficients begin with that of the highest power."""
    if not hasattr(p, "astype") or not hasattr(x, "astype"):
        raise TypeError("type not supported")
    return F("_npi_polyval")(p, x)


@_public
def diag_indices_from(F: Operators, arr: Any) -> Any:
    """The indices of the main diagonal of a square array."""
    result = F("_npi_diag_indices_from")(arr)
    return result if hasattr(result, "list_outputs") else tuple(result)
