"""The base class of devices that work asynchronously: everything is in order on one stream.

A subclass has the target and the memory of its devices, loads code, and has a class of streams. Memory is reused in
the order of the stream: a block that was freed can serve the next request at once, because work on its new content is
started later than work on the old one. So a run can drop its buffers as soon as its launches are started.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .device import Address, DeviceAddress, DeviceError, Numbers
from .launched_program import LaunchedProgram
from .staging import Staging
from .storage import Storage, size_of_block

if TYPE_CHECKING:
    import numpy.typing as npt

    from ..codegen.target import Target
    from ..ir.program import Program
    from .prepared import PreparedPool
    from .streams import Stream


class StreamedDevice(ABC):
    """A device whose work is done on `stream`; implements `Launcher`."""

    def __init__(self, name: str, stream: Stream) -> None:
        self.name, self.stream = name, stream
        self.run = stream.run
        self._staging = Staging(self.pinned)
        self._scratch: Storage | None = None

    # -- what a kind of devices has

    @property
    @abstractmethod
    def target(self) -> Target: ...

    @abstractmethod
    def allocate(self, nbytes: int) -> Storage:
        """See `Device`. The buffer is used on `stream`. A finalizer frees it, in any thread and while any other code
        runs: it only appends to a list or to the work of the stream."""

    @abstractmethod
    def pinned(self, nbytes: int) -> npt.NDArray[Any]:
        """Bytes in memory of the host that the device can access while the host goes on."""

    @abstractmethod
    def load_code(self, code: bytes) -> Mapping[str, Any]:
        """See `Launcher`."""

    @abstractmethod
    def memory_info(self) -> tuple[int, int]:
        """See `Device`."""

    @abstractmethod
    def release_cached(self) -> None:
        """Return memory that the device keeps for later requests to the system."""

    # -- what all have

    def allocate_zeroed(self, nbytes: int) -> Storage:
        """See `Device`."""
        buffer = self.allocate(nbytes)
        self.stream.clear(buffer.address.value, nbytes)
        return buffer

    def scratch(self, nbytes: int) -> Storage:
        """See `Launcher`. A larger buffer replaces a smaller one, which the programs that have it keep."""
        if self._scratch is None or self._scratch.nbytes < nbytes:
            self._scratch = self.allocate(size_of_block(nbytes))
        return self._scratch

    def write(self, address: Address, source: npt.NDArray[Any] | bytes) -> None:
        """See `Device`. Does not wait for the stream."""
        self._staging.upload(self.stream, self._own(address), _bytes(source))

    def read(self, address: Address, into: npt.NDArray[Any]) -> None:
        """See `Device`."""
        self._staging.download(self.stream, _bytes(into), self._own(address))

    def copy(self, target: Address, source: Address, nbytes: int) -> None:
        """See `Device`."""
        self.stream.copy(self._own(target), self._own(source), nbytes)

    def clear(self, address: Address, nbytes: int) -> None:
        """See `Device`."""
        self.stream.clear(self._own(address), nbytes)

    def fill(self, address: Address, element: bytes, count: int) -> None:
        """See `Device`."""
        self.stream.fill(self._own(address), element, count)

    def open(self, columns: Program, built: Callable[[Numbers], Program]) -> None:
        """Returns None: a program is loaded for each shape, and its lists of launches are replayed as graphs."""
        return

    def load(self, program: Program, prepared: PreparedPool | None = None) -> LaunchedProgram:
        """See `Device`."""
        return LaunchedProgram(program, self, prepared)

    def synchronise(self) -> None:
        """See `Device`."""
        self.stream.synchronise()

    def _own(self, address: Address) -> int:
        if not isinstance(address, DeviceAddress) or address.device != self.name:
            raise DeviceError(f"{address} is not an address of {self.name}")
        return address.value


def _bytes(content: npt.NDArray[Any] | bytes) -> npt.NDArray[Any]:
    """The memory of a C-contiguous array, or bytes, as an array of bytes."""
    assert isinstance(content, bytes) or content.flags.c_contiguous
    return np.frombuffer(content, np.uint8) if isinstance(content, bytes) else content.reshape(-1).view(np.uint8)
