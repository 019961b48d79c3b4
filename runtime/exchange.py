"""Sums over the members of a group that go on while a member computes: a thread of their own takes them."""

from __future__ import annotations

import threading
import weakref
from concurrent.futures import Future, wait
from functools import partial
from queue import SimpleQueue
from typing import Any

import numpy as np

from .at_exit import at_exit
from .communicator import Communicator

Array = np.ndarray[Any, Any]
_Waiting = SimpleQueue[tuple[Array, "Future[Array]"] | None]

_AT_EXIT = 2.0
"""Seconds for which a process that ends waits for sums that no one needs, but in which other members take part."""


class Exchange:
    """Takes sums over all members of a group one after another, in the order in which they begin. All members begin
    the same sums in the same order. The communicator is used by no one else."""

    def __init__(self, communicator: Communicator) -> None:
        self._communicator = communicator
        self._waiting: _Waiting = SimpleQueue()
        self._sums: list[Future[Array]] = []
        self._thread: threading.Thread | None = None

    @property
    def begun(self) -> int:
        """The number of sums that began since `finish`."""
        return len(self._sums)

    def begin(self, values: Array) -> None:
        """Begin to sum values, which must be contiguous. They are overwritten."""
        if self._thread is None:
            self._thread = threading.Thread(target=_sum, args=(self._waiting, self._communicator), daemon=True)
            self._thread.start()
            weakref.finalize(self, self._waiting.put, None)
            at_exit(partial(_end, weakref.ref(self)))
        total: Future[Array] = Future()
        self._sums.append(total)
        self._waiting.put((values, total))

    def finish(self) -> list[Array]:
        """Wait for the sums that began, and return them. Raises CommunicationError if one fails."""
        sums, self._sums = self._sums, []
        return [total.result() for total in sums]

    def end(self) -> None:
        """Wait a moment for sums that no one will ask for."""
        wait(self._sums, _AT_EXIT)


def _sum(waiting: _Waiting, communicator: Communicator) -> None:
    while (values_and_total := waiting.get()) is not None:
        values, total = values_and_total
        try:
            total.set_result(communicator.all_reduce("sum", values, overwrites=True))
        except BaseException as error:
            total.set_exception(error)


def _end(exchange: weakref.ref[Exchange]) -> None:
    known = exchange()
    if known is not None:
        known.end()
