"""Functions of `mx.sym.np` that create arrays, or whose arguments differ from those of the operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as onp

from ...base import numeric_types
from .functions import internal


def _placed(dtype: Any, ctx: Any, default: str = "float32") -> dict[str, Any]:
    return {"dtype": default if dtype is None else dtype, "ctx": "" if ctx is None else str(ctx)}


def zeros(shape: Any, dtype: Any = None, order: str = "C", ctx: Any = None) -> Any:
    """A symbol of zeros."""
    return internal("_npi_zeros")(shape=shape, **_placed(dtype, ctx))


def ones(shape: Any, dtype: Any = None, order: str = "C", ctx: Any = None) -> Any:
    """A symbol of ones."""
    return internal("_npi_ones")(shape=shape, **_placed(dtype, ctx))


def full(shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", ctx: Any = None, out: Any = None) -> Any:
    """A symbol filled with one number."""
    default = "bool" if isinstance(fill_value, bool) else "float32"
    return internal("_npi_full")(shape=shape, value=float(fill_value), **_placed(dtype, ctx, default))


def full_like(a: Any, fill_value: Any, dtype: Any = None, order: str = "C", ctx: Any = None, out: Any = None) -> Any:
    """A symbol of another one's shape, filled with one number."""
    named = {} if dtype is None else {"dtype": dtype}
    return internal("_npi_full_like")(a, fill_value=float(fill_value), **named)


def zeros_like(a: Any, dtype: Any = None, order: str = "C", ctx: Any = None, out: Any = None) -> Any:
    """Zeros in the shape of another symbol."""
    return full_like(a, 0, dtype)


def ones_like(a: Any, dtype: Any = None, order: str = "C", ctx: Any = None, out: Any = None) -> Any:
    """Ones in the shape of another symbol."""
    return full_like(a, 1, dtype)


empty_like = zeros_like


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None, ctx: Any = None) -> Any:
    """Evenly spaced numbers in a half-open interval."""
    start, stop = (0, start) if stop is None else (start, stop)
    return internal("_npi_arange")(start=start, stop=stop, step=step, **_placed(dtype, ctx))


def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    ctx: Any = None,
) -> Any:
    """`num` evenly spaced numbers; with `retstep` their distance too."""
    result = internal("_npi_linspace")(start=start, stop=stop, num=num, endpoint=endpoint, **_placed(dtype, ctx))
    return (result, (stop - start) / (num - bool(endpoint))) if retstep else result


def logspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    base: float = 10.0,
    dtype: Any = None,
    axis: int = 0,
    ctx: Any = None,
) -> Any:
    """`num` numbers that are evenly spaced on a logarithmic scale."""
    options = {"start": start, "stop": stop, "num": num, "endpoint": endpoint, "base": base}
    return internal("_npi_logspace")(**options, **_placed(dtype, ctx))


def eye(N: int, M: Any = None, k: int = 0, dtype: Any = None, ctx: Any = None) -> Any:
    """A matrix with ones on its k-th diagonal."""
    return internal("_npi_eye")(N=N, M=M, k=k, **_placed(dtype, ctx))


def identity(n: int, dtype: Any = None, ctx: Any = None) -> Any:
    """A square matrix with ones on its diagonal."""
    return internal("_npi_identity")(shape=(n, n), **_placed(dtype, ctx))


def indices(dimensions: Any, dtype: Any = onp.int32, ctx: Any = None) -> Any:
    """The indices of a grid."""
    return internal("_npi_indices")(dimensions=dimensions, **_placed(dtype, ctx, "int32"))


def _window(name: str) -> Callable[..., Any]:
    def window(M: int, dtype: Any = None, ctx: Any = None) -> Any:
        return internal(f"_npi_{name}")(M=M, **_placed(dtype, ctx))

    window.__name__, window.__doc__ = name, f"The {name} window of M elements."
    return window


hanning, hamming, blackman = _window("hanning"), _window("hamming"), _window("blackman")


def unique(
    ar: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False, axis: Any = None
) -> Any:
    """The different elements in rising order."""
    options = {"return_index": return_index, "return_inverse": return_inverse, "return_counts": return_counts}
    return internal("_npi_unique")(ar, **options, axis=axis)


def bincount(x: Any, weights: Any = None, minlength: int = 0) -> Any:
    """How often each number occurs, or the sum of its weights."""
    arrays = [x] if weights is None else [x, weights]
    return internal("_npi_bincount")(*arrays, minlength=minlength, has_weights=weights is not None)


def percentile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: Any = None,
    interpolation: str = "linear",
    keepdims: bool = False,
) -> Any:
    """Percentiles over axes."""
    options = {"axis": axis, "interpolation": interpolation, "keepdims": keepdims}
    if isinstance(q, numeric_types):
        return internal("_npi_percentile")(a, q_scalar=float(q), **options)
    return internal("_npi_percentile")(a, q, **options)


def quantile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: Any = None,
    interpolation: str = "linear",
    keepdims: bool = False,
) -> Any:
    """Quantiles over axes."""
    return percentile(a, q * 100, axis, out, overwrite_input, interpolation, keepdims)


def histogram(
    a: Any, bins: Any = 10, range: Any = None, normed: Any = None, weights: Any = None, density: Any = None
) -> Any:
    """Counts the elements in intervals."""
    if isinstance(bins, int):
        if range is None:
            raise NotImplementedError("automatic range is not available yet")
        return internal("_npi_histogram")(a, bin_cnt=bins, range=range)
    return internal("_npi_histogram")(a, bins)


def delete(arr: Any, obj: Any, axis: Any = None) -> Any:
    """The symbol without slices along an axis."""
    if isinstance(obj, slice):
        return internal("_npi_delete")(arr, start=obj.start, stop=obj.stop, step=obj.step, axis=axis)
    if isinstance(obj, int):
        return internal("_npi_delete")(arr, int_ind=obj, axis=axis)
    raise TypeError(f"'obj' can not support type {type(obj)}")


def insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Any:
    """The symbol with slices inserted along an axis."""
    arrays, number = ([arr], {"val": float(values)}) if isinstance(values, numeric_types) else ([arr, values], {})
    if isinstance(obj, slice):
        options = {"start": obj.start, "stop": obj.stop, "step": 1 if obj.step is None else obj.step}
        return internal("_npi_insert_slice")(*arrays, **number, **options, axis=axis)
    if isinstance(obj, int):
        return internal("_npi_insert_scalar")(*arrays, **number, int_ind=obj, axis=axis)
    raise TypeError(f"'obj' can not support type {type(obj)}")


def polyval(p: Any, x: Any) -> Any:
    """The values of a polynomial."""
    return internal("_npi_polyval")(p, x)


def diag_indices_from(arr: Any) -> Any:
    """The indices of the main diagonal of a square symbol."""
    return internal("_npi_diag_indices_from")(arr)


def may_share_memory(a: Any, b: Any, max_work: Any = None) -> Any:
    """False: operands of a graph share no memory."""
    return internal("_npi_share_memory")(a, b)


shares_memory = may_share_memory


def resize(a: Any, new_shape: Any) -> Any:
    """A symbol of another shape, with the elements repeated as often as necessary."""
    raise NotImplementedError("sym.np.resize: the number of repetitions depends on the shape, which a symbol lacks")


def unravel_index(indices: Any, shape: Any, order: str = "C") -> Any:
    """The indices of each axis for positions in the flattened array."""
    return internal("_unravel_index")(indices, shape=shape)
