"""KVStore: arrays by key on one machine, with the sums of what workers push; `create` makes stores of all kinds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ...runtime.atomic import write_atomically
from .. import ndarray as nd
from ..base import MXNetError
from ..ndarray import NDArray
from ..optimizer import get_updater
from ..optimizer.updater import load_states
from .base import KVStoreBase

__all__ = ["KVStore"]

Key = int | str
Updater = Callable[[Any, NDArray, NDArray], None]
_LOCAL = ("local", "device", "local_update_cpu", "local_allreduce_cpu", "local_allreduce_device")
_REMOTE = ("dist", "p3", "nccl", "horovod", "byteps")


class KVStore(KVStoreBase):
    """A value for each key, integers or texts but not both. Lists of arrays stand for copies on several devices."""

    def __init__(self, handle: str = "local") -> None:
        self._type = handle
        self._values: dict[Key, NDArray] = {}
        self._updater: Any = None
        self._compression: _TwoBits | None = None

    # --- keys -------------------------------------------------------------------------------------------------------

    def _check_kind(self, keys: Iterable[Key]) -> None:
        kinds = {isinstance(key, str) for key in (*self._values, *keys)}
        if len(kinds) > 1:
            raise MXNetError("KVStore: Mixed key types are not allowed, all are integers or all are texts")

    def _value(self, key: Key) -> NDArray:
        if key not in self._values:
            raise MXNetError(f"KVStore: key {key!r} has not been inited")
        return self._values[key]

    # --- values -----------------------------------------------------------------------------------------------------

    def init(self, key: Any, value: Any) -> None:
        """Give keys their first values. MXNetError for a key that has one."""
        pairs = _grouped(key, value)
        self._check_kind(k for k, _ in pairs)
        for k, arrays in pairs:
            if k in self._values or len(arrays) > 1:
                raise MXNetError(f"KVStore: duplicate init of key {k!r}")
            self._values[k] = arrays[0].copy()

    def push(self, key: Any, value: Any, priority: int = 0) -> None:
        """Add up each key's arrays, and put the sum in place of its value, or have the updater make a value of both."""
        pairs = _grouped(key, value)
        self._check_kind(k for k, _ in pairs)
        for k, arrays in pairs:
            stored = self._value(k)
            _check_shapes(k, stored, arrays)
            if self._compression is not None:
                arrays = [self._compression.squeezed((k, i), array) for i, array in enumerate(arrays)]
            total = _sum(arrays)
            if self._updater is None:
                self._values[k] = total.copy()
            else:
                # MXNet's callbacks receive texts as bytes
                self._updater(k.encode() if isinstance(k, str) else k, total.as_in_context(stored.context), stored)

    def pull(self, key: Any, out: Any = None, priority: int = 0, ignore_sparse: bool = True) -> None:
        """Copy values into arrays; sparse ones are left alone unless `ignore_sparse` is False."""
        if out is None:
            raise AssertionError("pull needs out")
        pairs = _grouped(key, out)
        self._check_kind(k for k, _ in pairs)
        for k, arrays in pairs:
            stored = self._value(k)
            _check_shapes(k, stored, arrays)
            for array in arrays:
                if array.stype == "default":
                    stored.tostype("default").copyto(array)
                elif not ignore_sparse:
                    stored.tostype(array.stype).copyto(array)

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """`push`, then `pull` into `out` or into the arrays that were pushed."""
        self.push(key, value, priority)
        self.pull(key, value if out is None else out, priority)

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        """`init`, then `pull`."""
        self.init(key, value)
        self.pull(key, out, priority)

    def row_sparse_pull(self, key: Any, out: Any = None, priority: int = 0, row_ids: Any = None) -> None:
        """Copy the rows with these numbers into `row_sparse` arrays; the other rows become zero.

        `row_ids` are those of all arrays, or lists as `out` has them.
        """
        if out is None or row_ids is None:
            raise AssertionError("row_sparse_pull needs out and row_ids")
        wanted = [row_ids] if isinstance(row_ids, NDArray) else row_ids
        if not isinstance(wanted, list):
            raise AssertionError("row_ids should be NDArray or list of NDArray")
        outs = [(k, array) for k, arrays in _grouped(key, out) for array in arrays]
        of_all = len(wanted) == 1 and isinstance(wanted[0], NDArray)
        rows = [(key, wanted)] if of_all else _grouped(key, wanted)
        numbers_of = [numbers for _, found in rows for numbers in found]
        if len(numbers_of) == 1:
            numbers_of *= len(outs)
        if len(numbers_of) != len(outs):
            raise AssertionError("the number of row_ids doesn't match the number of values")
        for (k, array), numbers in zip(outs, numbers_of, strict=True):
            if array.stype != "row_sparse":
                raise MXNetError(f"KVStore: row_sparse_pull of {k!r} writes row_sparse arrays, out is {array.stype}")
            dense = self._value(k).tostype("default")
            _check_shapes(k, dense, [array])
            chosen = np.unique(numbers.asnumpy().astype(np.int64))
            picked = dense.asnumpy()[chosen]
            nd.sparse.row_sparse_array((picked, chosen), shape=dense.shape, dtype=dense.dtype).copyto(array)

    # --- updates ----------------------------------------------------------------------------------------------------

    @staticmethod
    def is_capable(capability: str) -> bool:
        """Whether the store can update by itself ("optimizer"): it can."""
        if capability.lower() != KVStoreBase.OPTIMIZER:
            raise ValueError(f"Unknown capability: {capability}")
        return True

    def _set_updater(self, updater: Updater) -> None:
        """Have pushes call `updater(key, sum, value)`, which changes the value in place."""
        self._updater = updater

    def set_updater(self, updater: Updater) -> None:
        """As `_set_updater`, its name in older versions."""
        self._set_updater(updater)

    def set_optimizer(self, optimizer: Any) -> None:
        """Have pushes update values with an optimizer."""
        self._set_updater(get_updater(optimizer))

    def save_optimizer_states(self, fname: str, dump_optimizer: bool = False) -> None:
        """Write the optimizer's states to a file."""
        if self._updater is None:
            raise AssertionError("Cannot save states for distributed training")
        write_atomically(fname, self._updater.get_states(dump_optimizer))

    def load_optimizer_states(self, fname: str) -> None:
        """Read what `save_optimizer_states` wrote."""
        if self._updater is None:
            raise AssertionError("Cannot load states for distributed training")
        load_states(self._updater, fname)

    def set_gradient_compression(self, compression_params: dict[str, Any]) -> None:
        """Push arrays of several devices as two bits an element: `{"type": "2bit", "threshold": 0.5}`.

        What is lost is added to the next push of that device. A store of type "local" has none.
        """
        if "device" not in self.type:
            raise Exception("Gradient compression is not supported for this type of kvstore")
        if not isinstance(compression_params, dict):
            raise AssertionError(f"unexpected type for param_dict: {type(compression_params)}")
        given = dict(compression_params)
        kind, threshold = given.pop("type", "none"), float(given.pop("threshold", 0.5))
        if kind not in ("2bit", "none") or given:
            raise MXNetError(f"Unknown type for gradient compression {kind}" if not given else f"unknown: {given}")
        if threshold <= 0:
            raise MXNetError(f"threshold must be greater than 0, it is {threshold}")
        self._compression = _TwoBits(threshold) if kind == "2bit" else None

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

    def _barrier(self) -> None:
        """Wait for the other workers; there are none."""

    def _send_command_to_servers(self, head: int, body: str) -> None:
        """Send a command to the servers; there are none."""


class _TwoBits:
    """Quantizes to -threshold, 0 and threshold, and keeps what is lost for the next time (Seide et al. 2014)."""

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold
        self.left: dict[Any, np.ndarray] = {}

    def squeezed(self, key: Any, array: NDArray) -> NDArray:
        total = array.asnumpy() + self.left.get(key, 0)
        sent = np.where(np.abs(total) >= self.threshold, np.sign(total) * self.threshold, 0).astype(total.dtype)
        self.left[key] = total - sent
        return nd.array(sent, ctx=array.context, dtype=array.dtype)


def _grouped(keys: Any, values: Any) -> list[tuple[Key, list[NDArray]]]:
    """Each key with its arrays, in the order in which the keys come."""
    found: dict[Key, list[NDArray]] = {}
    if isinstance(keys, list | tuple):
        if len(keys) != len(values):
            raise AssertionError(f"KVStore: {len(keys)} keys for {len(values)} values")
        for key, value in zip(keys, values, strict=True):
            for k, arrays in _grouped(key, value):
                found.setdefault(k, []).extend(arrays)
        if len({isinstance(key, str) for key in found}) > 1:
            raise AssertionError("inconsistent types of keys detected.")
        return list(found.items())
    if not isinstance(keys, int | str):
        raise AssertionError(f"unexpected type for keys: {type(keys)}")
    arrays = [values] if isinstance(values, NDArray) else list(values)
    for array in arrays:
        if not isinstance(array, NDArray):
            raise AssertionError(f"KVStore: the values of key {keys!r} are NDArrays, not {type(array).__name__}")
    return [(keys, arrays)]


def _check_shapes(key: Key, stored: NDArray, arrays: list[NDArray]) -> None:
    for array in arrays:
        if array.shape != stored.shape:
            raise MXNetError(f"KVStore: key {key!r} has shape {stored.shape}, an array has {array.shape}")


def _sum(arrays: list[NDArray]) -> NDArray:
    """The sum on the first array's context, in its storage type."""
    if len(arrays) == 1:
        return arrays[0]
    context, stype = arrays[0].context, arrays[0].stype
    total = nd.add_n(*[array.tostype("default").as_in_context(context) for array in arrays])  # type: ignore[attr-defined]
    return total.tostype(stype)


def create(name: str = "local") -> Any:
    """A store of a kind: "local" or "device", which are of one machine, or one that was registered.

    MXNetError names kinds that need several machines or other libraries.
    """
    if not isinstance(name, str):
        raise TypeError("name must be a string")
    name = name.lower()
    if name in KVStoreBase.kv_registry:
        return KVStoreBase.kv_registry[name]()
    if name.startswith(_REMOTE):
        raise MXNetError(f"kvstore {name!r} is not in mxforge, which has stores of one machine: 'local' and 'device'")
    if name not in _LOCAL:
        raise MXNetError(f"kvstore {name!r} is unknown: use one of {', '.join(_LOCAL)}")
    return KVStore(name)
