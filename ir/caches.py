"""Caches of everything that is compiled, parsed or traced: one eviction rule, one way to clear and count.

A cache has two generations. Entries are added to the recent one. When it holds half of the limit, it becomes the older
generation, and the entries of the previous older generation are dropped. An entry found in the older generation moves
to the recent one. So an entry stays if it is used at least once per generation. A hit in the recent generation is one
look-up in a plain dictionary (`recent`), which fast paths do themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar
from weakref import WeakSet

from .locks import ForkSafeLock

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


class Cache(Generic[_K, _V]):
    """At most `limit` entries; with `weigh` (bytes of an entry) at most `limit_bytes` in total. The newest entry always
    stays. Threads can share a cache; one thread at a time creates missing entries.
    """

    def __init__(
        self,
        name: str,
        limit: int = 4096,
        weigh: Callable[[_V], int] | None = None,
        limit_bytes: int = 0,
        *,
        ages: bool = False,
    ) -> None:
        """With `ages`, `age_caches` drops entries that were not used lately."""
        self.name, self.limit, self.limit_bytes = name, limit, limit_bytes
        self.recent: dict[_K, _V] = {}
        self._older: dict[_K, _V] = {}
        self._weigh = weigh
        self._bytes = 0  # of the recent generation
        self._lock = ForkSafeLock()
        with _registering:
            _caches.add(self)
            if ages:
                _ageing.add(self)

    def find(self, key: _K) -> _V | None:
        """The entry of `key`, or None."""
        value = self.recent.get(key)
        if value is None:
            value = self._older.get(key)
            if value is not None:
                self.add(key, value)
        return value

    def get(self, key: _K, make: Callable[[], _V]) -> _V:
        """The entry of `key`; a missing one is created by `make`. An exception of `make` propagates, and nothing is
        stored."""
        value = self.find(key)
        if value is not None:
            return value
        with self._lock:
            value = self.find(key)
            return self.add(key, make()) if value is None else value

    def add(self, key: _K, value: _V) -> _V:
        """Store an entry and return it. If another thread stored one for the same key first, return that one."""
        with self._lock:
            kept = self.recent.get(key)
            return self._put(key, value) if kept is None else kept

    def replace(self, key: _K, value: _V) -> None:
        """Store an entry in place of the present one."""
        with self._lock:
            if self._weigh is not None and key in self.recent:
                self._bytes -= self._weigh(self.recent[key])
            self._put(key, value)

    def _put(self, key: _K, value: _V) -> _V:
        if key not in self.recent:
            self._make_room()
        self.recent[key] = value
        if self._weigh is not None:
            self._bytes += self._weigh(value)
        return value

    def _make_room(self) -> None:
        full = 2 * len(self.recent) >= self.limit or (self._weigh is not None and 2 * self._bytes >= self.limit_bytes)
        if full and self.recent:
            self._begin_generation()

    def _begin_generation(self) -> None:
        self._older = self.recent.copy()
        self.recent.clear()  # fast paths hold this dictionary
        self._bytes = 0

    def age(self) -> None:
        """Drop the entries of the older generation, and begin a new one. Takes no lock, since threads that create
        entries of several caches call it. An entry that is added meanwhile can be dropped."""
        self._begin_generation()

    def clear(self) -> None:
        """Drop all entries."""
        with self._lock:
            self.recent.clear()
            self._older = {}
            self._bytes = 0

    def values(self) -> list[_V]:
        """All entries."""
        with self._lock:
            return list({**self._older, **self.recent}.values())

    def __len__(self) -> int:
        return len(self.recent) + sum(key not in self.recent for key in self._older)

    def __reduce__(self) -> tuple[type[Cache[_K, _V]], tuple[str, int]]:
        return Cache, (self.name, self.limit)  # a copy is empty

    __hash__ = object.__hash__


_caches: WeakSet[Cache[Any, Any]] = WeakSet()
_ageing: WeakSet[Cache[Any, Any]] = WeakSet()
_registering = ForkSafeLock()


def _listed(caches: WeakSet[Cache[Any, Any]]) -> list[Cache[Any, Any]]:
    """The caches, to which other threads add meanwhile."""
    with _registering:
        return list(caches)


def age_caches() -> None:
    """Drop the entries that were not used since the last call, of all caches that age."""
    for cache in _listed(_ageing):
        cache.age()


def clear_caches() -> None:
    """Drop the entries of all caches of the process: for tests, and after a change of the settings."""
    for cache in _listed(_caches):
        cache.clear()


def cache_counts() -> dict[str, int]:
    """The number of entries by cache name; caches that share a name are added up."""
    counts: Counter[str] = Counter()
    for cache in _listed(_caches):
        counts[cache.name] += len(cache)
    return dict(counts)
