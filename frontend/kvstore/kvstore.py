"""`create`: makes stores of all kinds."""

from __future__ import annotations

from typing import Any

from ..base import MXNetError
from ..ndarray import NDArray  # noqa: F401  (MXNet's module has this name too)
from .base import KVStoreBase
from .store import KVStore

__all__ = ["KVStore"]

_LOCAL = ("local", "device", "local_update_cpu", "local_allreduce_cpu", "local_allreduce_device")
_REMOTE = ("dist", "dist_sync", "dist_device_sync", "dist_sync_device", "p3", "p3store_dist", "nccl", "horovod")
"""Kinds whose values all workers share. Where MXNet's differ in how they exchange them, they are the same here."""


_ASYNCHRONOUS = ("dist_async", "dist_device_async", "dist_async_device")
"""Kinds whose workers update values without waiting for each other."""


def is_shared(store: Any) -> bool:
    """True for a store of several workers, and for the name of one."""
    return store.lower() in (*_REMOTE, *_ASYNCHRONOUS) if isinstance(store, str) else getattr(store, "is_shared", False)


class SharedInitially:
    """Sets a parameter of Gluon that a worker initializes to the values of another one."""

    def __init__(self, store: Any, root: int = 0) -> None:
        self._store, self._root = store, root

    def __call__(self, parameter: Any) -> None:
        self._store.share({parameter.name: parameter.list_data()}, self._root)


def create(name: str = "local") -> Any:
    """Create a store: "local" or "device" (of one process), "dist_sync" (of all processes that `mxforge launch` or
    another launcher of MPI started), "dist_async" (of the same processes, which do not wait for each other), or a
    registered kind. All processes create shared stores in the same order.

    Raises MXNetError for unknown kinds, and if MPI is required and missing.

    Example:
        >>> store = mx.kv.create("local")
        >>> store.init("w", mx.nd.zeros((2,)))
        >>> store.push("w", [mx.nd.ones((2,)), mx.nd.ones((2,))])
        >>> out = mx.nd.empty((2,))
        >>> store.pull("w", out=out)
        >>> out.asnumpy()
        array([2., 2.], dtype=float32)
    """
    if not isinstance(name, str):
        raise TypeError("name must be a string")
    name = name.lower()
    if name in KVStoreBase.kv_registry:
        return KVStoreBase.kv_registry[name]()
    if name in _REMOTE:
        from .distributed import DistributedKVStore

        return DistributedKVStore(name)
    if name in _ASYNCHRONOUS:
        from .asynchronous import AsynchronousKVStore

        return AsynchronousKVStore(name)
    if name == "byteps":
        raise MXNetError(f"kvstore {name!r} is not in mxforge: use 'dist_sync'")
    if name not in _LOCAL:
        raise MXNetError(f"kvstore {name!r} is unknown: use one of {', '.join((*_LOCAL, *_REMOTE, *_ASYNCHRONOUS))}")
    return KVStore(name)
