"""Functions that a process calls when it ends, and processes that it forks do not."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable


def at_exit(function: Callable[[], object]) -> None:
    """Call a function when this process ends, before those that were registered before."""
    own = os.getpid()

    def call() -> None:
        if os.getpid() == own:
            function()

    atexit.register(call)
