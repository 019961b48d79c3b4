"""What calls of functions depend on besides their operands: the modes of a thread, and who observes calls.

Fast paths skip observers, so they are taken only while `hooks.watched` is False.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from ..ir.locks import ForkSafeLock

if TYPE_CHECKING:
    from .function import Call
    from .tensor import Tensor


class _Modes(threading.local):
    """The modes of one thread."""

    recording = False
    """Whether calls are recorded for gradients."""
    training = False
    """Whether operators behave as in training."""


modes = _Modes()


class Observer(Protocol):
    """Sees every call of a function, in the thread that makes it."""

    def before_call(self, call: Call) -> None: ...

    def after_call(self, call: Call, results: Sequence[Tensor]) -> None: ...


class Hooks:
    """The observers of calls. `watched` is True while there are any, or while any thread records."""

    __slots__ = ("_lock", "_recording", "observers", "watched")

    def __init__(self) -> None:
        self._lock = ForkSafeLock()
        self._recording = 0
        self.observers: tuple[Observer, ...] = ()
        self.watched = False

    def add(self, observer: Observer) -> None:
        """Let `observer` see calls from now on."""
        with self._lock:
            self.observers = (*self.observers, observer)
            self._refresh()

    def remove(self, observer: Observer) -> None:
        """End that. An observer that was not added is ignored."""
        with self._lock:
            self.observers = tuple(o for o in self.observers if o is not observer)
            self._refresh()

    def count_recording(self, change: int) -> None:
        """Note that one more thread records (1), or one fewer (-1)."""
        with self._lock:
            self._recording += change
            self._refresh()

    def _refresh(self) -> None:
        self.watched = bool(self.observers) or self._recording > 0


hooks = Hooks()


def set_recording(recording: bool) -> bool:
    """Record the calls of this thread or not; returns the mode before."""
    before = modes.recording
    if before is not recording:
        modes.recording = recording
        hooks.count_recording(1 if recording else -1)
    return before


def set_training(training: bool) -> bool:
    """Run operators of this thread as in training or not; returns the mode before."""
    before, modes.training = modes.training, training
    return before
