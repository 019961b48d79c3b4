"""The interface of key-value stores, and the registry of their kinds."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, TypeVar

from ..ndarray import NDArray

__all__ = ["KVStoreBase"]

_T = TypeVar("_T", bound=type)


class KVStoreBase:
    """The interface of stores. `register` makes a subclass a kind for `create`."""

    OPTIMIZER: ClassVar[str] = "optimizer"
    kv_registry: ClassVar[dict[str, type[KVStoreBase]]] = {}

    def _not_implemented(self, what: str) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} has no {what}")

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        """Initialize `key` with `value` and copy the value to `out` on all workers."""
        raise self._not_implemented("broadcast")

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """Sum the values of all workers and devices and write the sum to `out`, or to `value` if `out` is None."""
        raise self._not_implemented("pushpull")

    def set_optimizer(self, optimizer: Any) -> None:
        """Set the optimizer that pushes use to update the values."""
        raise self._not_implemented("set_optimizer")

    @staticmethod
    def is_capable(capability: str) -> bool:
        """True if the store has a capability. "optimizer": it can update values with an optimizer."""
        raise NotImplementedError("this store has no is_capable")

    def save_optimizer_states(self, fname: str, dump_optimizer: bool = False) -> None:
        """Write the optimizer's states to a file."""
        raise self._not_implemented("save_optimizer_states")

    def load_optimizer_states(self, fname: str) -> None:
        """Load a file of `save_optimizer_states`."""
        raise self._not_implemented("load_optimizer_states")

    @property
    def type(self) -> str:
        """The kind, as in `create`."""
        raise self._not_implemented("type")

    @property
    def rank(self) -> int:
        """The number of this worker."""
        raise self._not_implemented("rank")

    @property
    def num_workers(self) -> int:
        raise self._not_implemented("num_workers")

    @staticmethod
    def register(klass: _T) -> _T:
        """Register a class as a kind for `create`, under its lower-case name."""
        if not isinstance(klass, type):
            raise AssertionError(f"register requires a class, not {klass!r}")
        name = klass.__name__.lower()
        old = KVStoreBase.kv_registry.get(name)
        if old is not None:
            warnings.warn(
                f"WARNING: New kvstore {klass.__module__}.{klass.__name__} is overriding existing kvstore "
                f"{old.__module__}.{old.__name__}",
                stacklevel=2,
            )
        KVStoreBase.kv_registry[name] = klass
        return klass


@KVStoreBase.register
class TestStore(KVStoreBase):
    """A store without stored values: it only sums its arguments."""

    __test__ = False  # otherwise pytest collects it, because of its name

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        for array in out if isinstance(out, list) else [out]:
            array[:] = value

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        if isinstance(value, NDArray):
            total: Any = value
        else:
            total = sum(array.as_in_context(value[0].context) for array in value)
        targets = out if out is not None else value
        for array in [targets] if isinstance(targets, NDArray) else targets:
            if array is not total:
                array[:] = total

    @staticmethod
    def is_capable(capability: str) -> bool:
        if capability.lower() != KVStoreBase.OPTIMIZER:
            raise ValueError(f"Unknown capability: {capability}")
        return False

    @property
    def type(self) -> str:
        return "teststore"

    @property
    def rank(self) -> int:
        return 0

    @property
    def num_workers(self) -> int:
        return 1
