"""Groups whose members are processes that MPI connects, by the package mpi4py.

A process that no launcher of MPI started is the only member of its group, and does not import mpi4py.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingImports=false
# (mpi4py is an extra)

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from functools import cache
from types import TracebackType
from typing import Any

import numpy as np

from ..ir.settings import settings
from .communicator import Alone, CommunicationError, Communicator, Mailbox, current, default

Array = np.ndarray[Any, Any]

_STARTED = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK", "MPI_LOCALRANKID")
"""Variables that launchers of MPI set for each process."""
_PIECE = 64 << 20
"""Bytes that one operation of MPI moves at most; its counts have 31 bits."""
_SPINS, _PAUSE = 2000, 5e-5
"""Tests of a request before the pauses between them begin, and a pause in seconds."""
_DRAIN = 0.2
"""Seconds until the launcher has read the text of an error."""
_HEADER = 32
"""Bytes of the numbers of a message."""
_OPERATIONS = {"sum": "SUM", "mean": "SUM", "max": "MAX", "min": "MIN"}


def is_launched() -> bool:
    """True if a launcher of MPI started this process, or the program uses mpi4py itself."""
    return "mpi4py.MPI" in sys.modules or any(name in os.environ for name in _STARTED)


def connect() -> Communicator:
    """A member of a new group of all processes of the job. All processes call it in the same order, and a group is used
    by one thread at a time. CommunicationError if a launcher of MPI started this process and mpi4py is missing."""
    if not is_launched():
        return Alone()
    mpi = _library()
    return _Process(mpi, mpi.COMM_WORLD)


def join() -> Communicator:
    """Let programs of all threads use one group of all processes, and return it. All processes call it in the same
    order as `connect`. A thread can have chosen another group."""
    chosen = current()
    if chosen.size == 1 and is_launched():
        default.communicator = connect()
        return default.communicator
    return chosen


@cache
def _library() -> Any:
    """The module mpi4py.MPI. An exception that ends a process ends the job."""
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # RuntimeError: no library of MPI
        reason = str(error).partition("\n")[0]
        raise CommunicationError(
            f"a launcher of MPI started this process, but mpi4py cannot be used: {reason}; pip install 'mxforge[mpi]'"
        ) from error
    _end_job_with_process(MPI)
    return MPI


def _end_job_with_process(mpi: Any) -> None:
    """Let an exception that no one catches end all processes: the others would wait for this one."""
    world = mpi.COMM_WORLD
    if world.size == 1:
        return

    def end(
        kind: type[BaseException], error: BaseException | None, trace: TracebackType | None
    ) -> None:  # the signature of sys.excepthook
        text = "".join(traceback.format_exception(kind, error, trace))
        sys.stderr.write(f"mxforge: worker {world.rank} of {world.size} failed, which ends the job:\n{text}")
        sys.stderr.flush()
        time.sleep(_DRAIN)  # the launcher ends at once, and forwards what it has read
        world.Abort(1)

    def end_at_exit(status: int) -> None:
        """Called by mpi4py's runner for a status other than 0: end now, and not when all threads have ended."""
        error = sys.exception()
        if not isinstance(error, SystemExit):
            of_runner(status)
            return
        text = "" if isinstance(error.code, int) else f"{error.code}\n"
        sys.stderr.write(
            f"mxforge: worker {world.rank} of {world.size} ended with {status}, which ends the job\n{text}"
        )
        sys.stdout.flush()
        sys.stderr.flush()
        time.sleep(_DRAIN)
        world.Abort(status)

    of_runner, mpi._set_abort_status = mpi._set_abort_status, end_at_exit

    def end_of_thread(args: threading.ExceptHookArgs) -> None:
        if args.exc_type is not SystemExit:
            end(args.exc_type, args.exc_value, args.exc_traceback)

    sys.excepthook, threading.excepthook = end, end_of_thread


class _Process:
    """A process of the job."""

    def __init__(self, mpi: Any, group: Any) -> None:
        """A member of a duplicate of a group."""
        self._mpi, self._group = mpi, group.Dup()
        self.size: int = self._group.size
        self.rank: int = self._group.rank
        self._abandoned: list[object] = []

    def all_reduce(self, operation: str, values: Array, *, overwrites: bool = False) -> Array:
        narrow = values.dtype == np.float16
        total = values if overwrites and not narrow else np.array(values, np.float32 if narrow else None, order="C")
        flat, step = total.reshape(-1), max(1, _PIECE // total.itemsize)
        combine = getattr(self._mpi, _OPERATIONS[operation])
        for begin in range(0, flat.size, step):
            piece = flat[begin : begin + step]
            self._wait(self._group.Iallreduce(self._mpi.IN_PLACE, piece, combine), f"{operation} of values", piece)
        if operation == "mean":
            total = (total / self.size).astype(total.dtype)
        return total.astype(values.dtype, copy=False)

    def broadcast(self, values: Array, root: int = 0) -> Array:
        result = np.array(values, order="C")
        flat = result.reshape(-1).view(np.uint8)
        for begin in range(0, flat.size, _PIECE):
            piece = flat[begin : begin + _PIECE]
            self._wait(self._group.Ibcast(piece, root=root), "a broadcast", piece)
        return result

    def all_gather(self, values: Array) -> list[Array]:
        own = np.ascontiguousarray(values)
        lengths = np.empty(self.size, np.int64)
        length = np.array([len(own)], np.int64)
        self._wait(self._group.Iallgather(length, lengths), "gathering", (length, lengths))
        parts: list[Array] = []
        for rank, n in enumerate(lengths.tolist()):  # one after another: counts of a single operation have 31 bits
            part = own if rank == self.rank else np.empty((n, *own.shape[1:]), own.dtype)
            flat = part.reshape(-1).view(np.uint8)
            for begin in range(0, flat.size, _PIECE):
                piece = flat[begin : begin + _PIECE]
                self._wait(self._group.Ibcast(piece, root=rank), "gathering", piece)
            parts.append(part)
        return parts

    def barrier(self) -> None:
        self._wait(self._group.Ibarrier(), "a barrier", None)

    def on_this_machine(self) -> tuple[int, int]:
        near = self._group.Split_type(self._mpi.COMM_TYPE_SHARED)
        try:
            return near.rank, near.size
        finally:
            near.Free()

    def duplicate(self) -> Communicator:
        return _Process(self._mpi, self._group)

    def mailbox(self) -> Mailbox:
        return _Messages(self._mpi, self._group.Dup())

    def _wait(self, request: Any, what: str, memory: object) -> None:
        """Wait until an operation is done. CommunicationError at the deadline; MPI then keeps the memory."""
        for _ in range(_SPINS):
            if request.Test():
                return
        seconds = settings().communication_seconds
        deadline = time.monotonic() + seconds
        while not request.Test():
            time.sleep(_PAUSE)
            if time.monotonic() > deadline:
                self._abandoned += [request, memory]
                raise CommunicationError(
                    f"worker {self.rank} of {self.size} waited {seconds} s for {what} in which another worker does not "
                    "take part (MXFORGE_COMMUNICATION_SECONDS is the limit)"
                )


class _Messages:
    """The mailbox of a process."""

    def __init__(self, mpi: Any, group: Any) -> None:
        self._mpi, self._group = mpi, group
        self._sent: list[tuple[Any, Array]] = []
        self._sending = threading.Lock()

    def send(self, to: int, header: Sequence[int], content: Array) -> None:
        numbers = np.array(header, np.int64).view(np.uint8)
        message = np.concatenate((numbers, np.ascontiguousarray(content).reshape(-1).view(np.uint8)))
        with self._sending:
            self._sent = [(request, memory) for request, memory in self._sent if not request.Test()]
            self._sent.append((self._group.Isend([message, self._mpi.BYTE], dest=to), message))

    def receive(self) -> tuple[int, list[int], Array] | None:
        status = self._mpi.Status()
        waiting = self._group.Improbe(status=status)
        if waiting is None:
            return None
        message = np.empty(status.Get_count(self._mpi.BYTE), np.uint8)
        waiting.Recv([message, self._mpi.BYTE])
        return status.Get_source(), message[:_HEADER].view(np.int64).tolist(), message[_HEADER:]
