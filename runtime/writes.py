"""Detects writes to memory from which programs have prepared values, such as packed weights.

Code that prepares values from a block watches it (`Watch`), and code that writes to a block in place calls `written`.
`clock.now` changes with every write to any watched block. A caller compares it on each run, and checks its own blocks
only if it changed.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterable

from ..ir.locks import ForkSafeLock
from .device import Address
from .storage import Storage

_counter = itertools.count(1)
_changing = ForkSafeLock()  # guards `watched`; re-entrant, because a watch can be collected while another is created
watched: dict[int, list[int]] = {}
"""The watched blocks: by the id of the block, the count of its watches and the number of its last write."""

_blocks: dict[int, Storage] = {}  # the watched blocks by id; their watches keep them alive


class _Clock:
    """The number of the last event of a kind."""

    __slots__ = ("now",)

    def __init__(self) -> None:
        self.now = 0


clock = _Clock()
"""`clock.now` changes with every write to a watched block."""

replaced = _Clock()
"""`replaced.now` changes when arrays of parameters are replaced by others."""

_membership = _Clock()
"""`_membership.now` changes when a block becomes watched, or is no longer."""


def written(storage: Storage) -> None:
    """Register an in-place write to `storage`. Fast if it is not watched."""
    entry = watched.get(id(storage))
    if entry is not None:
        entry[1] = clock.now = next(_counter)


def written_at(address: Address) -> None:
    """Register an in-place write to the block of memory that contains `address`."""
    for storage in tuple(_blocks.values()):
        begin = storage.address
        if type(begin) is type(address) and not address < begin and address < begin + storage.nbytes:
            written(storage)


class WrittenTogether:
    """Storages that are written together, again and again: a call registers a write to each. It takes less time than
    `written` for each."""

    def __init__(self, storages: Iterable[Storage]) -> None:
        self._storages = tuple(storages)
        self._membership = -1
        self._records: list[list[int]] = []

    def __call__(self) -> None:
        if self._membership != _membership.now:
            self._membership = _membership.now
            self._records = [r for s in self._storages if (r := watched.get(id(s))) is not None]
        if self._records:
            number = next(_counter)
            for record in self._records:
                record[1] = number
            clock.now = number


def touch() -> None:
    """Make every watcher check its blocks, because arrays were replaced and not written in place."""
    replaced.now = clock.now = next(_counter)


class Watch:
    """Watches blocks for as long as it lives. It keeps them alive, so that their ids are not reused. `records` has that
    of each block in `watched`."""

    def __init__(self, storages: Iterable[Storage]) -> None:
        self.storages = tuple(storages)
        with _changing:
            self.records = [watched.setdefault(id(storage), [0, 0]) for storage in self.storages]
            for storage, record in zip(self.storages, self.records, strict=True):
                record[0] += 1
                _blocks[id(storage)] = storage
            _membership.now = next(_counter)
        weakref.finalize(self, _release, self.storages)

    def versions(self) -> tuple[int, ...]:
        """The number of the last write to each block."""
        return tuple([last for _, last in self.records])


def _release(storages: tuple[Storage, ...]) -> None:
    with _changing:
        for storage in storages:
            entry = watched[id(storage)]
            entry[0] -= 1
            if entry[0] == 0:
                del watched[id(storage)], _blocks[id(storage)]
        _membership.now = next(_counter)
