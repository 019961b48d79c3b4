"""Messages between two processes that MPI connects."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from .mpi_job import job, members, stop_if_over

Array = np.ndarray[Any, Any]

_NUMBERS = 5
"""Those with which a message begins: its own, and the bytes of its content."""


class Messages:
    """The mailbox of a process."""

    def __init__(self, mpi: Any, group: Any) -> None:
        self._mpi, self.group = mpi, group
        self._sent: list[tuple[Any, Array]] = []
        self._sending = threading.Lock()
        self._unfinished: dict[int, tuple[list[int] | None, Array, int]] = {}
        members.add(self)

    def send(self, to: int, header: Sequence[int], content: Array) -> None:
        memory = np.ascontiguousarray(content).reshape(-1).view(np.uint8)
        numbers = np.array([*header, len(memory)], np.int64).view(np.uint8)
        with self._sending:
            self._sent = [(request, memory) for request, memory in self._sent if not request.Test()]
            self._begin(to, np.concatenate((numbers, memory[: job.piece])))
            for begin in range(job.piece, len(memory), job.piece):
                self._begin(to, memory[begin : begin + job.piece].copy())

    def _begin(self, to: int, piece: Array) -> None:
        self._sent.append((self.group.Isend([piece, self._mpi.BYTE], dest=to), piece))

    def receive(self) -> tuple[int, list[int], Array] | None:
        stop_if_over()
        status = self._mpi.Status()
        waiting = self.group.Improbe(status=status)
        if waiting is None:
            return None
        piece = np.empty(status.Get_count(self._mpi.BYTE), np.uint8)
        waiting.Recv([piece, self._mpi.BYTE])
        return self._joined(status.Get_source(), piece)

    def _joined(self, sender: int, piece: Array) -> tuple[int, list[int], Array] | None:
        """A message of which a piece came, the next one of its sender; None if it is not the last piece."""
        numbers, content, filled = self._unfinished.pop(sender, (None, piece, 0))
        if numbers is None:
            head = _NUMBERS * np.dtype(np.int64).itemsize
            *numbers, length = piece[:head].view(np.int64).tolist()
            piece = piece[head:]
            if len(piece) == length:
                return sender, numbers, piece
            content = np.empty(length, np.uint8)
        content[filled : filled + len(piece)] = piece
        filled += len(piece)
        if filled == len(content):
            return sender, numbers, content
        self._unfinished[sender] = numbers, content, filled
        return None
