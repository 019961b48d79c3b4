"""Groups whose members combine values: what `Collective` steps call. The members of a `ThreadGroup` are threads.

A thread has one communicator, which its programs use; by default it is the only member of its group.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from ..ir.types import DType
from .tensor_memory import as_memory, elements, memory_at

Array = np.ndarray[Any, Any]

_REDUCE: dict[str, Callable[[Sequence[Array]], Array]] = {
    "sum": lambda parts: _in_order(np.add, parts),
    "mean": lambda parts: _in_order(np.add, parts) / len(parts),
    "max": lambda parts: _in_order(np.maximum, parts),
    "min": lambda parts: _in_order(np.minimum, parts),
}


class CommunicationError(RuntimeError):
    """A member of a group failed, or did not take part in a collective."""


class Communicator(Protocol):
    """A member of a group."""

    @property
    def size(self) -> int:
        """The number of members."""
        ...

    def all_reduce(self, operation: str, values: Array) -> Array:
        """The combination of the values of all members by one of `REDUCTIONS` (`ir/steps.py`); all get the same bits.
        CommunicationError if a member does not come, or comes with another operation, dtype or shape."""
        ...


class Alone:
    """The only member of a group."""

    size = 1

    def all_reduce(self, operation: str, values: Array) -> Array:
        """See `Communicator`."""
        return values


class ThreadGroup:
    """A group whose members are threads of this process. Collectives wait for all members; if one does not come within
    `timeout` seconds, all raise CommunicationError."""

    def __init__(self, size: int, timeout: float = 60.0) -> None:
        self._barrier = threading.Barrier(size, timeout=timeout)
        self._parts: list[tuple[str, Array] | None] = [None] * size

    def member(self, rank: int) -> Communicator:
        """The member with this number."""
        return _Member(self, rank)

    def all_reduce(self, rank: int, operation: str, values: Array) -> Array:
        """See `Communicator`; called by each member."""
        self._parts[rank] = operation, values
        self._wait()
        parts = [part for part in self._parts if part is not None]
        collectives = {f"{name} of {array.dtype} {array.shape}" for name, array in parts}
        combined = _REDUCE[operation]([array for _, array in parts]) if len(collectives) == 1 else None
        self._wait()  # no member changes its values before all have read them
        if combined is None:
            raise CommunicationError(f"members take different collectives: {', '.join(sorted(collectives))}")
        return combined.astype(values.dtype, copy=False)

    @property
    def size(self) -> int:
        return len(self._parts)

    def _wait(self) -> None:
        try:
            self._barrier.wait()
        except threading.BrokenBarrierError:
            raise CommunicationError(f"one of {self.size} members did not take part in a collective") from None


class _Member:
    def __init__(self, group: ThreadGroup, rank: int) -> None:
        self.group, self.rank = group, rank
        self.size = group.size

    def all_reduce(self, operation: str, values: Array) -> Array:
        return self.group.all_reduce(self.rank, operation, values)


class _Current(threading.local):
    communicator: Communicator = Alone()


_current = _Current()


@contextmanager
def communicating(communicator: Communicator) -> Generator[None]:
    """Let the programs of this thread use a communicator."""
    before, _current.communicator = _current.communicator, communicator
    try:
        yield
    finally:
        _current.communicator = before


def combine_at(target: int, source: int, operation: str, dtype: DType, count: int) -> None:
    """Take a `Collective` step on values in the host's memory."""
    combined = combine(operation, dtype, memory_at(source, (count,), dtype))
    memory_at(target, (count,), dtype)[...] = combined


def combine(operation: str, dtype: DType, memory: Array) -> Array:
    """The combination of values with those of the other members, both as they are in memory. BF16 is combined as
    float32."""
    return as_memory(_current.communicator.all_reduce(operation, elements(memory, dtype)), dtype)


def _in_order(combine: np.ufunc, parts: Sequence[Array]) -> Array:
    """The parts combined one after another, so that the result does not depend on when members come."""
    result = parts[0]
    for part in parts[1:]:
        result = combine(result, part)
    return result
