"""What stores of arrays by key share, and the registry of their kinds."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, TypeVar

from ..ndarray import NDArray

__all__ = ["KVStoreBase"]

_T = TypeVar("_T", bound=type)


class KVStoreBase:
    """The interface of stores; subclasses that `register` become kinds for `create`."""

    OPTIMIZER: ClassVar[str] = "optimizer"
    kv_registry: ClassVar[dict[str, type[KVStoreBase]]] = {}

    def _lacks(self, what: str) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} has no {what}")

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        """Give everybody a value."""
        raise self._lacks("broadcast")

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """Give everybody the sum of values."""
        raise self._lacks("pushpull")

    def set_optimizer(self, optimizer: Any) -> None:
        """Have pushes update the values."""
        raise self._lacks("set_optimizer")

    @staticmethod
    def is_capable(capability: str) -> bool:
        """Whether the store can do something: "optimizer", update by itself."""
        raise NotImplementedError("this store has no is_capable")

    def save_optimizer_states(self, fname: str, dump_optimizer: bool = False) -> None:
        """Write the optimizer's states to a file."""
        raise self._lacks("save_optimizer_states")

    def load_optimizer_states(self, fname: str) -> None:
        """Read what `save_optimizer_states` wrote."""
        raise self._lacks("load_optimizer_states")

    @property
    def type(self) -> str:
        """The kind, as `create` takes it."""
        raise self._lacks("type")

    @property
    def rank(self) -> int:
        """The number of this worker."""
        raise self._lacks("rank")

    @property
    def num_workers(self) -> int:
        raise self._lacks("num_workers")

    @staticmethod
    def register(klass: _T) -> _T:
        """Make a class a kind for `create`, under its lower-case name."""
        if not isinstance(klass, type):
            raise AssertionError(f"register takes a class, not {klass!r}")
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
    """A store that keeps nothing: it adds up what it is given."""

    __test__ = False  # for pytest, which takes classes of such names for tests

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
