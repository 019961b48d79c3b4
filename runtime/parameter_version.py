"""Versions of parameters. If the version changes, a program computes again what depends on parameters alone."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from operator import is_, itemgetter

from .idle import add_owner
from .prepared import Version
from .storage import Storage
from .writes import Watch, clock

_numbers = itertools.count(1)
_LAST_WRITE = itemgetter(1)


class ParameterVersion:
    """A number that changes whenever parameters have other values or other memory than before.

    `refresh` takes the current blocks of memory of the parameters; `is_current` is a fast check that nothing has
    changed since.
    """

    __slots__ = ("__weakref__", "_owner", "_versions", "_watch", "checked", "stamp")

    def __init__(self) -> None:
        self.checked = -1
        self._owner = next(_numbers)
        add_owner(self._owner, self)
        self.stamp = Version(self._owner, 0)
        self._watch: Watch | None = None
        self._versions: tuple[int, ...] = ()

    def is_current(self) -> bool:
        return self.checked == clock.now

    def refresh(self, storages: Sequence[Storage] | None = None) -> Version:
        """The version of the parameters in these blocks; without `storages` in the same blocks as before."""
        now = clock.now  # read first: a write during the check is seen by the next one
        watch = self._watch
        if watch is None or not (storages is None or _same(storages, watch.storages)):
            watch, self._versions = Watch(storages or ()), ()
        versions = tuple(map(_LAST_WRITE, watch.records))
        if versions != self._versions or not self.stamp[1]:
            self._watch, self._versions = watch, versions
            self.stamp = tuple.__new__(Version, (self._owner, next(_numbers)))
        self.checked = now
        return self.stamp


def _same(some: Sequence[Storage], others: Sequence[Storage]) -> bool:
    return len(some) == len(others) and all(map(is_, some, others))
