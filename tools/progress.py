"""Shows the progress of long work on a terminal."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import Self

PATIENCE = 2.0
"""Seconds before progress is shown: shorter work shows nothing."""
_TICK = 0.5
_CLEAR = "\r\x1b[K"


class Progress:
    """Shows a line on stderr while the block runs, after `PATIENCE` seconds and only on a terminal.

    `step` sets the text; the line is removed at the end.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._done = threading.Event()
        self._thread: threading.Thread | None = None

    def step(self, what: str) -> None:
        """Set the text of the line."""
        self._what = what

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            self._thread = threading.Thread(target=self._show, daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        if self._thread is not None:
            self._thread.join()

    def _show(self) -> None:
        start = time.monotonic()
        if self._done.wait(PATIENCE):
            return
        while True:
            sys.stderr.write(f"{_CLEAR}mxforge: {self._what} ({time.monotonic() - start:.0f} s)")
            sys.stderr.flush()
            if self._done.wait(_TICK):
                break
        sys.stderr.write(_CLEAR)
        sys.stderr.flush()
