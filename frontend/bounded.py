"""A table that forgets the entries that were not used for longest."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from ..ir.locks import ForkSafeLock

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


class Bounded(Generic[_K, _V]):
    """At most `limit` entries; any thread may ask, and one at a time makes what is missing."""

    __slots__ = ("_entries", "_making", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._entries: OrderedDict[_K, _V] = OrderedDict()
        self._making = ForkSafeLock()

    def get(self, key: _K, make: Callable[[], _V]) -> _V:
        """The entry of `key`, made if there is none."""
        found: _V | None
        try:
            found = self._entries[key]
            self._entries.move_to_end(key)
        except KeyError:  # none yet, or another thread let it go between the two lines
            found = None  # what `make` raises has no part in this error
        return self._made(key, make) if found is None else found

    def _made(self, key: _K, make: Callable[[], _V]) -> _V:
        with self._making:
            found = self._entries.get(key)
            if found is None:
                found = self._entries[key] = make()
                while len(self._entries) > self.limit:
                    self._entries.popitem(last=False)
            return found

    def values(self) -> list[_V]:
        """The entries, those used longest ago first."""
        return list(self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def __reduce__(self) -> tuple[type[Bounded[_K, _V]], tuple[int]]:
        return Bounded, (self.limit,)  # a copy begins empty
