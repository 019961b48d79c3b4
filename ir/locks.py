"""Locks that survive a fork: a forked child has one thread, and another thread's lock would never be released.

A `ForkSafeLock` guards Python data and is free in the child. State that a child cannot repair (foreign code, the import
of modules) must not be in use by another thread at the time of a fork: forks wait for it.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from types import TracebackType
from weakref import WeakSet

_POLL_SECONDS = 0.001


class ForkSafeLock:
    """A re-entrant lock. In a forked child it is free unless the forking thread holds it."""

    __slots__ = ("__weakref__", "_lock")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._lock.release()

    def renew(self) -> None:
        """Release the lock if its owner is a thread that does not exist in this process."""
        if self._lock.acquire(blocking=False):  # free, or held by this thread
            self._lock.release()
        else:
            self._lock = threading.RLock()


_locks: WeakSet[ForkSafeLock] = WeakSet()
_forking = threading.RLock()
_awaited: list[ForkSafeLock] = []
_busy: list[Callable[[], bool]] = []
_held: list[ForkSafeLock] = []  # by the forking thread


def await_at_fork(lock: ForkSafeLock) -> ForkSafeLock:
    """Make forks wait until no other thread holds the lock."""
    _awaited.append(lock)
    return lock


def await_while(busy: Callable[[], bool]) -> None:
    """Make forks wait while `busy()` is true: while another thread runs code that a child could not finish."""
    _busy.append(busy)


def _before() -> None:
    _forking.acquire()
    while True:
        _hold()
        if not any(busy() for busy in _busy):
            return
        _let_go()
        time.sleep(_POLL_SECONDS)


def _hold() -> None:
    for lock in tuple(_awaited):
        lock.__enter__()
        _held.append(lock)


def _let_go() -> None:
    while _held:
        _held.pop().__exit__(None, None, None)


def _after() -> None:
    _let_go()
    _forking.release()


def _after_in_child() -> None:
    _after()
    for lock in tuple(_locks):
        lock.renew()


os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after_in_child)
