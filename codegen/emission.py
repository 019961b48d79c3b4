"""What an emitter hands to the driver for one kernel: symbols to launch, memory it needs, and forms it wants its
operands in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ..ir.target import CpuTarget
from .llvm.emitter import ModuleBuilder


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """`symbol` is a function `void(ptr arguments, i64 begin, i64 end, i32 worker)` over [0, count); see
    runtime/threads. `kind` is set where it is not that of the kernel; see `Launch`. `numbers` are further arguments of
    this launch, behind the workspace.
    """

    symbol: str
    count: int
    grain: int
    kind: str = ""
    numbers: tuple[int, ...] = ()


class Packing(Protocol):
    """A form in which an operand is stored for speed, computed once for parameters and on every run for other values.

    Implementations are frozen and compared by value. `emit` adds to the module a kernel whose arguments are
    (source, packed).
    """

    @property
    def nbytes(self) -> int:
        """Bytes of the packed operand; its memory is zeroed before the first packing."""
        ...

    def emit(self, module: ModuleBuilder, target: CpuTarget, symbol: str) -> LaunchSpec: ...


@dataclass(frozen=True, slots=True)
class Emission:
    """The launches of one kernel, in order, each with the kernel's buffers as arguments, then extents, then the
    workspace if there is one.

    `workspace` is in bytes, for the whole kernel (an emitter that wants one per worker multiplies by the target's
    threads).
    `packings` pairs positions of buffers with the form in which the kernel reads them: equal kernels share an emission,
    and the names of their buffers may differ.
    `fallback`: why a contraction runs as plain loops.
    """

    launches: tuple[LaunchSpec, ...]
    workspace: int = 0
    packings: tuple[tuple[int, Packing], ...] = ()
    fallback: str = ""
