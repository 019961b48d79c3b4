"""Helpers for keys of arrays, which MXNet defines in the module of NDArray."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base import integer_types
from .array_classes import array_class

__all__ = [
    "check_boolean_array_dimension",
    "get_indexing_dispatch_code",
    "get_oshape_of_gather_nd_op",
    "indexing_key_expand_implicit_axes",
]

_NDARRAY_UNSUPPORTED_INDEXING = -1
_NDARRAY_BASIC_INDEXING = 0
_NDARRAY_ADVANCED_INDEXING = 1
_NDARRAY_EMPTY_TUPLE_INDEXING = 2
_NDARRAY_NO_ZERO_DIM_BOOL_ARRAY = -1
_NDARRAY_ZERO_DIM_BOOL_ARRAY_FALSE = 0
_NDARRAY_ZERO_DIM_BOOL_ARRAY_TRUE = 1


def get_indexing_dispatch_code(key: tuple[Any, ...]) -> int:
    """0 for a key of integers, slices and None, 1 for a key with arrays or lists, 2 for a key with ()."""
    for part in key:
        if isinstance(part, (array_class(), np.ndarray, list, tuple, range)):
            empty = isinstance(part, tuple) and not part
            return _NDARRAY_EMPTY_TUPLE_INDEXING if empty else _NDARRAY_ADVANCED_INDEXING
        if not isinstance(part, slice | None) and not isinstance(part, integer_types):
            raise ValueError(f"NDArray does not support slicing with key {part} of type {type(part)}.")
    return _NDARRAY_BASIC_INDEXING


def get_oshape_of_gather_nd_op(dshape: Sequence[int], ishape: Sequence[int]) -> tuple[int, ...]:
    """The result shape of `gather_nd` for data and indices of these shapes."""
    return (*ishape[1:], *dshape[ishape[0] :])


def indexing_key_expand_implicit_axes(key: Any, shape: Sequence[int]) -> tuple[tuple[Any, ...], int]:
    """The key with full slices for `...` and for missing axes, and -1, MXNet's code for a key without 0-d booleans.

    IndexError for two ellipses.
    """
    parts = key if isinstance(key, tuple) else (key,)
    places = [i for i, part in enumerate(parts) if part is Ellipsis]
    if len(places) > 1:
        raise IndexError("Cannot use more than one ellipsis (`...`) for indexing")
    named = [part for part in parts if part is not Ellipsis]
    at = places[0] if places else len(named)
    missing = len(shape) - sum(part is not None for part in named)
    return (*named[:at], *[slice(None)] * missing, *named[at:]), _NDARRAY_NO_ZERO_DIM_BOOL_ARRAY


def check_boolean_array_dimension(array_shape: Sequence[int], axis: int, bool_shape: Sequence[int]) -> None:
    """IndexError unless the extents of `bool_shape` equal those of the array from `axis` on."""
    for i, extent in enumerate(bool_shape, axis):
        if array_shape[i] != extent:
            raise IndexError(
                f"boolean index did not match indexed array along axis {i}; size is {array_shape[i]} but corresponding "
                f"boolean size is {extent}"
            )
