"""MXNet's helpers for keys of arrays: lengths of slices, shapes of selections, keys as arrays of indices.

mxforge's indexing does not use them; third-party code finds them on NDArray and in its module.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base import integer_types
from . import _internal
from .array_classes import array_class
from .creation import array

if TYPE_CHECKING:
    from .ndarray import NDArray

Shape = tuple[int, ...]

_INDEX_DTYPE = "int64"


def _int_to_slice(idx: int) -> slice:
    """The slice that selects the same element as an integer."""
    return slice(-1, None) if idx == -1 else slice(idx, idx + 1)


def _is_advanced_index(idx: Any) -> bool:
    """True for arrays, lists, ranges and integers, False for slices and None. RuntimeError for anything else."""
    if isinstance(idx, (array_class(), np.ndarray, list, tuple, range, *integer_types)):
        return True
    if isinstance(idx, slice | None):
        return False
    raise RuntimeError(f"illegal index type {type(idx)}")


def _get_index_range(start: int | None, stop: int | None, length: int, step: int | None = 1) -> tuple[int, int, int]:
    """Start, stop and step of a slice as absolute positions; a stop before position 0 is -1."""
    if step == 0:
        raise ValueError("step size cannot be zero")
    if length < 0:
        raise ValueError("array length cannot be less than zero")
    step = 1 if step is None else step
    first, behind = (0, length) if step > 0 else (length - 1, -1)
    return _position(start, first, length), _position(stop, behind, length), step


def _position(index: int | None, default: int, length: int) -> int:
    if index is None:
        return default
    return min(max(index + length, 0) if index < 0 else index, length)


def _get_dim_size(start: int, stop: int, step: int) -> int:
    """The number of positions from start to stop, which must be in the direction of the step."""
    assert step != 0
    assert start == stop or (start < stop) == (step > 0)
    return len(range(start, stop, step))


def _get_slice_len(slc: slice, seq_length: int) -> int:
    """The number of elements that a slice selects of an axis."""
    return len(range(*slc.indices(seq_length)))


def _get_broadcast_shape(shape1: Shape, shape2: Shape) -> Shape:
    """The shape to which both shapes broadcast. ValueError if there is none."""
    return tuple(np.broadcast_shapes(shape1, shape2))


def _broadcast_shapes(seq: Iterable[Any]) -> Shape:
    """The shape to which all arrays broadcast. ValueError if there is none."""
    return tuple(np.broadcast_shapes(*[array.shape for array in seq]))


def _shape_for_bcast(shape: Sequence[int], target_ndim: int, new_axes: Iterable[int]) -> Shape:
    """The shape extended to `target_ndim` axes: extent 1 at the new axes, and for missing leading axes."""
    ones = {axis % target_ndim for axis in new_axes} if len(shape) < target_ndim else set()
    left = list(shape)
    extents = [1 if axis in ones or not left else left.pop() for axis in reversed(range(target_ndim))]
    return tuple(reversed(extents))


def _int64_enabled() -> bool:
    """True: extents and indices are 64-bit integers."""
    return True


class KeyHelpers:
    """The private methods of MXNet's NDArray that decompose keys. A parameter `slc_key` has one slice for each axis."""

    __slots__ = ()

    @staticmethod
    def _basic_indexing_key_to_begin_end_step(
        idcs: Sequence[Any], shape: Sequence[int], keep_none: bool = True
    ) -> tuple[tuple[Any, ...], ...]:
        """The starts, stops and steps of a key's slices and integers, as three tuples. None in the key is skipped."""
        slices = [idx if isinstance(idx, slice) else _int_to_slice(idx) for idx in idcs if idx is not None]
        pairs = zip(slices, shape, strict=False)
        return tuple(zip(*[(s.start, s.stop, s.step) if keep_none else s.indices(n) for s, n in pairs], strict=True))

    @staticmethod
    def _basic_indexing_key_int_to_slice(idcs: Sequence[Any]) -> tuple[tuple[Any, ...], Shape]:
        """The key with integers replaced by slices, and the positions of the integers."""
        places = tuple(i for i, idx in enumerate(idcs) if isinstance(idx, integer_types))
        return tuple(_int_to_slice(idx) if i in places else idx for i, idx in enumerate(idcs)), places

    @staticmethod
    def _new_axes_after_basic_indexing(axes: Sequence[int], key: Sequence[Any]) -> Shape:
        """The axes of the result that belong to these positions of the key; integers remove axes."""
        kept = np.cumsum([0] + [not isinstance(idx, integer_types) for idx in key])
        return tuple(kept[list(axes)])

    @staticmethod
    def _new_axes_after_advanced_indexing(
        key: Sequence[Any], adv_axs: Iterable[int], bcast_adv_ndim: int, adv_are_adjacent: bool
    ) -> Shape:
        """The axes of the result that the None of the key insert. The block of the advanced indices is not counted if
        these are adjacent; otherwise it comes first."""
        block = set(adv_axs)
        kept = np.cumsum([0 if adv_are_adjacent else bcast_adv_ndim] + [i not in block for i in range(len(key))])
        return tuple(kept[[i for i, idx in enumerate(key) if idx is None]])

    @staticmethod
    def _basic_indexing_slice_is_contiguous(slc_key: Sequence[slice], shape: Sequence[int]) -> bool:
        """True if the selected elements are contiguous in C order."""
        assert len(slc_key) == len(shape)
        lengths = KeyHelpers._basic_indexing_sliced_shape(slc_key, shape)
        if math.prod(lengths) <= 1:
            return True
        is_cut = False
        for slc, length, n in zip(reversed(slc_key), reversed(lengths), reversed(shape), strict=True):
            if length > 1 and (is_cut or slc.indices(n)[2] != 1):
                return False
            is_cut = is_cut or length < n
        return True

    @staticmethod
    def _basic_indexing_sliced_shape(slc_key: Sequence[slice], shape: Sequence[int]) -> Shape:
        """The shape of the selection."""
        assert len(slc_key) == len(shape)
        return tuple(_get_slice_len(slc, n) for slc, n in zip(slc_key, shape, strict=True))

    @staticmethod
    def _basic_indexing_contiguous_flat_begin_end(slc_key: Sequence[slice], shape: Sequence[int]) -> tuple[int, int]:
        """The start and end of the selected elements in C order, if they are contiguous; (0, 0) if there are none."""
        lengths = KeyHelpers._basic_indexing_sliced_shape(slc_key, shape)
        if 0 in lengths:
            return 0, 0
        begin = end = 0
        for slc, length, n in zip(slc_key, lengths, shape, strict=True):
            first = slc.indices(n)[0]
            begin, end = begin * n + first, end * n + first + length - 1
        return begin, end + 1

    @staticmethod
    def _drop_int_axes(indexed_shape: Sequence[int], int_axes: Iterable[int]) -> Shape:
        """The shape without these axes; (1,) if no axis remains."""
        dropped = set(int_axes)
        return tuple(n for i, n in enumerate(indexed_shape) if i not in dropped) or (1,)

    @staticmethod
    def _drop_slice_none_at_end(key: Sequence[Any]) -> tuple[Any, ...]:
        """The key without the full slices at its end."""
        parts = list(key)
        while isinstance(parts[-1], slice) and parts[-1] == slice(None):
            parts.pop()
        return tuple(parts)

    @staticmethod
    def _advanced_index_to_array(idx: Any, ax_len: int, ctx: Any) -> NDArray:
        """The positions that an index selects of an axis with `ax_len` elements, as an array. RuntimeError unless the
        index is an array, list, integer, slice or range."""
        if isinstance(idx, array_class()):
            return idx.astype(_INDEX_DTYPE, copy=False).as_in_context(ctx)
        if isinstance(idx, slice):
            idx = range(*idx.indices(ax_len))
        if not _is_advanced_index(idx):
            raise RuntimeError(f"illegal index type {type(idx)}")
        positions = [idx] if isinstance(idx, integer_types) else idx
        return array(np.asarray(positions), ctx, _INDEX_DTYPE)

    @staticmethod
    def _broadcast_advanced_indices(arrays: Sequence[NDArray], block_axes: Sequence[int]) -> tuple[NDArray, ...]:
        """A key's index arrays, broadcast to the shape of the result. The arrays at the consecutive `block_axes` are
        broadcast against each other; each of the other arrays has its own axis."""
        block = _broadcast_shapes(arrays[i] for i in block_axes)
        lead, trail = arrays[: block_axes[0]], arrays[block_axes[-1] + 1 :]
        shape = (*(a.shape[0] for a in lead), *block, *(a.shape[0] for a in trail))

        def spread(place: int, array: NDArray) -> NDArray:
            if place in block_axes:
                own = (1,) * len(lead) + block + (1,) * len(trail)
                return array.broadcast_to(block).reshape(own).broadcast_to(shape)  # type: ignore[attr-defined]
            axis = place if place < len(lead) else place + len(block) - len(block_axes)
            own = tuple(array.shape[0] if i == axis else 1 for i in range(len(shape)))
            return array.reshape(own).broadcast_to(shape)  # type: ignore[attr-defined]

        return tuple(spread(i, array) for i, array in enumerate(arrays))

    def _get_nd_basic_indexing(self, key: Any) -> Any:
        """The selection of a key of integers, slices and None."""
        return self[key]  # type: ignore[index]

    def _set_nd_basic_indexing(self, key: Any, value: Any) -> None:
        """Write to the selection of a key of integers, slices and None."""
        self[key] = value  # type: ignore[index]

    def _get_nd_advanced_indexing(self, key: Any) -> Any:
        """The selection of a key with arrays."""
        return self[key]  # type: ignore[index]

    def _set_nd_advanced_indexing(self, key: Any, value: Any) -> None:
        """Write to the selection of a key with arrays."""
        self[key] = value  # type: ignore[index]

    def _scatter_set_nd(self, value_nd: Any, indices: Any) -> Any:
        """Write `value_nd` to the positions in `indices`, which have the format of `gather_nd`."""
        return _internal._scatter_set_nd(lhs=self, rhs=value_nd, indices=indices, shape=self.shape, out=self)  # type: ignore[attr-defined]
