"""Functions of `mx.np` on arrays alone, which symbols do not have."""

from __future__ import annotations

from typing import Any

import numpy as onp

from ..base import MXNetError, numeric_types
from ..ndarray.ndarray import NDArray
from .creation import _element, _in_graphs, _of, _place, array
from .functions import operator_named
from .lookup import find


def _f(name: str) -> Any:
    """A function of `mx.np`."""
    function = find(name)
    assert function is not None
    return function


def histogram(
    a: Any, bins: Any = 10, range: Any = None, normed: Any = None, weights: Any = None, density: Any = None
) -> Any:
    """Counts the elements in intervals: (counts of dtype int64, edges)."""
    if normed or weights is not None or density:
        raise NotImplementedError("normed, weights and density are not supported yet")
    edges = onp.histogram_bin_edges(a.asnumpy(), _plain(bins), range)
    counts, _ = onp.histogram(a.asnumpy(), edges)
    shown = bins if isinstance(bins, NDArray) else array(edges.astype(a.dtype if a._dtype.is_float else onp.float32))
    return array(counts.astype(onp.int64), ctx=a.ctx), shown


def _plain(value: Any) -> Any:
    return value.asnumpy() if isinstance(value, NDArray) else value


def delete(arr: Any, obj: Any, axis: int | None = None) -> Any:
    """The array without slices along an axis: those at a position, a slice, or an array of positions."""
    arr, axis = (arr.reshape(-1), 0) if axis is None else (arr, _axis_of("delete", arr, axis))
    extent = arr.shape[axis]
    try:
        kept = onp.delete(onp.arange(extent), _positions(obj))
    except IndexError:
        raise IndexError(f"delete: index {obj} is out of bounds for axis {axis} with size {extent}") from None
    return operator_named("take")(arr, array(kept, dtype="int64", ctx=arr.ctx), axis=axis, mode="clip")


def _axis_of(name: str, arr: Any, axis: int) -> int:
    """An axis counted from the front. MXNetError if the array does not have it."""
    if not -arr.ndim <= axis < arr.ndim:
        raise MXNetError(f"{name}: axis {axis} is out of range for {arr.ndim} dimensions")
    return axis % arr.ndim


def _positions(obj: Any) -> Any:
    value = _plain(obj)
    return value.astype(onp.int64) if isinstance(value, onp.ndarray) and value.dtype.kind == "f" else value


def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Any:
    """The array with slices inserted along an axis, before a position, a slice or an array of positions."""
    if not isinstance(arr, NDArray):
        raise TypeError(f"'arr' can not support type {type(arr)}")
    arr, axis = (arr.reshape(-1), 0) if axis is None else (arr, _axis_of("insert", arr, axis))
    extent = arr.shape[axis]
    positions = _positions(obj)
    places = onp.arange(extent)[positions] if isinstance(positions, slice) else onp.asarray(positions)
    values = array(values, dtype=arr.dtype, ctx=arr.ctx) if not isinstance(values, NDArray) else values
    if places.size == 1 and values.ndim:  # all of `values` goes there
        values = values.reshape((1,) * (arr.ndim - values.ndim) + values.shape)
        values = values if places.ndim else _f("moveaxis")(values, 0, axis)
        places = onp.full(values.shape[axis], places.item())
    places = onp.atleast_1d(places)
    shape = (*arr.shape[:axis], len(places), *arr.shape[axis + 1 :])
    added = _f("broadcast_to")(values.astype(arr.dtype), shape)
    try:
        order = onp.insert(onp.arange(extent), places, onp.arange(extent, extent + len(places)))
    except IndexError:
        raise IndexError(f"insert: index {obj} is out of bounds for axis {axis} with size {extent}") from None
    both = _f("concatenate")([arr, added], axis=axis)
    return operator_named("take")(both, array(order, dtype="int64", ctx=arr.ctx), axis=axis, mode="clip")


def meshgrid(*xi: Any, **kwargs: Any) -> list[Any]:
    """Coordinates of a grid from vectors of coordinates.

    Args:
        xi: The vectors.
        indexing: "xy" exchanges the first two axes of the result, "ij" does not.
        sparse: True for arrays that broadcast to the grid.
        copy: True, the only one.
    """
    sparse, indexing = kwargs.pop("sparse", False), kwargs.pop("indexing", "xy")
    kwargs.pop("copy", True)
    if kwargs:
        raise TypeError(f"meshgrid() got an unexpected keyword argument {next(iter(kwargs))!r}")
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    other = next((x for x in xi if not hasattr(x, "reshape")), None)
    if other is not None:
        raise TypeError(f"meshgrid: coordinates must be arrays of mx.np, not {type(other)}")
    rank = len(xi)
    order = [1, 0, *range(2, rank)] if indexing == "xy" and rank > 1 else list(range(rank))
    grids = [x.reshape((1,) * k + (-1,) + (1,) * (rank - 1 - k)) for k, x in zip(order, xi, strict=True)]
    return grids if sparse else broadcast_arrays(*grids)


def broadcast_arrays(*args: Any) -> list[Any]:
    """The arrays, each repeated to the shape to which all broadcast."""
    shape = onp.broadcast_shapes(*[a.shape for a in args])
    return [_f("broadcast_to")(a, shape) for a in args]


def resize(a: Any, new_shape: Any) -> Any:
    """An array of another shape, with the elements repeated as often as necessary."""
    shape = (new_shape,) if isinstance(new_shape, int) else tuple(new_shape)
    if any(n < 0 for n in shape):
        raise ValueError("all elements of `new_shape` must be non-negative")
    count = int(onp.prod(shape))
    flat = a.reshape(-1)
    if not a.size:
        return _of(onp.zeros(shape), _element(a.dtype), a.ctx)
    places = onp.arange(count) % a.size
    return operator_named("take")(flat, array(places, dtype="int64", ctx=a.ctx), axis=0, mode="clip").reshape(shape)


def unravel_index(indices: Any, shape: Any, order: str = "C") -> Any:
    """The indices of each axis for positions in the flattened array."""
    if order != "C":
        raise NotImplementedError("unravel_index does not support column-major order")
    if isinstance(indices, numeric_types):
        return onp.unravel_index(int(indices), shape)
    by_axis = onp.unravel_index(indices.asnumpy().astype(onp.int64), shape)
    return tuple([array(i, dtype="int64", ctx=indices.ctx) for i in by_axis])


def may_share_memory(a: Any, b: Any, max_work: Any = None) -> bool:
    """True if the elements of two arrays are in one block of memory."""
    if max_work is not None:
        raise NotImplementedError("the max_work parameter is not supported")
    return a._storage is b._storage


def shares_memory(a: Any, b: Any, max_work: Any = None) -> bool:
    """True if two arrays have a byte in common."""
    if max_work is not None:
        raise NotImplementedError("the max_work parameter is not supported")
    if a._storage is not b._storage or not a.size or not b.size:
        return False
    return a._address < b._address + b._nbytes() and b._address < a._address + a._nbytes()


def set_printoptions(precision: Any = None, threshold: Any = None, **kwarg: Any) -> None:
    """How arrays are printed; see NumPy."""
    onp.set_printoptions(precision=precision, threshold=threshold, **kwarg)


def _window(name: str) -> Any:
    def window(M: int, dtype: Any = onp.float32, ctx: Any = None) -> Any:
        return _of(getattr(onp, name)(M), _element(dtype), _place(ctx))

    window.__name__ = window.__qualname__ = name
    window.__doc__ = f"The {name} window of M elements, of dtype float32 by default."
    return _in_graphs(window)


hanning, hamming, blackman = _window("hanning"), _window("hamming"), _window("blackman")
