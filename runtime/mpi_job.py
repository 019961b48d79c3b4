"""This process's part in a job of processes that MPI connects."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any, NoReturn

from .communicator import CommunicationError

FORKED = "this process was forked by a worker, which alone communicates with the others"


class _Job:
    """`end` is the function with which mpi4py's runner ends the job; `is_over` when the process ends: then no thread
    calls MPI any more. `is_forked` in a process that a worker forked. One operation of MPI moves `piece` bytes at most:
    its counts have 31 bits."""

    end: Callable[[int], None]
    is_over = False
    is_forked = False
    piece = 64 << 20


job = _Job()
members: weakref.WeakSet[Any] = weakref.WeakSet()
"""What uses a `group` of processes."""


def stop_if_over() -> None:
    """Stop a thread in the background when the process ends."""
    if job.is_over and threading.current_thread() is not threading.main_thread():
        threading.Event().wait()


class Forked:
    """The group of a forked process."""

    def __getattr__(self, name: str) -> NoReturn:
        raise CommunicationError(FORKED)
