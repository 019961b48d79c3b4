"""State that calls of functions depend on besides their operands: the modes of the thread, and the observers of calls.

Fast paths skip observers, so they are taken only while `hooks.watched` is False.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Container, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol

from ..ir.locks import ForkSafeLock

if TYPE_CHECKING:
    from .function import Call
    from .tensor import Tensor


class _Modes(threading.local):
    """The modes of one thread."""

    recording = False
    """True if calls are recorded for gradients."""
    training = False
    """True if operators behave as in training."""
    added: Container[int] = ()
    """While a backward program runs that calls Python: the positions of the inputs whose gradients are added to those
    of earlier passes."""
    tracer: Tracer | None = None
    """What gets the calls of operators while a block is traced, instead of running them."""


modes = _Modes()


class Observer(Protocol):
    """Is notified of every call of a function, in the thread of the call."""

    def before_call(self, call: Call) -> None: ...

    def after_call(self, call: Call, results: Sequence[Tensor]) -> None: ...


class Tracer(Protocol):
    """Makes a graph of the calls of operators of one thread. It is also an observer, so that no call takes a fast
    path."""

    def apply(self, bound: Any, arrays: Sequence[Any], out: Any = None, context: Any = None) -> Any:
        """The results of an operator with its parameters on these arrays."""
        ...

    def input(self, variable: Any, array: Any) -> Any:
        """An array of the graph for the variable of a parameter, whose value is `array`."""
        ...

    def control_flow(self, name: str, functions: Any, arrays: Any, options: Any) -> Any:
        """The results of a loop or a branch."""
        ...

    def constant(self, values: Any, dtype: Any, context: Any) -> Any:
        """An array of the graph with these elements."""
        ...


Converter = Callable[[Any, Any, Any], tuple[Any, Any]]
"""Returns the operands and parameters with which an operator is called instead."""


class Hooks:
    """The observers of calls, and what converts their operands before: mixed precision.

    `intercepted` is True while there is an observer or a converter. `watched` is True also while any thread records or
    is in training mode; `threads` is their number, which changes under `lock`. A method of a user's operator in Python
    runs in the context that `in_python(name)` returns.
    """

    __slots__ = ("converter", "in_python", "intercepted", "lock", "observers", "threads", "watched")

    def __init__(self) -> None:
        self.lock = ForkSafeLock()
        self.threads = 0
        self.observers: tuple[Observer, ...] = ()
        self.converter: Converter | None = None
        self.in_python: Callable[[str], AbstractContextManager[object]] = nullcontext
        self.intercepted = self.watched = False

    def add(self, observer: Observer) -> None:
        """Add an observer of calls."""
        with self.lock:
            self.observers = (*self.observers, observer)
            self._refresh()

    def remove(self, observer: Observer) -> None:
        """Remove an observer. An observer that was not added is ignored."""
        with self.lock:
            self.observers = tuple(o for o in self.observers if o is not observer)
            self._refresh()

    def convert_operands(self, converter: Converter | None) -> None:
        """Set what converts the operands of users' calls of operators; None for nothing."""
        with self.lock:
            self.converter = converter
            self._refresh()

    def _refresh(self) -> None:
        self.intercepted = bool(self.observers) or self.converter is not None
        self.watched = self.intercepted or self.threads > 0


hooks = Hooks()


def are_calls_seen() -> bool:
    """True while an observer, a converter or the tape of this thread must see calls. False if `hooks.watched` is."""
    return hooks.intercepted or modes.recording


def set_modes(recording: bool, training: bool) -> None:
    """Set the modes of this thread."""
    before = modes.recording or modes.training
    modes.recording, modes.training = recording, training
    now = recording or training
    if now is not before:
        with hooks.lock:
            hooks.threads += 1 if now else -1
            hooks.watched = hooks.intercepted or hooks.threads > 0


def set_recording(recording: bool) -> bool:
    """Set whether the calls of this thread are recorded; returns the previous mode."""
    before = modes.recording
    set_modes(recording, modes.training)
    return before


def set_training(training: bool) -> bool:
    """Set whether operators of this thread behave as in training; returns the previous mode."""
    before = modes.training
    set_modes(modes.recording, training)
    return before


@contextmanager
def untraced() -> Generator[None]:
    """Run calls of this thread instead of tracing them, in prediction mode and without recording."""
    before = modes.tracer, modes.recording, modes.training
    modes.tracer = None
    set_modes(False, False)
    try:
        yield
    finally:
        modes.tracer = before[0]
        set_modes(*before[1:])
