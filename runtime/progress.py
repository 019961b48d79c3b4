"""Prints a line on a terminal while a compilation takes long, so that a first call does not look like a deadlock."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from threading import Timer

from ..ir.settings import settings

_PATIENCE = 1.0
"""Seconds before the line is printed."""


@contextmanager
def progress(name: str) -> Generator[None]:
    """Run the body, which compiles what is called `name`. If it takes longer than a second, and stderr is a terminal,
    print a line meanwhile. `MXFORGE_QUIET=1` prints none."""
    if settings().quiet or not _is_terminal():
        yield
        return
    timer = Timer(_PATIENCE, _print, (f"mxforge: compiling {name}, first call",))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _is_terminal() -> bool:
    return sys.stderr is not None and not sys.stderr.closed and sys.stderr.isatty()


def _print(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
