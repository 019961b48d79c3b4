"""A simulated NCCL whose members are threads with simulated GPUs. It has the methods of `NcclLibrary`.

As in NCCL, a call only starts work: a stream goes on when all members have started the same collective.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from mxforge.ir.types import DType
from mxforge.runtime.communicator import CommunicationError
from mxforge.runtime.nccl_library import DTYPES, ID_BYTES, IN_PROGRESS, OPERATIONS, SUCCESS
from mxforge.runtime.tensor_memory import as_memory, elements

Array = np.ndarray[Any, Any]
_INVALID_USAGE = 5
_COMBINE = {OPERATIONS[name]: getattr(np, name) for name in ("sum", "max", "min", "mean")}
_BY_NUMBER = {number: dtype for dtype, number in DTYPES.items()}


class _Group:
    def __init__(self, size: int) -> None:
        self.size, self.ranks = size, set[int]()
        self.begun: dict[int, dict[int, tuple[Any, Array]]] = {}


class _Member:
    def __init__(self, group: _Group, rank: int, device: Any) -> None:
        self.group, self.rank, self.device = group, rank, device
        self.number, self.error, self.is_aborted = 0, SUCCESS, False
        self.unfinished: list[tuple[int, Callable[[list[Array]], None]]] = []


class SimulatedNccl:
    """The library, which all members share. `calls` are the collectives that members started, by name."""

    def __init__(self) -> None:
        self._groups: dict[bytes, _Group] = {}
        self.members: dict[int, _Member] = {}
        self._lock, self._handles = threading.RLock(), itertools.count(1)
        self.calls: list[str] = []

    def unique_id(self) -> bytes:
        with self._lock:
            return next(self._handles).to_bytes(ID_BYTES)

    def open(self, device: Any, members: int, identity: bytes, rank: int) -> int:
        with self._lock:
            group = self._groups.setdefault(identity, _Group(members))
            group.ranks.add(rank)
            handle = next(self._handles)
            self.members[handle] = _Member(group, rank, device)
            return handle

    def state(self, handle: int) -> int:
        """Also goes on with the work of the member's stream, which the simulation does not do by itself."""
        with self._lock:
            member = self.members[handle]
            assert not member.is_aborted
            if len(member.group.ranks) < member.group.size:
                return IN_PROGRESS
            while member.unfinished:
                number, finish = member.unfinished[0]
                parts = member.group.begun[number]
                if len(parts) < member.group.size:
                    return member.error
                if len({what for what, _ in parts.values()}) > 1:
                    member.error = _INVALID_USAGE
                    return member.error
                finish([parts[rank][1] for rank in range(member.group.size)])
                member.unfinished.pop(0)
        if not member.error:
            member.device.synchronise()
        return member.error

    def abort(self, handle: int) -> None:
        self.members[handle].is_aborted = True

    def check(self, result: int, handle: int | None) -> None:
        if result not in (SUCCESS, IN_PROGRESS):
            raise CommunicationError(f"NCCL: error {result}")

    # -- collectives

    def all_reduce(self, device: Any, handle: int, address: int, count: int, dtype: int, operation: int) -> int:
        def finish(parts: list[Array]) -> None:
            _write(device, address, _BY_NUMBER[dtype], _COMBINE[operation](parts, axis=0))

        return self._start("all_reduce", device, handle, address, count, dtype, operation, finish)

    def reduce_scatter(
        self, device: Any, handle: int, source: int, target: int, count: int, dtype: int, operation: int
    ) -> int:
        member = self.members[handle]

        def finish(parts: list[Array]) -> None:
            total = _COMBINE[operation](parts, axis=0)
            _write(device, target, _BY_NUMBER[dtype], total[member.rank * count : (member.rank + 1) * count])

        every = count * member.group.size
        return self._start("reduce_scatter", device, handle, source, every, dtype, operation, finish)

    def all_gather(self, device: Any, handle: int, source: int, target: int, count: int, dtype: int) -> int:
        def finish(parts: list[Array]) -> None:
            _write(device, target, _BY_NUMBER[dtype], np.concatenate(parts))

        return self._start("all_gather", device, handle, source, count, dtype, 0, finish)

    def broadcast(self, device: Any, handle: int, address: int, count: int, dtype: int, root: int) -> int:
        def finish(parts: list[Array]) -> None:
            _write(device, address, _BY_NUMBER[dtype], parts[root])

        return self._start("broadcast", device, handle, address, count, dtype, root, finish)

    def _start(
        self, name: str, device: Any, handle: int, source: int, count: int, dtype: int, kind: int, finish: Any
    ) -> int:
        device.synchronise()
        values = _read(device, source, _BY_NUMBER[dtype], count)
        with self._lock:
            member = self.members[handle]
            self.calls.append(name)
            begun = member.group.begun.setdefault(member.number, {})
            begun[member.rank] = (name, count, dtype, kind), values
            member.unfinished.append((member.number, finish))
            member.number += 1
        return SUCCESS


def _read(device: Any, address: int, dtype: DType, count: int) -> Array:
    memory = device.memory.bytes_at(address, count * dtype.itemsize).view(dtype.memory)
    return elements(memory.copy(), dtype)


def _write(device: Any, address: int, dtype: DType, values: Array) -> None:
    memory = np.ascontiguousarray(as_memory(values, dtype), dtype.memory)
    device.memory.store(address, memory.view(np.uint8))
