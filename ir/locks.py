"""Locks that survive a fork: a forked child has one thread, and another thread's lock would never be released.

A `ForkSafeLock` guards Python data and is free in the child. State that a child cannot repair (foreign code, the import
of modules) must not be in use by another thread at the time of a fork: forks wait for it.

Python discards exceptions of the functions that run at a fork, so Ctrl-C is delayed until after it.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING
from weakref import WeakSet

from . import import_lock
from .interrupts import Delay

if TYPE_CHECKING:

    class RLock:
        """`threading.RLock`, which is no class for type checkers."""

        def acquire(self, blocking: bool = True) -> bool: ...
        def release(self) -> None: ...
        def __enter__(self) -> bool: ...
        def __exit__(self, *error: object) -> None: ...
        def _at_fork_reinit(self) -> None: ...

else:
    RLock = _thread.RLock

_POLL_SECONDS = 0.001
_CLOSED_SECONDS = 0.1
_LONGEST_HELD_SECONDS = 0.02


class ForkSafeLock(RLock):
    """A re-entrant lock. In a forked child it is free unless the forking thread holds it.

    A subclass of Python's, whose methods are not interrupted by Ctrl-C between the acquisition and the `with` block.
    """

    def __init__(self) -> None:
        _locks.add(self)

    def renew(self) -> None:
        """Release the lock if its owner is a thread that does not exist in this process."""
        if self.acquire(blocking=False):  # free, or held by this thread
            self.release()
        else:
            self._at_fork_reinit()

    __hash__ = object.__hash__


_locks: WeakSet[ForkSafeLock] = WeakSet()
_forking = ForkSafeLock()  # held from before a fork until after it, and where a `Section` begins
_busy: list[Callable[[], bool]] = []
_delay = Delay()


class Section:
    """Code that a child could not finish. A fork waits while other threads run it, and meanwhile no further thread
    begins: without that a fork would never see an end if threads take turns."""

    def __init__(self) -> None:
        self._threads: dict[object, int] = {}  # of each run
        await_while(self._is_run_by_others)

    @contextmanager
    def run(self) -> Generator[None]:
        """Run the body. It can be nested."""
        this, thread = object(), threading.get_ident()
        import_lock.recover(thread)  # a fork could wait for it, and this thread for the fork
        try:
            if thread in self._threads.values():
                self._threads[this] = thread
            else:
                with _forking:
                    self._threads[this] = thread
            yield
        finally:
            self._threads.pop(this, None)

    @property
    def is_run(self) -> bool:
        """True if a thread runs it."""
        return bool(self._threads)

    def _is_run_by_others(self) -> bool:
        thread = threading.get_ident()
        return any(other != thread for other in tuple(self._threads.values()))


def await_while(busy: Callable[[], bool]) -> None:
    """Make forks wait while `busy()` is true: while another thread runs code that a child could not finish."""
    _busy.append(busy)


def _before() -> None:
    """Wait until no other thread runs code that a child could not finish. Sections are open now and then, since such
    code can wait for a thread that is about to begin one."""
    _delay.begin()
    import_lock.recover(threading.get_ident())
    closed = _CLOSED_SECONDS
    while not _become_quiet(closed):
        _forking.release()
        time.sleep(_POLL_SECONDS)
        closed *= 2


def _become_quiet(seconds: float) -> bool:
    """Close all sections and wait for this time at most. Returns True if no other thread is busy; then none can begin
    an import either.

    A thread that imports without pause is not busy for moments only, between two imports. So the next one must not
    begin for a while, and then all can go on for as long, since an import can need others.
    """
    _forking.acquire()
    end = time.monotonic() + seconds
    held = _POLL_SECONDS
    while time.monotonic() < end:
        import_lock.hold()
        if _is_quiet_within(held):
            return True
        import_lock.let_go()
        time.sleep(held)
        held = min(2 * held, _LONGEST_HELD_SECONDS)
    return False


def _is_quiet_within(seconds: float) -> bool:
    end = time.monotonic() + seconds
    while any(busy() for busy in _busy):
        if time.monotonic() > end:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _after() -> None:
    _release()
    if _delay.end():
        caller = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        _thread.start_new_thread(_interrupt, (threading.get_ident(), caller, caller.f_lasti))


def _interrupt(thread: int, caller: FrameType, at: int) -> None:
    """Press Ctrl-C again when the thread has left `os.fork`, which `caller` calls at the instruction `at`. Functions
    that other modules registered for forks can still run, and an exception there would be lost too."""
    while caller.f_lasti == at and _calls(thread, caller):
        time.sleep(_POLL_SECONDS)
    signal.pthread_kill(thread, signal.SIGINT)


def _calls(thread: int, frame: FrameType) -> bool:
    at = sys._current_frames().get(thread)  # pyright: ignore[reportPrivateUsage]
    while at is not None and at is not frame:
        at = at.f_back
    return at is frame


def _after_in_child() -> None:
    _release()
    for lock in tuple(_locks):
        lock.renew()
    _delay.end()  # Ctrl-C was pressed in the parent


def _release() -> None:
    with suppress(RuntimeError):  # not held, if Ctrl-C was pressed before Python's handler was replaced
        _forking.release()
        import_lock.let_go()


os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after_in_child)
