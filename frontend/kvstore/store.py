"""KVStore: a key-value store of arrays in one process, which sums pushed arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from ...runtime.atomic import write_atomically
from .. import ndarray as nd
from ..base import MXNetError
from ..ndarray import NDArray
from ..ndarray.gradients import put
from ..ndarray.sparse_rows import rows_of
from ..optimizer import Updater, get_updater
from ..optimizer.updater import load_states
from .base import KVStoreBase

__all__ = ["KVStore"]

Key = int | str
UpdateFunction = Callable[[Any, NDArray, NDArray], None]


class KVStore(KVStoreBase):
    """Stores one array per key. All keys are integers, or all are strings. A list of arrays is one array per device."""

    is_shared = False
    """True if several workers have the values."""

    def __init__(self, handle: str = "local") -> None:
        self._type = handle
        self._values: dict[Key, NDArray] = {}
        self._updater: Any = None
        self._compression: _TwoBits | None = None

    # --- keys -------------------------------------------------------------------------------------------------------

    def _check_kind(self, keys: Iterable[Key]) -> None:
        kinds = {isinstance(key, str) for key in (*self._values, *keys)}
        if len(kinds) > 1:
            raise MXNetError("KVStore: Mixed key types are not allowed: keys must be all integers or all strings")

    def _value(self, key: Key) -> NDArray:
        if key not in self._values:
            raise MXNetError(f"KVStore: key {key!r} has not been inited")
        return self._values[key]

    # --- values -----------------------------------------------------------------------------------------------------

    def init(self, key: Any, value: Any) -> None:
        """Set the initial values of keys. Raises MXNetError for a key that has a value."""
        pairs = grouped(key, value)
        self._check_kind(k for k, _ in pairs)
        for k, arrays in pairs:
            if k in self._values or len(arrays) > 1:
                raise MXNetError(f"KVStore: duplicate init of key {k!r}")
            self._values[k] = arrays[0].copy()

    def push(self, key: Any, value: Any, priority: int = 0) -> None:
        """Sum each key's arrays. The sum replaces the stored value, or the updater updates the value with it."""
        pairs = grouped(key, value)
        self._check_kind(k for k, _ in pairs)
        for k, arrays in pairs:
            _check_shapes(k, self._value(k), arrays)
        self._apply(self._over_workers({k: self._sum(k, arrays) for k, arrays in pairs}))

    def _apply(self, sums: dict[Key, NDArray]) -> None:
        """Replace values by sums, or update them with the sums."""
        if self._updater is None:
            self._replace_each(sums)
            return
        values = [self._values[k] for k in sums]
        totals = [total.as_in_context(v.context) for total, v in zip(sums.values(), values, strict=True)]
        if type(self._updater) is Updater and self._updater.can_update_together:
            self._updater(tuple(sums), totals, values)
            return
        for k, total, stored in zip(sums, totals, values, strict=True):
            self._updater(k.encode() if isinstance(k, str) else k, total, stored)  # bytes, as MXNet's callbacks receive

    def _replace_each(self, sums: dict[Key, NDArray]) -> None:
        """Store sums in place of the values."""
        for k, total in sums.items():
            self._replace(k, total)

    def _replace(self, key: Key, total: NDArray) -> None:
        """Store a copy of a sum, in the memory of the present value if that is possible."""
        stored = self._values[key]
        if stored.stype == total.stype == "default" and stored.dtype == total.dtype and stored.context == total.context:
            put(total, stored)
        else:
            self._values[key] = total.copy()

    def _over_workers(self, sums: dict[Key, NDArray]) -> dict[Key, NDArray]:
        """The sums of the arrays of all workers."""
        return sums

    def _sum(self, key: Key, arrays: list[NDArray]) -> NDArray:
        """The sum of the arrays of the devices, which are compressed first if this is set."""
        if self._compression is not None:
            arrays = [self._compression.compress((key, i), array) for i, array in enumerate(arrays)]
        return _sum(arrays)

    def pull(self, key: Any, out: Any = None, priority: int = 0, ignore_sparse: bool = True) -> None:
        """Copy values to the arrays `out`. Sparse arrays are skipped unless `ignore_sparse` is False."""
        if out is None:
            raise AssertionError("pull requires out")
        pairs = grouped(key, out)
        self._check_kind(k for k, _ in pairs)
        for k, arrays in pairs:
            stored = self._value(k)
            _check_shapes(k, stored, arrays)
            for array in arrays:
                if array.stype == "default":
                    put(stored if stored.stype == "default" else stored.tostype("default"), array)
                elif not ignore_sparse:
                    stored.tostype(array.stype).copyto(array)

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """`push`, then `pull` to `out`, or to the pushed arrays if `out` is None."""
        self.push(key, value, priority)
        self.pull(key, value if out is None else out, priority)

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        """`init`, then `pull`."""
        self.init(key, value)
        self.pull(key, out, priority)

    def row_sparse_pull(self, key: Any, out: Any = None, priority: int = 0, row_ids: Any = None) -> None:
        """Copy the rows `row_ids` to the `row_sparse` arrays `out`. Their other rows become zero.

        `row_ids` is one array for all of `out`, or a list with the structure of `out`.
        """
        if out is None or row_ids is None:
            raise AssertionError("row_sparse_pull requires out and row_ids")
        listed = [row_ids] if isinstance(row_ids, NDArray) else row_ids
        if not isinstance(listed, list):
            raise AssertionError("row_ids should be NDArray or list of NDArray")
        outs = [(k, array) for k, arrays in grouped(key, out) for array in arrays]
        for_all = len(listed) == 1 and isinstance(listed[0], NDArray)
        rows = [(key, listed)] if for_all else grouped(key, listed)
        ids_of_outs = [ids for _, ids_of_key in rows for ids in ids_of_key]
        if len(ids_of_outs) == 1:
            ids_of_outs *= len(outs)
        if len(ids_of_outs) != len(outs):
            raise AssertionError("the number of row_ids doesn't match the number of values")
        for (k, array), ids in zip(outs, ids_of_outs, strict=True):
            if array.stype != "row_sparse":
                raise MXNetError(f"KVStore: row_sparse_pull of {k!r} requires row_sparse arrays, out is {array.stype}")
            stored = self._value(k)
            _check_shapes(k, stored, [array])
            numbers = np.unique(ids.asnumpy().astype(np.int64))
            if len(numbers) and not 0 <= numbers[0] <= numbers[-1] < stored.shape[0]:
                raise MXNetError(
                    f"KVStore: row_ids {numbers[0]}..{numbers[-1]} of {k!r}, which has {stored.shape[0]} rows"
                )
            rows = rows_of(stored, numbers)
            nd.sparse.row_sparse_array((rows, numbers), shape=stored.shape, dtype=stored.dtype).copyto(array)

    # --- updates ----------------------------------------------------------------------------------------------------

    @staticmethod
    def is_capable(capability: str) -> bool:
        """True for "optimizer": the store can update values with an optimizer. Others raise ValueError."""
        if capability.lower() != KVStoreBase.OPTIMIZER:
            raise ValueError(f"Unknown capability: {capability}")
        return True

    def _set_updater(self, updater: UpdateFunction) -> None:
        """Set the updater: pushes call `updater(key, sum, value)`, which updates the value in place."""
        self._updater = updater

    def set_updater(self, updater: UpdateFunction) -> None:
        """As `_set_updater`; the name in older versions."""
        self._set_updater(updater)

    def set_optimizer(self, optimizer: Any) -> None:
        """Set the optimizer that pushes use to update the values."""
        self._set_updater(get_updater(optimizer))

    def save_optimizer_states(self, fname: str, dump_optimizer: bool = False) -> None:
        """Write the optimizer's states to a file."""
        if self._updater is None:
            raise AssertionError("Cannot save states for distributed training")
        write_atomically(fname, self._updater.get_states(dump_optimizer))

    def load_optimizer_states(self, fname: str) -> None:
        """Load a file of `save_optimizer_states`."""
        if self._updater is None:
            raise AssertionError("Cannot load states for distributed training")
        load_states(self._updater, fname)

    def set_gradient_compression(self, compression_params: dict[str, Any]) -> None:
        """Quantize pushed arrays to two bits per element: `{"type": "2bit", "threshold": 0.5}`.

        The quantization error is added to the next push of the same device. A store of type "local" does not support
        it. As in MXNet, other keys are ignored.
        """
        if "device" not in self.type and "dist" not in self.type:
            raise Exception("Gradient compression is not supported for this type of kvstore")
        if not isinstance(compression_params, dict):
            raise AssertionError(f"unexpected type for param_dict: {type(compression_params)}")
        if "type" not in compression_params:
            raise MXNetError("Required parameter type of string is not presented, in gradient compression")
        kind, threshold = compression_params["type"], float(compression_params.get("threshold", 0.5))
        if kind != "2bit":
            raise MXNetError(f"Unknown type for gradient compression {kind}")
        if threshold <= 0:
            raise MXNetError(f"threshold must be greater than 0, not {threshold}")
        self._compression = _TwoBits(threshold)

    # --- workers ----------------------------------------------------------------------------------------------------

    @property
    def type(self) -> str:
        return self._type

    @property
    def rank(self) -> int:
        return 0

    @property
    def num_workers(self) -> int:
        return 1

    def agrees(self, here: bool, what: str = "it") -> bool:
        """Whether all workers have something, for instance a checkpoint. MXNetError on all of them if only some do."""
        return here

    def shortest(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The batches, for as long as all workers that wait for each other have one: an epoch ends on all when it ends
        on one of them."""
        yield from batches

    def _barrier(self) -> None:
        """Does nothing: there are no other workers."""

    def _send_command_to_servers(self, head: int, body: str) -> None:
        """Does nothing: there are no servers."""


class _TwoBits:
    """Quantizes to -threshold, 0 and threshold, with error feedback (Seide et al. 2014)."""

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold
        self.errors: dict[Any, np.ndarray] = {}

    def compress(self, key: Any, array: NDArray) -> NDArray:
        """Quantize `array` plus the last error of `key`, and store the new error."""
        total = array.asnumpy() + self.errors.get(key, 0)
        quantized = np.where(np.abs(total) >= self.threshold, np.sign(total) * self.threshold, 0).astype(total.dtype)
        self.errors[key] = total - quantized
        return nd.array(quantized, ctx=array.context, dtype=array.dtype)


def grouped(keys: Any, values: Any) -> list[tuple[Key, list[NDArray]]]:
    """Each key with its arrays, in the order of first occurrence."""
    groups: dict[Key, list[NDArray]] = {}
    if isinstance(keys, list | tuple):
        if len(keys) != len(values):
            raise AssertionError(f"KVStore: {len(keys)} keys for {len(values)} values")
        for key, value in zip(keys, values, strict=True):
            for k, arrays in grouped(key, value):
                groups.setdefault(k, []).extend(arrays)
        if len({isinstance(key, str) for key in groups}) > 1:
            raise AssertionError("inconsistent types of keys detected.")
        return list(groups.items())
    if not isinstance(keys, int | str):
        raise AssertionError(f"unexpected type for keys: {type(keys)}")
    arrays = [values] if isinstance(values, NDArray) else list(values)
    for array in arrays:
        if not isinstance(array, NDArray):
            raise AssertionError(f"KVStore: the values of key {keys!r} must be NDArrays, not {type(array).__name__}")
    return [(keys, arrays)]


def _check_shapes(key: Key, stored: NDArray, arrays: list[NDArray]) -> None:
    for array in arrays:
        if array.shape != stored.shape:
            raise MXNetError(f"KVStore: key {key!r} has shape {stored.shape}, an array has {array.shape}")


def _sum(arrays: list[NDArray]) -> NDArray:
    """The sum on the first array's context, in its storage type."""
    if len(arrays) == 1:
        return arrays[0]
    context = arrays[0].context
    moved = [array.as_in_context(context) for array in arrays]
    if all(array.stype == "row_sparse" for array in arrays):
        return reduce(add, moved)  # stores the rows that any of them stores
    total = nd.add_n(*[array.tostype("default") for array in moved])  # type: ignore[attr-defined]
    return total.tostype(arrays[0].stype)
