"""Groups whose members are processes that MPI connects, by the package mpi4py.

A process that no launcher of MPI started is the only member of its group, and does not import mpi4py. A process that a
worker forks, such as a worker of a DataLoader, is no member: it ends without MPI.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingImports=false
# (mpi4py is an extra)

from __future__ import annotations

import math
import os
import sys
import threading
import time
import traceback
from functools import cache, partial
from types import TracebackType
from typing import Any

import numpy as np

from ..ir.settings import settings
from .at_exit import at_exit
from .communicator import Alone, CommunicationError, Communicator, Mailbox, current, default, part_of
from .mpi_job import FORKED, Forked, job, members, stop_if_over
from .mpi_messages import Messages

Array = np.ndarray[Any, Any]

_STARTED = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK", "MPI_LOCALRANKID")
"""Variables that launchers of MPI set for each process."""
_SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE")
"""Variables that launchers set to the number of processes."""
_SPINS, _TESTS = 200, 8
"""Tests of a request before other processes may run, and between two of these times: each test makes progress."""
_EAGER, _PAUSE = 2e-3, 5e-5
"""Seconds for which a thread that waits gives up its core only to others that can run, and those of a pause later."""
_LOOK, _GRACE = 0.05, 2.0
"""Seconds between looks for processes that ended, and those in which what one sent before it ended arrives."""
_DRAIN = 0.2
"""Seconds until the launcher has read the text of an error."""
_NOTICE = 5e-3
"""Seconds in which threads notice that the process ends."""
_NARROW = np.dtype(np.float16)
"""MPI adds none of these: they are added as float32."""
_OPERATIONS = {"sum": "SUM", "mean": "SUM", "max": "MAX", "min": "MIN"}


def is_launched() -> bool:
    """True if a launcher of MPI started this process, or the program uses mpi4py itself."""
    return "mpi4py.MPI" in sys.modules or any(name in os.environ for name in _STARTED)


def connect() -> Communicator:
    """A member of a new group of all processes of the job. All processes call it in the same order, and a group is used
    by one thread at a time. CommunicationError if a launcher of MPI started this process and mpi4py is missing."""
    if not is_launched():
        return Alone()
    if job.is_forked:
        raise CommunicationError(FORKED)
    mpi = _library()
    _ends()
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
    hooks = sys.excepthook, threading.excepthook
    sys.excepthook, threading.excepthook = _end, _end_of_thread  # first: an exception can come at any moment
    finalizes = "mpi4py.MPI" not in sys.modules
    try:
        import mpi4py

        if finalizes:
            mpi4py.rc.finalize = False
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # RuntimeError: no library of MPI
        reason = str(error).partition("\n")[0]
        raise CommunicationError(
            f"a launcher of MPI started this process, but mpi4py cannot be used: {reason}; pip install 'mxforge[mpi]'"
        ) from error
    _require_size(MPI)
    if finalizes:
        at_exit(_finalize)
    if MPI.COMM_WORLD.size == 1:
        sys.excepthook, threading.excepthook = hooks
    else:
        job.end, MPI._set_abort_status = MPI._set_abort_status, _end_at_exit
    os.register_at_fork(after_in_child=partial(_leave, MPI, hooks))
    return MPI


def _finalize() -> None:
    """End the use of MPI. mpi4py would do so in forked processes too, which would wait for the other workers."""
    job.is_over = True
    time.sleep(_NOTICE)
    mpi = _library()
    if not mpi.Is_finalized():
        mpi.Finalize()


def _leave(mpi: Any, hooks: tuple[Any, Any]) -> None:
    """In a forked process: its failure is not the worker's, and it takes part in nothing."""
    sys.excepthook, threading.excepthook = hooks
    mpi._set_abort_status = lambda status: None
    job.is_forked = True
    for member in members:
        member.group = Forked()


def _require_size(mpi: Any) -> None:
    """CommunicationError if the launcher is that of another MPI, for which each process is alone."""
    size = mpi.COMM_WORLD.size
    started = next((int(os.environ[name]) for name in _SIZES if name in os.environ), size)
    if size != started:
        library = mpi.Get_library_version().split("\n")[0].strip("\0 ")
        raise CommunicationError(
            f"the launcher started {started} processes, but {size} for the MPI that mpi4py uses ({library}): use the "
            "mpiexec of this MPI, or set MPI4PY_LIBMPI to the library of the launcher's"
        )


def _end(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    """End all processes, because no one catches an exception: the others would wait for this one."""
    text = "".join(traceback.format_exception(kind, error, trace))
    sys.stderr.write(f"mxforge: worker {_name()} failed, which ends the job:\n{text}")
    _abort(1)


def _end_of_thread(args: threading.ExceptHookArgs) -> None:
    if args.exc_type is not SystemExit:
        _end(args.exc_type, args.exc_value, args.exc_traceback)


def _end_at_exit(status: int) -> None:
    """Called by mpi4py's runner for a status other than 0: end now, and not when all threads have ended."""
    error = sys.exception()
    if not isinstance(error, SystemExit):
        job.end(status)
        return
    if error.code is not None and not isinstance(error.code, int):
        print(error.code, file=sys.stderr)
    print(f"mxforge: worker {_name()} ended with status {status}, which ends the job", file=sys.stderr)
    _abort(status)


def _name() -> str:
    """The number of this worker, and of how many it is."""
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None:
        return f"{mpi.COMM_WORLD.rank} of {mpi.COMM_WORLD.size}"
    return next((os.environ[name] for name in _STARTED if name in os.environ), "?")


def _abort(status: int) -> None:
    """End all processes of the job; `mxforge launch` does if this one ends before MPI is ready."""
    sys.stdout.flush()
    sys.stderr.flush()
    time.sleep(_DRAIN)  # the launcher ends at once, and forwards what it has read
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None:
        mpi.COMM_WORLD.Abort(status)
    os._exit(status)


class _Process:
    """A process of the job."""

    def __init__(self, mpi: Any, group: Any, eager: float = _EAGER) -> None:
        """A member of a duplicate of a group, which waits in pauses after so many seconds."""
        self._mpi, self.group, self._eager = mpi, group.Dup(), eager
        self.size: int = self.group.size
        self.rank: int = self.group.rank
        members.add(self)
        self._abandoned: list[object] = []
        self._in_place = mpi.IN_PLACE
        self._operations = {name: getattr(mpi, kind) for name, kind in _OPERATIONS.items()}

    def all_reduce(self, operation: str, values: Array, *, overwrites: bool = False) -> Array:
        narrow = values.dtype == _NARROW
        total = values if overwrites and not narrow else np.array(values, np.float32 if narrow else None, order="C")
        combine = self._operations[operation]
        if total.nbytes <= job.piece:
            self._wait(self.group.Iallreduce(self._in_place, total, combine), operation, total)
        else:
            flat, step = total.reshape(-1), job.piece // total.itemsize
            for begin in range(0, flat.size, step):
                piece = flat[begin : begin + step]
                self._wait(self.group.Iallreduce(self._in_place, piece, combine), operation, piece)
        if operation == "mean":
            total = (total / self.size).astype(total.dtype)
        return total.astype(_NARROW) if narrow else total

    def reduce_scatter(self, operation: str, values: Array) -> Array:
        narrow = values.dtype == _NARROW
        own = np.ascontiguousarray(values, np.float32 if narrow else None)
        combine, row = self._operations[operation], math.prod(own.shape[1:])
        spans = [part_of(len(own), self.size, rank) for rank in range(self.size)]
        part = np.empty((spans[self.rank].stop - spans[self.rank].start, *own.shape[1:]), own.dtype)
        if own.nbytes <= job.piece:
            counts = [(span.stop - span.start) * row for span in spans]
            self._wait(self.group.Ireduce_scatter(own, part, counts, combine), operation, (own, part))
        else:  # counts of a single operation have 31 bits
            step = job.piece // own.itemsize
            for rank, span in enumerate(spans):
                flat, into = own[span].reshape(-1), part.reshape(-1)
                for begin in range(0, flat.size, step):
                    piece = slice(begin, begin + step)
                    target = into[piece] if rank == self.rank else None
                    request = self.group.Ireduce(flat[piece], target, combine, root=rank)
                    self._wait(request, operation, (own, part))
        if operation == "mean":
            part = part / self.size
        return part.astype(values.dtype, copy=False)

    def broadcast(self, values: Array, root: int = 0) -> Array:
        result = np.array(values, order="C")
        flat = result.reshape(-1).view(np.uint8)
        for begin in range(0, flat.size, job.piece):
            piece = flat[begin : begin + job.piece]
            self._wait(self.group.Ibcast(piece, root=root), "a broadcast", piece)
        return result

    def all_gather(self, values: Array) -> list[Array]:
        own = np.ascontiguousarray(values)
        lengths = np.empty(self.size, np.int64)
        length = np.array([len(own)], np.int64)
        self._wait(self.group.Iallgather(length, lengths), "gathering", (length, lengths))
        parts: list[Array] = []
        for rank, n in enumerate(lengths.tolist()):  # one after another: counts of a single operation have 31 bits
            part = own if rank == self.rank else np.empty((n, *own.shape[1:]), own.dtype)
            flat = part.reshape(-1).view(np.uint8)
            for begin in range(0, flat.size, job.piece):
                piece = flat[begin : begin + job.piece]
                self._wait(self.group.Ibcast(piece, root=rank), "gathering", piece)
            parts.append(part)
        return parts

    def barrier(self) -> None:
        self._wait(self.group.Ibarrier(), "a barrier", None)

    def on_this_machine(self) -> tuple[int, int]:
        near = self.group.Split_type(self._mpi.COMM_TYPE_SHARED)
        try:
            return near.rank, near.size
        finally:
            near.Free()

    def duplicate(self) -> Communicator:
        return _Process(self._mpi, self.group, 0.0)  # what waits beside a computation leaves it the cores

    def mailbox(self) -> Mailbox:
        return Messages(self._mpi, self.group.Dup())

    def _wait(self, request: Any, what: str, memory: object) -> None:
        """Wait until an operation is done. CommunicationError at the deadline; MPI then keeps the memory."""
        for _ in range(_SPINS):
            if request.Test():
                return
        seconds = settings().communication_seconds
        begin = look = time.monotonic()
        deadline, ended = begin + seconds, None
        now, pauses = begin, begin + self._eager
        while not any(request.Test() for _ in range(_TESTS)):
            if now < pauses:
                os.sched_yield()
            else:
                time.sleep(_PAUSE)
            stop_if_over()
            now = time.monotonic()
            if now > look and ended is None:
                look, ended = now + _LOOK, _ends().first()
                deadline = deadline if ended is None else now + _GRACE
            if now > deadline:
                self._abandoned += [request, memory]
                raise CommunicationError(
                    f"worker {self.rank} of {self.size} waited {_reason(now - begin, what, ended)}"
                )


def _reason(seconds: float, what: str, ended: int | None) -> str:
    what = f"the {what} of values" if what in _OPERATIONS else what
    if ended is None:
        reason = "in which another worker does not take part (MXFORGE_COMMUNICATION_SECONDS is the limit)"
        return f"{seconds:.0f} s for {what} {reason}"
    reason = "all workers must take the same number of steps (with `kv.shortest(batches)` they do)"
    return f"for {what}, but worker {ended} has ended: {reason}"


class _Ends:
    """Which processes have ended: each sends a message to the others when it does."""

    def __init__(self, mpi: Any) -> None:
        self._mpi, self.group = mpi, mpi.COMM_WORLD.Dup()
        self._ended: int | None = None
        self._looking = threading.Lock()
        members.add(self)
        at_exit(self._send)

    def first(self) -> int | None:
        """The first process whose message came; None if all go on."""
        with self._looking:
            status = self._mpi.Status()
            if self._ended is None and self.group.Iprobe(status=status):
                self._ended = status.Get_source()
        return self._ended

    def _send(self) -> None:
        if self._mpi.Is_finalized():  # by the program itself
            return
        own = self.group.rank
        sent = [self.group.Isend(np.empty(0, np.uint8), dest=k) for k in range(self.group.size) if k != own]
        for request in sent:
            request.Test()


@cache
def _ends() -> _Ends:
    return _Ends(_library())
