"""Pinned memory of the host, through which a device exchanges bytes with other memory of the host.

A device copies from and to pinned memory while the host goes on. It cannot do so with other memory, which can move: a
driver would first wait for the stream. So bytes pass through blocks of pinned memory, each with the event after which
it is free again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..ir.locks import ForkSafeLock
from .streams import Event, Stream

if TYPE_CHECKING:
    import numpy.typing as npt

    Bytes = npt.NDArray[Any]

SMALL, LARGE = 4 << 10, 1 << 20
"""The sizes of blocks: for numbers and keys, and for parts of arrays."""

_MOST = {SMALL: 256, LARGE: 32}  # blocks of each size that copies use; the host waits for the oldest of them


class Staging:
    """The blocks of one device. `pinned` allocates memory that stays at its place."""

    def __init__(self, pinned: Callable[[int], Bytes]) -> None:
        self._pinned = pinned
        self._used: dict[int, deque[tuple[Event, Bytes]]] = {SMALL: deque(), LARGE: deque()}  # oldest first
        self._lock = ForkSafeLock()

    def upload(self, stream: Stream, target: int, content: Bytes) -> None:
        """Start copies of `content`, one-dimensional bytes, which can change as soon as this returns."""
        for begin in range(0, content.size, LARGE):
            part = content[begin : begin + LARGE]
            size, block = self._take(part.size)
            block[: part.size] = part
            stream.upload(target + begin, block[: part.size])
            self._used[size].append((stream.record(), block))

    def download(self, stream: Stream, into: Bytes, source: int) -> None:
        """Fill `into`, one-dimensional bytes, from the device. One part is copied out of its block while the device
        copies the next."""
        before: Callable[[], None] | None = None
        for begin in range(0, into.size, LARGE):
            after = self._start(stream, into[begin : begin + LARGE], source + begin)
            if before is not None:
                before()
            before = after
        if before is not None:
            before()

    def _start(self, stream: Stream, into: Bytes, source: int) -> Callable[[], None]:
        """Start the copy of a part; returns the function that waits for it."""
        size, block = self._take(into.size)
        stream.download(block[: into.size], source)
        event = stream.record()

        def finish() -> None:
            event.synchronise()
            into[:] = block[: into.size]
            self._used[size].appendleft((event, block))

        return finish

    def _take(self, nbytes: int) -> tuple[int, Bytes]:
        """(its size, a block that no copy uses)."""
        size = SMALL if nbytes <= SMALL else LARGE
        used = self._used[size]
        with self._lock:
            oldest = used.popleft() if used and (len(used) >= _MOST[size] or used[0][0].is_reached()) else None
        if oldest is None:
            return size, self._pinned(size)
        event, block = oldest
        event.synchronise()
        return size, block
