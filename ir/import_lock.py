"""The lock that Python holds where an import begins, and which threads are importing.

A fork holds it, so that no other thread begins an import between the last look at the others and the fork.
"""

from __future__ import annotations

import _imp
import sys
from contextlib import suppress
from typing import Any

_system: Any = sys.modules["_frozen_importlib"]
_IMPORTING: str = _system._find_and_load.__code__.co_filename


def is_importing(thread: int) -> bool:
    """True if a thread runs Python's import system."""
    at = sys._current_frames().get(thread)  # pyright: ignore[reportPrivateUsage]
    while at is not None and at.f_code.co_filename != _IMPORTING:
        at = at.f_back
    return at is not None


def recover(thread: int) -> None:
    """Release the lock if this thread holds it and is not importing. Python leaves it locked if Ctrl-C is pressed while
    the thread waits for it; then the imports of other threads never end."""
    with suppress(RuntimeError):  # it is not held, or another thread holds it
        while _imp.lock_held() and not is_importing(thread):
            _imp.release_lock()


def hold() -> None:
    """Let no other thread begin an import."""
    _imp.acquire_lock()


def let_go() -> None:
    """Undo `hold`."""
    _imp.release_lock()
