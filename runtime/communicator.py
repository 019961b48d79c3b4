"""Groups whose members combine values: what `Collective` steps call. The members of a `ThreadGroup` are threads.

A thread has one communicator, which its programs use; by default it is the only member of its group. With `starting`
collectives only begin in the program, and end later (`runtime/exchange.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Any, Protocol

import numpy as np

from ..ir.group import group
from ..ir.types import DType
from .tensor_memory import as_memory, elements, memory_at

Array = np.ndarray[Any, Any]
_Letters = SimpleQueue[tuple[int, list[int], Array]]

_REDUCE: dict[str, Callable[[Sequence[Array]], Array]] = {
    "sum": lambda parts: _in_order(np.add, parts),
    "mean": lambda parts: _in_order(np.add, parts) / len(parts),
    "max": lambda parts: _in_order(np.maximum, parts),
    "min": lambda parts: _in_order(np.minimum, parts),
}


class CommunicationError(RuntimeError):
    """A member of a group failed, or did not take part in a collective."""


class Communicator(Protocol):
    """A member of a group. Each method is a collective: all members call the same methods in the same order, from one
    thread each. CommunicationError if a member does not come in time, or comes with other arguments."""

    @property
    def size(self) -> int:
        """The number of members."""
        ...

    @property
    def rank(self) -> int:
        """The number of this member, from 0 on."""
        ...

    def all_reduce(self, operation: str, values: Array, *, overwrites: bool = False) -> Array:
        """The combination of the values of all members by one of `REDUCTIONS` (`ir/steps.py`); all get the same bits.
        With `overwrites` it can be in the memory of `values`, which must be contiguous."""
        ...

    def reduce_scatter(self, operation: str, values: Array) -> Array:
        """This member's part of the combination of the values of all members: `part_of(len(values), size, rank)`."""
        ...

    def broadcast(self, values: Array, root: int = 0) -> Array:
        """The values of the member `root`; all members pass arrays of one dtype and shape."""
        ...

    def all_gather(self, values: Array) -> list[Array]:
        """The values of all members, by rank: arrays of one dtype, which differ in their first extent at most."""
        ...

    def barrier(self) -> None:
        """Return when all members have called it."""
        ...

    def on_this_machine(self) -> tuple[int, int]:
        """The number of this member among those on its machine, and how many they are."""
        ...

    def duplicate(self) -> Communicator:
        """This member in a new group of the same members, for another thread."""
        ...

    def mailbox(self) -> Mailbox:
        """A new way to send messages to single members. All members call it in the same order."""
        ...


class DeviceCommunicator(Protocol):
    """A member of a group as it combines the memory of its device, without the host. Each method but `wait` is a
    collective, which starts work on the device's stream and returns; addresses are in the memory of the device."""

    def all_reduce(self, operation: str, address: int, dtype: DType, count: int) -> None:
        """Combine the elements of all members in place."""
        ...

    def reduce_scatter(self, operation: str, source: int, target: int, dtype: DType, count: int) -> None:
        """Combine the elements of all members; this one gets `count` of them, from `rank * count` on."""
        ...

    def all_gather(self, source: int, target: int, dtype: DType, count: int) -> None:
        """Write the `count` elements of each member one after another, by rank."""
        ...

    def broadcast(self, address: int, dtype: DType, count: int, root: int = 0) -> None:
        """Replace elements by those of the member `root`."""
        ...

    def wait(self) -> None:
        """Wait until the work that was started has finished. CommunicationError if it fails, or at the deadline; the
        group is not used any more then."""
        ...


class Mailbox(Protocol):
    """Messages between two members, which arrive in the order in which they were sent. Any thread can send; one
    receives. A member can send to itself."""

    def send(self, to: int, header: Sequence[int], content: Array) -> None:
        """Send four numbers and the bytes of an array, and return at once."""
        ...

    def receive(self) -> tuple[int, list[int], Array] | None:
        """The sender of a message, its numbers and its bytes; None if no message has come."""
        ...


def part_of(length: int, size: int, rank: int) -> slice:
    """The part of a member if an extent of this length is divided as evenly as possible."""
    return slice(rank * length // size, (rank + 1) * length // size)


class Alone:
    """The only member of a group."""

    size, rank = 1, 0

    def all_reduce(self, operation: str, values: Array, *, overwrites: bool = False) -> Array:
        """See `Communicator`."""
        return values

    def reduce_scatter(self, operation: str, values: Array) -> Array:
        """See `Communicator`."""
        return values

    def broadcast(self, values: Array, root: int = 0) -> Array:
        """See `Communicator`."""
        return values

    def all_gather(self, values: Array) -> list[Array]:
        """See `Communicator`."""
        return [values]

    def barrier(self) -> None:
        """See `Communicator`."""

    def on_this_machine(self) -> tuple[int, int]:
        """See `Communicator`."""
        return 0, 1

    def duplicate(self) -> Communicator:
        """See `Communicator`."""
        return self

    def mailbox(self) -> Mailbox:
        """See `Communicator`."""
        return _Messages(0, [SimpleQueue()])


class ThreadGroup:
    """A group whose members are threads of this process. Collectives wait for all members; if one does not come within
    `timeout` seconds, all raise CommunicationError."""

    def __init__(self, size: int, timeout: float = 60.0) -> None:
        self._barrier = threading.Barrier(size, timeout=timeout)
        self._parts: list[tuple[str, Array] | None] = [None] * size
        self._timeout = timeout
        self._duplicates: list[ThreadGroup] = []
        self.letters: list[_Letters] = [SimpleQueue() for _ in range(size)]
        self._adding = threading.Lock()

    def member(self, rank: int) -> Communicator:
        """The member with this number."""
        return _Member(self, rank)

    def exchange(self, rank: int, collective: str, values: Array) -> list[Array]:
        """The values of all members, which all call the same collective. Called by each member."""
        self._parts[rank] = collective, values.copy()  # a member can change its values before the others read them
        self._wait()
        parts = [part for part in self._parts if part is not None]
        self._wait()
        collectives = {name for name, _ in parts}
        if len(collectives) > 1:
            raise CommunicationError(f"members take different collectives: {', '.join(sorted(collectives))}")
        return [array for _, array in parts]

    def duplicate(self, number: int) -> ThreadGroup:
        """The group that the members make when they duplicate themselves for this time, from 0 on."""
        with self._adding:
            while len(self._duplicates) <= number:
                self._duplicates.append(ThreadGroup(self.size, self._timeout))
        return self._duplicates[number]

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
        self._duplicates = 0

    def all_reduce(self, operation: str, values: Array, *, overwrites: bool = False) -> Array:
        parts = self.group.exchange(self.rank, f"{operation} of {values.dtype} {values.shape}", values)
        return _REDUCE[operation](parts).astype(values.dtype, copy=False)

    def reduce_scatter(self, operation: str, values: Array) -> Array:
        return self.all_reduce(operation, values)[part_of(len(values), self.size, self.rank)]

    def broadcast(self, values: Array, root: int = 0) -> Array:
        return self.group.exchange(self.rank, f"broadcast {root} of {values.dtype} {values.shape}", values)[root]

    def all_gather(self, values: Array) -> list[Array]:
        return self.group.exchange(self.rank, f"gathering of {values.dtype} (..., {values.shape[1:]})", values)

    def barrier(self) -> None:
        self.group.exchange(self.rank, "barrier", np.empty(0))

    def on_this_machine(self) -> tuple[int, int]:
        return self.rank, self.size

    def duplicate(self) -> Communicator:
        self._duplicates += 1
        return self.group.duplicate(self._duplicates - 1).member(self.rank)

    def mailbox(self) -> Mailbox:
        self._duplicates += 1
        return _Messages(self.rank, self.group.duplicate(self._duplicates - 1).letters)


class _Messages:
    """The mailbox of a thread: each member has a queue."""

    def __init__(self, rank: int, letters: list[_Letters]) -> None:
        self._rank, self._letters = rank, letters

    def send(self, to: int, header: Sequence[int], content: Array) -> None:
        self._letters[to].put((self._rank, list(header), content.reshape(-1).view(np.uint8).copy()))

    def receive(self) -> tuple[int, list[int], Array] | None:
        try:
            return self._letters[self._rank].get_nowait()
        except Empty:
            return None


class _Default:
    """The group of the threads that did not choose one."""

    def __init__(self) -> None:
        self.communicator: Communicator = Alone()


default = _Default()


class _Current(threading.local):
    communicator: Communicator | None = None
    start: Callable[[Array], None] | None = None


_current = _Current()


def current() -> Communicator:
    """The communicator that this thread's programs use."""
    return _current.communicator or default.communicator


def _add(values: Array, members: int) -> Array:
    """See `Group.add`."""
    workers = current()
    if workers.size != members:
        raise CommunicationError(
            f"statistics over {members} workers, each with one device, in a job of {workers.size}: start it by "
            f"`mxforge launch -n {members}`, or set ndev (num_devices) to {workers.size}"
        )
    return workers.all_reduce("sum", values, overwrites=True)


group.add = _add


@contextmanager
def communicating(communicator: Communicator) -> Generator[None]:
    """Let the programs of this thread use a communicator."""
    before, _current.communicator = _current.communicator, communicator
    try:
        yield
    finally:
        _current.communicator = before


@contextmanager
def starting(start: Callable[[Array], None]) -> Generator[None]:
    """Let collectives of this thread's programs only begin: `start` gets their values, and their targets do not change.
    BF16 is passed as float32."""
    before, _current.start = _current.start, start
    try:
        yield
    finally:
        _current.start = before


def combine_at(target: int, source: int, operation: str, dtype: DType, count: int) -> None:
    """Take a `Collective` step on values in the host's memory."""
    combined = combine(operation, dtype, memory_at(source, (count,), dtype))
    if combined is not None:
        memory_at(target, (count,), dtype)[...] = combined


def combine(operation: str, dtype: DType, memory: Array) -> Array | None:
    """The combination of values with those of the other members, both as they are in memory; None if it only begins.
    BF16 is combined as float32."""
    if _current.start is not None:
        _current.start(memory if dtype is not DType.BF16 else elements(memory, dtype))
        return None
    return as_memory(current().all_reduce(operation, elements(memory, dtype)), dtype)


def _in_order(combine: np.ufunc, parts: Sequence[Array]) -> Array:
    """The parts combined one after another, so that the result does not depend on when members come."""
    result = parts[0]
    for part in parts[1:]:
        result = combine(result, part)
    return result
