"""The interface of a stream: the queue of a device that works asynchronously.

    Stream   starts work, which is done in the order in which it was started
    Event    a point in the work of a stream, for which the host or another stream can wait

All programs and copies of a device share one stream (`streamed_device.py`), so its work needs no other order. Events
order the streams of several devices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy.typing as npt

    from .device import Device
    from .launch_list import LaunchList

    Bytes = npt.NDArray[Any]


class Event(Protocol):
    """It is reached when all work that the stream was given before has finished."""

    def is_reached(self) -> bool:
        """True if it is reached; does not wait."""
        ...

    def synchronise(self) -> None:
        """Let the host wait until it is reached. Raises as `Stream.synchronise`."""
        ...


class Stream(Protocol):
    """Work of one device. Calls start work and return; threads can call them at the same time.

    Addresses are integers in the memory of the device. A call can raise the error of work that was started earlier.
    """

    def upload(self, target: int, source: Bytes) -> None:
        """Copy pinned memory of the host to `target`. The memory must not change until the copy has finished."""
        ...

    def download(self, into: Bytes, source: int) -> None:
        """Copy from `source` to pinned memory of the host, which has the bytes when the copy has finished."""
        ...

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy within the device's memory."""
        ...

    def copy_to(self, peer: Device, target: int, source: int, nbytes: int) -> None:
        """Copy to the memory of another device of this kind, not through memory of the host where the hardware can."""
        ...

    def clear(self, target: int, nbytes: int) -> None:
        """Write zeros."""
        ...

    def fill(self, target: int, element: bytes, count: int) -> None:
        """Write `count` copies of an element of 1, 2, 4 or 8 bytes."""
        ...

    def run(self, launches: LaunchList) -> None:
        """See `Launcher.run`."""
        ...

    def time(self, launches: LaunchList) -> list[float]:
        """Run launches one by one and wait for them: the end of each, in seconds since the first one began."""
        ...

    def record(self) -> Event:
        """An event after all work that was started so far."""
        ...

    def wait(self, event: Any) -> None:
        """Let work that is started from now on wait for an event of this stream, or of another stream of its class. The
        host does not wait."""
        ...

    def synchronise(self) -> None:
        """Let the host wait until all work has finished. Work that failed since the last synchronisation raises the
        error of `errors.device_failed`, which names the program, and the kernel if the device knows it; what later work
        computed is undefined."""
        ...
