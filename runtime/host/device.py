"""The host as a device: its memory is the memory of the process, its programs are native code."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...ir.settings import settings
from ..memory_limit import physical_memory
from ..storage import LARGE
from . import allocator
from .machine import cpu_flags, host_target
from .tuning import tuned_target

if TYPE_CHECKING:
    import numpy.typing as npt

    from ...codegen.llvm.target import CpuTarget
    from ...ir.program import Program
    from ..device import Numbers, OpenProgram
    from ..prepared import PreparedPool
    from .executable import Executable, Listener
    from .kernel_library import KernelLibrary


COMPILED = ("cpu", "mlir")
"""The targets of the settings for which the host compiles programs; it can also interpret graphs."""


class HostDevice:
    """The host; implements `Device`. Calls are synchronous."""

    name = "cpu"
    stream = None
    allocate = staticmethod(allocator.allocate)
    allocate_zeroed = staticmethod(allocator.allocate_zeroed)
    _chosen: CpuTarget | None = None

    @property
    def target(self) -> CpuTarget:
        """The target of this machine, or of the processor that MXFORGE_CPU names, with its tuned schedules."""
        if self._chosen is not None:
            return self._chosen
        chosen = settings()
        return _target(chosen.target, chosen.cpu, chosen.num_threads, chosen.tuning)

    @contextmanager
    def compiling_for(self, target: CpuTarget) -> Generator[None]:
        """Compile programs in the body for a target whose code this machine can run, and use at most its threads.
        Programs that are known already keep theirs."""
        from .threads import get_pool

        pool = get_pool()
        before, threads = self._chosen, pool.threads
        pool.resize(min(threads, target.threads))
        self._chosen = target
        try:
            yield
        finally:
            self._chosen = before
            pool.resize(threads)

    def refresh(self) -> None:
        """Read the target again when it is next used: its tuned schedules have changed."""
        _target.cache_clear()

    def write(self, address: int, source: npt.NDArray[Any] | bytes) -> None:
        if isinstance(source, bytes):
            ctypes.memmove(address, source, len(source))
        else:
            ctypes.memmove(address, source.ctypes.data, source.nbytes)

    def read(self, address: int, into: npt.NDArray[Any]) -> None:
        ctypes.memmove(into.ctypes.data, address, into.nbytes)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        if nbytes < LARGE or abs(target - source) < nbytes:
            ctypes.memmove(target, source, nbytes)
            return
        from .threads import get_pool

        get_pool().copy(target, source, nbytes)

    def clear(self, address: int, nbytes: int) -> None:
        ctypes.memset(address, 0, nbytes)

    def fill(self, address: int, element: bytes, count: int) -> None:
        ctypes.memmove(address, element * count, len(element) * count)

    def load(self, program: Program, prepared: PreparedPool | None = None) -> Executable:
        from .executable import Executable

        return Executable(program, prepared)

    def open(self, columns: Program, built: Callable[[Numbers], Program]) -> OpenProgram | None:
        from .open_program import OpenExecutable, can_be_open

        return OpenExecutable(columns, built) if can_be_open(columns) else None

    def synchronise(self) -> None:
        pass

    def memory_info(self) -> tuple[int, int]:
        total = physical_memory()
        return total - allocator.statistics().in_use, total

    # -- what only the host has

    release_cached = staticmethod(allocator.release_cached)

    def kernel_library(self) -> KernelLibrary:
        """The kernels that the package has for the target."""
        from .kernel_library import library_name, read_library

        return read_library(library_name(self.target))

    def shares_groups(self, program: Program) -> bool:
        """True if threads share groups of launches."""
        from .executable import shares_groups

        return shares_groups(program)

    @property
    def flags(self) -> frozenset[str]:
        """The instruction sets of the processor, as /proc/cpuinfo spells them."""
        return cpu_flags()

    @property
    def threads(self) -> int:
        """The number of threads that kernels use."""
        from .threads import get_pool

        return get_pool().threads

    def use_threads(self, threads: int) -> None:
        """Use `threads` threads for kernels. ValueError for more than the process started with (MXFORGE_NUM_THREADS,
        else its cores), for which programs reserve memory."""
        from .threads import set_num_threads

        set_num_threads(threads)

    def requirements(self) -> dict[str, Any]:
        """See `requirements.requirements`: what programs for the target require of a machine."""
        from .requirements import requirements

        return requirements(self.target)

    def meet(self, required: Mapping[str, Any]) -> None:
        """See `requirements.meet`."""
        from .requirements import meet

        meet(required)

    def target_for(self, threads: int | None = None) -> CpuTarget:
        """The target of this machine without tuned schedules, for its own number of threads or another."""
        return host_target(threads)

    def listen(self, listener: Listener | None) -> None:
        """See `executable.listen`."""
        from .executable import listen

        listen(listener)


@cache
def _target(target: str, cpu: str, threads: int, tuning: Path | None) -> CpuTarget:
    """The target for these settings."""
    if target == "mlir":
        from ...codegen.mlir.target import MlirTarget

        return MlirTarget.of(host_target())
    return tuned_target(host_target())
