"""`npx.save` and `npx.load`: files of arrays of `mx.np`."""

from __future__ import annotations

from typing import Any

from .. import ndarray
from ..ndarray import waitall
from ..ndarray.array_classes import is_numpy
from ..util import np_shape

__all__ = ["load", "save", "savez", "waitall"]


def save(file: str, arr: Any) -> None:
    """Write an array, a list of arrays or a dictionary of arrays to a file, which `mx.nd.load` reads too."""
    listed = arr.values() if isinstance(arr, dict) else arr if isinstance(arr, list | tuple) else [arr]
    if not all(map(is_numpy, listed)):
        raise TypeError("npx.save takes arrays of mx.np: an array, a list, or a dictionary of them")
    with np_shape():
        ndarray.save(file, list(arr) if isinstance(arr, tuple) else arr)


def load(file: str) -> Any:
    """The arrays in a file, as a list or a dictionary of arrays of `mx.np`."""
    with np_shape():
        loaded = ndarray.load(file)
    if isinstance(loaded, dict):
        return {name: array.as_np_ndarray() for name, array in loaded.items()}
    return [array.as_np_ndarray() for array in loaded]


def savez(file: str, *args: Any, **kwds: Any) -> None:
    """Write arrays to a file that `load` reads: those by position as `arr_0`, `arr_1`, ..., others by their names."""
    save(file, {**{f"arr_{i}": a for i, a in enumerate(args)}, **kwds})
