"""Groups of GPUs that NCCL connects, one of each worker. The workers' group on the host, of MPI, makes them.

NCCL's operations do not block: the host looks for errors until they are done or a deadline passes, and then aborts
them, so that a worker that does not come is an error and no kernel waits for it for ever.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.settings import settings
from ..ir.types import DType
from .communicator import CommunicationError, Communicator, DeviceCommunicator
from .nccl_library import DTYPES, ID_BYTES, IN_PROGRESS, OPERATIONS, SUCCESS, load

_SPINS, _PAUSE = 1000, 5e-5
"""Looks before pauses begin, and seconds of a pause."""


class NcclGroup:
    """A member of a group of GPUs; implements `DeviceCommunicator`."""

    def __init__(self, workers: Communicator, device: Any, library: Any) -> None:
        """All workers call it. CommunicationError if their GPUs cannot be connected."""
        self._device, self._library = device, library
        self._who = f"worker {workers.rank} of {workers.size}, {device.name}"
        self._failed = ""
        own = np.frombuffer(library.unique_id() if workers.rank == 0 else bytes(ID_BYTES), np.uint8)
        identity = workers.broadcast(own).tobytes()
        self._handle = library.open(device, workers.size, identity, workers.rank)
        self._until(self._is_ready, "the connection of GPUs")

    def all_reduce(self, operation: str, address: int, dtype: DType, count: int) -> None:
        """See `DeviceCommunicator`."""
        self._start("all_reduce", address, count, self._number(dtype), OPERATIONS[operation])

    def reduce_scatter(self, operation: str, source: int, target: int, dtype: DType, count: int) -> None:
        """See `DeviceCommunicator`."""
        self._start("reduce_scatter", source, target, count, self._number(dtype), OPERATIONS[operation])

    def all_gather(self, source: int, target: int, dtype: DType, count: int) -> None:
        """See `DeviceCommunicator`."""
        self._start("all_gather", source, target, count, self._number(dtype))

    def broadcast(self, address: int, dtype: DType, count: int, root: int = 0) -> None:
        """See `DeviceCommunicator`."""
        self._start("broadcast", address, count, self._number(dtype), root)

    def wait(self) -> None:
        """See `DeviceCommunicator`."""
        if self._failed:
            raise CommunicationError(self._failed)
        event = self._device.stream.record()
        self._until(lambda: self._is_ready() and event.is_reached(), "values of other GPUs")

    def _number(self, dtype: DType) -> int:
        if dtype not in DTYPES:
            raise CommunicationError(f"{self._who}: NCCL combines no {dtype.value}")
        return DTYPES[dtype]

    def _start(self, name: str, *arguments: int) -> None:
        if self._failed:
            raise CommunicationError(self._failed)
        self._check(getattr(self._library, name)(self._device, self._handle, *arguments))
        self._until(self._is_ready, "the start of an exchange of GPUs")

    def _is_ready(self) -> bool:
        """True unless the library still works on the last call. CommunicationError if that failed."""
        state = self._library.state(self._handle)
        self._check(state)
        return state == SUCCESS

    def _check(self, result: int) -> None:
        if result not in (SUCCESS, IN_PROGRESS):
            try:
                self._library.check(result, self._handle)
            except CommunicationError as error:
                self._fail(f"{self._who}: {error}")

    def _until(self, is_done: Callable[[], bool], what: str) -> None:
        for _ in range(_SPINS):
            if is_done():
                return
        seconds = settings().communication_seconds
        end = time.monotonic() + seconds
        while not is_done():
            if time.monotonic() > end:
                reason = "in which another worker does not take part (MXFORGE_COMMUNICATION_SECONDS is the limit)"
                self._fail(f"{self._who} waited {seconds:.0f} s for {what}, {reason}")
            time.sleep(_PAUSE)

    def _fail(self, message: str) -> None:
        self._failed = message
        self._library.abort(self._handle)
        raise CommunicationError(message)


class GpuGroups:
    """The groups of GPUs of a worker and of the others, each of which is made when it is first used."""

    def __init__(self, workers: Communicator, required: bool) -> None:
        """If NCCL is not `required`, there are no groups unless all workers have it."""
        self._workers, self._required = workers, required
        self._groups: dict[str, NcclGroup | None] = {}

    def of(self, device: Any) -> DeviceCommunicator | None:
        """The group of this worker's GPU `device` and one GPU of each of the others. All workers call it."""
        if device.name not in self._groups:
            self._groups[device.name] = self._made(device)
        return self._groups[device.name]

    def _made(self, device: Any) -> NcclGroup | None:
        library, reason = None, ""
        try:
            library = load()
        except CommunicationError as error:
            reason = str(error)
        reasons = [bytes(text).decode() for text in self._workers.all_gather(np.frombuffer(reason.encode(), np.uint8))]
        if not any(reasons):
            return NcclGroup(self._workers, device, library)
        if not self._required:
            return None
        rank = next(k for k, text in enumerate(reasons) if text)
        raise CommunicationError(f"worker {rank}: {reasons[rank]}, or use the kvstore 'dist_sync'")
