"""The stream of a GPU, and its events."""

from __future__ import annotations

import sys
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.locks import ForkSafeLock
from .driver import NOT_READY
from .launches import Launches

if TYPE_CHECKING:
    import numpy.typing as npt

    from ..launch_list import LaunchList
    from .device import CudaDevice

    Bytes = npt.NDArray[Any]

_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING: independent of the default stream, which other libraries can use
_TIMING, _NO_TIMING = 0, 2  # CU_EVENT_DEFAULT, CU_EVENT_DISABLE_TIMING
_REMEMBERED = 16  # programs that an error can name


class CudaEvent:
    """Implements `Event`. Its handle is used again."""

    __slots__ = ("_device", "handle")

    def __init__(self, device: CudaDevice, handle: Any) -> None:
        self._device, self.handle = device, handle

    def is_reached(self) -> bool:
        """See `Event`."""
        device = self._device
        device.enter()
        result = device.driver.cuEventQuery(self.handle)
        if result[0] == NOT_READY:
            return False
        device.check(result)
        return True

    def synchronise(self) -> None:
        """See `Event`."""
        self._device.call("cuEventSynchronize", self.handle)

    def __del__(self) -> None:
        self._device.idle_events.append(self.handle)


class CudaStream:
    """Implements `Stream`. `recent` are the names of the programs that were started last, since a synchronisation."""

    def __init__(self, device: CudaDevice) -> None:
        self._device, self.driver = device, device.driver
        self.handle = device.call("cuStreamCreate", _NON_BLOCKING)
        self.recent: deque[str] = deque(maxlen=_REMEMBERED)
        self._running = ForkSafeLock()  # no other list is started between the launches of a list

    def upload(self, target: int, source: Bytes) -> None:
        """See `Stream`."""
        self._device.call("cuMemcpyHtoDAsync", target, _address(source), source.nbytes, self.handle)

    def download(self, into: Bytes, source: int) -> None:
        """See `Stream`."""
        self._device.call("cuMemcpyDtoHAsync", _address(into), source, into.nbytes, self.handle)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """See `Stream`."""
        if nbytes:
            self._device.call("cuMemcpyDtoDAsync", target, source, nbytes, self.handle)

    def copy_to(self, peer: Any, target: int, source: int, nbytes: int) -> None:
        """See `Stream`. The driver copies through memory of the host where GPUs cannot access each other."""
        if nbytes:
            here = self._device
            here.call("cuMemcpyPeerAsync", target, peer.context, source, here.context, nbytes, self.handle)

    def clear(self, target: int, nbytes: int) -> None:
        """See `Stream`."""
        if nbytes:
            self._device.call("cuMemsetD8Async", target, 0, nbytes, self.handle)

    def fill(self, target: int, element: bytes, count: int) -> None:
        """See `Stream`. The driver fills with words of up to 4 bytes: the halves of 8 bytes are two fills."""
        if not count:
            return
        size, numbers = len(element), np.frombuffer(element, np.uint32) if len(element) == 8 else None
        if len({*element}) == 1:
            self._device.call("cuMemsetD8Async", target, element[0], size * count, self.handle)
        elif numbers is None:
            function = {2: "cuMemsetD16Async", 4: "cuMemsetD32Async"}[size]
            self._device.call(function, target, int.from_bytes(element, sys.byteorder), count, self.handle)
        else:
            for at, number in zip((target, target + 4), numbers.tolist(), strict=True):
                self._device.call("cuMemsetD2D32Async", at, size, number, 1, count, self.handle)

    def run(self, launches: LaunchList) -> None:
        """See `Stream`."""
        kept = self._kept(launches)
        with self._running:
            kept.run()

    def time(self, launches: LaunchList) -> list[float]:
        """See `Stream`."""
        kept = self._kept(launches)
        events = [self._device.call("cuEventCreate", _TIMING) for _ in range(len(launches.launches) + 1)]
        try:
            with self._running:
                kept.run_one_by_one(lambda number: self._device.call("cuEventRecord", events[number], self.handle))
            self.synchronise()
            first, *others = events
            return [1e-3 * self._device.call("cuEventElapsedTime", first, event) for event in others]
        finally:
            self._device.unused += [("cuEventDestroy", event) for event in events]

    def _kept(self, launches: LaunchList) -> Launches:
        """The launches of a list, which is about to run."""
        self._device.enter()
        self.recent.append(launches.program.name)
        kept: Launches | None = launches.kept
        if kept is None:
            kept = launches.kept = Launches(self._device, self.handle, launches)
        return kept

    def record(self) -> CudaEvent:
        """See `Stream`."""
        device = self._device
        try:
            handle = device.idle_events.pop()
        except IndexError:
            handle = device.call("cuEventCreate", _NO_TIMING)
        event = CudaEvent(device, handle)
        device.call("cuEventRecord", handle, self.handle)
        return event

    def wait(self, event: CudaEvent) -> None:
        """See `Stream`."""
        self._device.call("cuStreamWaitEvent", self.handle, event.handle, 0)

    def synchronise(self) -> None:
        """See `Stream`. Then what no work uses any more is destroyed."""
        unused = self._device.take_unused()
        self._device.call("cuStreamSynchronize", self.handle)
        self.recent.clear()
        for name, handle in unused:
            self._device.call(name, handle)


def _address(content: Bytes) -> int:
    return content.__array_interface__["data"][0]
