"""Delays Ctrl-C while code runs that cannot be repeated after an interruption."""

from __future__ import annotations

import signal
from collections.abc import Callable
from threading import current_thread, main_thread
from types import FrameType
from typing import Any


class Delay:
    """Records SIGINT from `begin` to `end`, in place of the program's handler. Inside another delay, which records it,
    and in threads that Ctrl-C does not interrupt, it does nothing."""

    def __init__(self) -> None:
        self._count = 0
        self._handler: Callable[[int, FrameType | None], Any] | None = None

    @property
    def is_pending(self) -> bool:
        """True if Ctrl-C was pressed."""
        return self._count > 0

    def begin(self) -> None:
        """Record SIGINT from now on."""
        if current_thread() is not main_thread():
            return
        handler = signal.getsignal(signal.SIGINT)
        if callable(handler) and not isinstance(handler, _Recorder):
            self._handler = handler
            signal.signal(signal.SIGINT, _Recorder(self))

    def end(self) -> bool:
        """Restore the program's handler. Returns True if it is to be called now."""
        if current_thread() is not main_thread():
            return False
        handler, self._handler = self._handler, None
        if handler is None:
            return False
        signal.signal(signal.SIGINT, handler)
        pending, self._count = self._count > 0, 0
        return pending

    def add(self) -> None:
        """Record one signal."""
        self._count += 1


class _Recorder:
    """A signal handler that records the signal."""

    def __init__(self, delay: Delay) -> None:
        self._delay = delay

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self._delay.add()
