"""Reads and writes parts of arrays: `x[key]` and `x[key] = value`.

A key of integers, slices, None and `...` that selects contiguous memory returns a view, which shares the array's
memory. All other keys return a copy. Integer arrays, lists and boolean masks select as in NumPy. A single element is an
array of shape (1,), or () with NumPy's shape semantics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.types import DType
from ...runtime.modes import modes
from ...runtime.storage import LARGE
from ...runtime.writes import written
from ..base import MXNetError, numeric_types
from ..dtypes import numbers_of, to_memory
from ..shapes import shape_of_element
from . import op
from .array_classes import array_class, empty_array
from .device_parts import contiguous_part, copied, filled
from .key_helpers import KeyHelpers
from .tape import entry_of, is_recorded, record_copy, require_writable

if TYPE_CHECKING:
    from ..context import Context
    from .ndarray import NDArray

_LARGE_MASK = 1 << 12
"""The number of elements from which on the positions under a mask are found first: NumPy is faster below."""
_BASIC = (int, np.integer, slice, type(None), type(Ellipsis))


class Indexing(KeyHelpers):
    """`x[key]`, `x[key] = value`, len(x) and iteration along the first axis."""

    __slots__ = ()

    def __len__(self: NDArray) -> int:  # type: ignore[misc]
        if not self._shape:
            raise TypeError("len() of an array of shape ()")
        return self._shape[0]

    def __iter__(self: NDArray) -> Any:  # type: ignore[misc]
        return (self[i] for i in range(len(self)))

    def __getitem__(self: NDArray, key: Any) -> NDArray:  # type: ignore[misc]
        """A view if `key` is basic and selects contiguous memory, else a copy."""
        if key.__class__ is int and self._shape:
            return self._at(key)
        if key.__class__ is slice and self._shape and (key.step is None or key.step == 1):
            return self if key.start is None and key.stop is None else self._slice(key.start, key.stop)
        if _is_whole(self, key):
            return self
        return _select(self, normalized(int(key) if isinstance(key, bool) else key))

    def __setitem__(self: NDArray, key: Any, value: Any) -> None:  # type: ignore[misc]
        """Write a number, an array or an array-like value, broadcast to the shape that `key` selects."""
        if modes.recording:
            require_writable(self)
            if entry_of(value) is not None:
                return _assign_recorded(self, () if _is_whole(self, key) else key, value)
        try:
            key = _open_ended(normalized(() if _is_whole(self, key) else key))
            if self._address.__class__ is int or not _assigned_there(self, key, value):
                self._write(_assignable(self, value), key)
        except ValueError as error:
            raise ValueError(f"cannot assign to part of an array of shape {self._shape}: {error}") from None
        written(self._storage)

    def _taken(self: NDArray, positions: NDArray) -> NDArray:  # type: ignore[misc]
        """The elements at these positions in C order, as a recorded copy."""
        return op.take(op.reshape(self, shape=(-1,)), positions)

    def _at(self: NDArray, index: int) -> NDArray:  # type: ignore[misc]
        """The view x[index]."""
        size = self._shape[0]
        if not -size <= index < size:
            raise IndexError(f"index {index} is out of bounds for axis 0 with size {size}")
        rest = self._shape[1:]
        step = self._nbytes() // size
        return self._view(rest or (() if self._class else shape_of_element()), (index % size) * step)

    def _slice(self: NDArray, start: int | None, stop: int | None) -> NDArray:  # type: ignore[misc]
        """The view x[start:stop]."""
        size = self._shape[0]
        first, last, _ = slice(start, stop).indices(size)
        rest = self._shape[1:]
        return self._view((max(last - first, 0), *rest), first * (self._nbytes() // size) if size else 0)


def _assigned_there(array: NDArray, key: tuple[Any, ...], value: Any) -> bool:
    """Write a value to contiguous elements of an array on a device; False for other elements."""
    part = contiguous_part(array, key) if _is_basic(key) else None
    if part is None:
        return False
    if isinstance(value, array_class()):
        if copied(array, *part, value):
            return True
    elif filled(array, *part, value):
        return True
    shape, offset = part
    content = np.empty(shape, array._dtype.memory)
    content[...] = _assignable(array, value)
    array._storage.device.write(array._address + offset, content)
    return True


def _select(array: NDArray, key: Any) -> NDArray:
    if array._address.__class__ is not int and _is_basic(key):
        part = contiguous_part(array, _open_ended(key))
        if part is not None:
            shape, offset = part
            one = () if array._class else shape_of_element() if _is_element(key) else (1,)
            return array._view(shape or one, offset)
    if isinstance(key, tuple) and _is_spaced(array, key):
        steps = [part.step for part in key]
        none = [None] * len(key)
        return op.slice(array, begin=none, end=none, step=steps)
    memory = array._memory()
    selected = _masked(memory, key)
    if not isinstance(selected, np.ndarray):  # a NumPy scalar is a copy; with `...` NumPy returns a view of shape ()
        selected = memory[(*key, ...) if isinstance(key, tuple) else (key, ...)]
    shape = selected.shape if array._class else selected.shape or (shape_of_element() if _is_element(key) else (1,))
    if _is_basic(key) and selected.flags.c_contiguous and selected.size:
        here, start = (m.__array_interface__["data"][0] for m in (selected, memory))
        return array._view(shape, here - start)
    if is_recorded((array,)):
        places = np.arange(array.size).reshape(array._shape)[key].reshape(-1)
        return array._taken(_positions(places, array._context))._view(shape)
    return array._like(np.ascontiguousarray(selected).reshape(shape))


def _masked(memory: np.ndarray, key: Any) -> Any:
    """memory[key]. NumPy takes elements under a large mask with a branch for each: their positions are found first."""
    if not isinstance(key, np.ndarray) or key.dtype != np.bool_ or key.size < _LARGE_MASK:
        return memory[key]
    if key.shape != memory.shape[: key.ndim]:
        return memory[key]  # an IndexError
    return memory.reshape(key.size, *memory.shape[key.ndim :]).take(np.flatnonzero(key), axis=0)


def _is_spaced(array: NDArray, key: tuple[Any, ...]) -> bool:
    """True if a key selects every second, third, ... element of a large array along its axes: the operator copies these
    on all threads. Ranges of elements vary from call to call, and each would be a program."""
    return (
        not array._class
        and array._nbytes() >= LARGE
        and 0 < len(key) <= len(array._shape)
        and all(part.__class__ is slice and part.start is None and part.stop is None for part in key)
        and all(part.step is None or (part.step.__class__ is int and part.step > 0) for part in key)
    )


def _positions(places: np.ndarray, context: Context) -> NDArray:
    """Positions as an array of int64."""
    positions = empty_array(places.shape, DType.I64, context)
    positions._write(places)
    return positions


def _assign_recorded(array: NDArray, key: Any, value: NDArray) -> None:
    """Write an array on the tape over all elements of `array`, which is on the tape then too. MXNetError for a part:
    its other elements would have no gradient.
    """
    shape = _shape_if_all(array, key)
    if shape is None:
        raise MXNetError("Inplace operations (+=, -=, x[:]=, etc) are not supported when recording with autograd.")
    value = value.as_in_context(array._context).astype(array.dtype, copy=False)
    if value._shape != array._shape:
        extra = max(len(value._shape) - len(shape), 0)
        leading = value._shape[:extra]
        trimmed = value.reshape(value._shape[extra:]) if extra and leading == (1,) * extra else value
        value = trimmed.broadcast_to(shape).reshape(array._shape)
    array._write(value._memory())
    written(array._storage)
    record_copy(value, array)


def _shape_if_all(array: NDArray, key: Any) -> tuple[int, ...] | None:
    """The shape that a basic key selects if it selects all elements in order; None for other keys."""
    parts = key if isinstance(key, tuple) else (key,)
    if not _is_basic(parts) or any(isinstance(part, slice) and (part.step or 1) < 0 for part in parts):
        return None
    selected = np.broadcast_to(np.uint8(0), array._shape)[(*parts, ...) if Ellipsis not in parts else parts]
    return (selected.shape or (() if array._class else (1,))) if selected.size == array.size else None


def _open_ended(key: Any) -> Any:
    """The key with `...` at its end: NumPy then selects an array of shape () instead of a scalar, to which an array of
    shape (1,) cannot be assigned."""
    parts = key if isinstance(key, tuple) else (key,)
    return parts if any(part is Ellipsis for part in parts) else (*parts, ...)


def _is_whole(array: NDArray, key: Any) -> bool:
    """True if the key is (), or `:` for an array of shape ()."""
    return key == () if key.__class__ is tuple else not array._shape and key.__class__ is slice and key == slice(None)


def _is_element(key: Any) -> bool:
    """True if the key has only integers. Other keys that select one element give the shape (1,), as in MXNet."""
    return all(isinstance(k, int | np.integer) for k in (key if isinstance(key, tuple) else (key,)))


def _is_basic(key: Any) -> bool:
    """True if NumPy would select a view. A truth value selects a copy, as a mask does."""
    parts = key if isinstance(key, tuple) else (key,)
    return all(isinstance(k, _BASIC) and not isinstance(k, bool) for k in parts)


def normalized(key: Any) -> Any:
    """The key in NumPy's terms; arrays of floats become integers. ValueError for values that cannot be an index."""
    if isinstance(key, tuple):
        return tuple(map(_normalized_part, key))
    return _normalized_part(key)


def _normalized_part(part: Any) -> Any:
    if isinstance(part, bool | np.bool_ | int | np.integer | slice) or part is None or part is Ellipsis:
        return part
    if isinstance(part, array_class()):
        part = part.asnumpy()
    if isinstance(part, np.ndarray | list | tuple | range):
        indices = np.asarray(part)
        return indices if indices.dtype == np.bool_ else indices.astype(np.int64)
    raise ValueError(f"NDArray does not support slicing with key {part!r} of type {type(part)}")


def _assignable(array: NDArray, value: Any) -> Any:
    if isinstance(value, array_class()):
        if value._is_sparse:
            return to_memory(value.asnumpy(), array._dtype)
        return value._memory() if value._dtype is array._dtype else to_memory(value.asnumpy(), array._dtype)
    if isinstance(value, numeric_types):
        return to_memory(value, array._dtype)
    try:
        values = numbers_of(value, array._dtype)
    except Exception as error:
        cls = type(array)
        raise TypeError(
            f"{cls} does not support assignment with non-array-like object {value} of type {type(value)}: {error}"
        ) from None
    return to_memory(values, array._dtype)
