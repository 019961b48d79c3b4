"""The host as a device: its memory is the memory of the process, its programs are native code."""

from __future__ import annotations

import ctypes
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...ir.settings import settings
from ..storage import Storage, allocate, statistics
from .machine import host_target, physical_memory
from .tuning import tuned_target

if TYPE_CHECKING:
    import numpy.typing as npt

    from ...codegen.llvm.target import CpuTarget
    from ...ir.program import Program
    from ..device import Runnable


class HostDevice:
    """The host; implements `Device`. Calls are synchronous."""

    name = "cpu"
    _chosen: CpuTarget | None = None

    @property
    def target(self) -> CpuTarget:
        """The target of this machine, or of the processor that MXFORGE_CPU names, with its tuned schedules."""
        if self._chosen is not None:
            return self._chosen
        chosen = settings()
        return _target(chosen.cpu, chosen.num_threads, chosen.tuning)

    @contextmanager
    def compiling_for(self, target: CpuTarget) -> Generator[None]:
        """Compile programs in the body for a target whose code this machine can run. Programs that are known already
        keep theirs."""
        before, self._chosen = self._chosen, target
        try:
            yield
        finally:
            self._chosen = before

    def refresh(self) -> None:
        """Read the target again when it is next used: its tuned schedules have changed."""
        _target.cache_clear()

    def allocate(self, nbytes: int) -> Storage:
        return allocate(nbytes)

    def write(self, address: int, source: npt.NDArray[Any] | bytes) -> None:
        if isinstance(source, bytes):
            ctypes.memmove(address, source, len(source))
        else:
            ctypes.memmove(address, source.ctypes.data, source.nbytes)

    def read(self, address: int, into: npt.NDArray[Any]) -> None:
        ctypes.memmove(into.ctypes.data, address, into.nbytes)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        ctypes.memmove(target, source, nbytes)

    def load(self, program: Program) -> Runnable:
        from .executable import Executable

        return Executable(program)

    def synchronise(self) -> None:
        pass

    def memory_info(self) -> tuple[int, int]:
        total = physical_memory()
        return total - statistics().in_use, total


@cache
def _target(cpu: str, threads: int, tuning: Path | None) -> CpuTarget:
    """The target for these settings."""
    return tuned_target(host_target())


HOST = HostDevice()
Storage.device = HOST
