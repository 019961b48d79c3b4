"""A communicator as over a link of a limited rate, for measurements on one machine."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from ...runtime.communicator import Communicator, Mailbox

Array = np.ndarray[Any, Any]


class SlowLink:
    """A member of a group whose sums take at least as long as each member needs to send all values once at
    `bytes_per_second`, which is what a ring of two members sends. Other operations are not delayed."""

    def __init__(self, communicator: Communicator, bytes_per_second: float) -> None:
        self._communicator, self._rate = communicator, bytes_per_second
        self.size, self.rank = communicator.size, communicator.rank

    def all_reduce(self, operation: str, values: Array, *, overwrites: bool = False) -> Array:
        begin = time.monotonic()
        total = self._communicator.all_reduce(operation, values, overwrites=overwrites)
        self._wait(begin, values.nbytes)
        return total

    def reduce_scatter(self, operation: str, values: Array) -> Array:
        begin = time.monotonic()
        part = self._communicator.reduce_scatter(operation, values)
        self._wait(begin, values.nbytes - part.nbytes)
        return part

    def _wait(self, begin: float, nbytes: int) -> None:
        rest = begin + nbytes / self._rate - time.monotonic()
        if rest > 0:
            time.sleep(rest)

    def duplicate(self) -> Communicator:
        return SlowLink(self._communicator.duplicate(), self._rate)

    def broadcast(self, values: Array, root: int = 0) -> Array:
        return self._communicator.broadcast(values, root)

    def all_gather(self, values: Array) -> list[Array]:
        return self._communicator.all_gather(values)

    def barrier(self) -> None:
        self._communicator.barrier()

    def on_this_machine(self) -> tuple[int, int]:
        return self._communicator.on_this_machine()

    def mailbox(self) -> Mailbox:
        return self._communicator.mailbox()
