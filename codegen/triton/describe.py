"""Programs for GPUs whose kernels are described and not compiled: what reports without a GPU are made from."""

from __future__ import annotations

from dataclasses import astuple, field
from typing import TYPE_CHECKING

from ...ir.kernel import Kernel
from ...ir.lazy_dataclass import dataclass
from ...passes.manager import Context
from .emit import TritonSource
from .program_code import ProgramCode
from .program_emitter import TritonEmitter
from .target import GpuTarget

if TYPE_CHECKING:
    from ...ir.graph import Graph


@dataclass(frozen=True, slots=True)
class Described:
    """The source of a launched kernel, and what it computes: None for a kernel that is written by hand."""

    source: TritonSource
    kernel: Kernel | None


@dataclass(frozen=True, slots=True)
class DescribedTarget(GpuTarget):
    """A GPU for which nothing is compiled, so neither Triton nor a driver is needed. `kernels` collects the kernels of
    all programs by their symbols; the programs have no code."""

    kernels: dict[str, Described] = field(default_factory=dict[str, Described])

    def __hash__(self) -> int:
        return hash(self.identity)

    @property
    def identity(self) -> str:
        return f"described {astuple(self)[:-1]}"

    def emitter(self, graph: Graph, context: Context) -> TritonEmitter:
        return _DescribingEmitter(self, context)


def described(target: GpuTarget) -> DescribedTarget:
    """The same GPU, for descriptions."""
    return DescribedTarget(target.capability, target.shared_bytes, target.multiprocessors)


class _DescribingEmitter(TritonEmitter):
    """Emits the same launches, and adds each kernel to those of the target."""

    def __init__(self, target: DescribedTarget, context: Context) -> None:
        super().__init__(target, context)
        self.described = target.kernels
        self.kernels = _NoCode(target, context)

    def _sources(self, kernel: Kernel, key: str, aligned: bool) -> tuple[TritonSource, ...]:
        sources = super()._sources(kernel, key, aligned)
        self.described.update((source.name, Described(source, kernel)) for source in sources)
        return sources


class _NoCode(ProgramCode):
    """Kernels that are not compiled."""

    def __init__(self, target: DescribedTarget, context: Context) -> None:
        super().__init__(target, context)
        self._described = target.kernels

    def add(self, source: TritonSource) -> None:
        self.sources[source.name] = source
        self._described.setdefault(source.name, Described(source, None))

    def objects(self) -> tuple[bytes, ...]:
        return ()
