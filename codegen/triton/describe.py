"""Records which kernels programs for GPUs have; those that are only described are not compiled."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from ...ir.kernel import Kernel
from ...ir.lazy_dataclass import dataclass
from ...passes.manager import Context
from .emit import TritonSource
from .part import Part
from .program_code import ProgramCode
from .program_emitter import TritonEmitter
from .target import GpuTarget

if TYPE_CHECKING:
    from ...ir.graph import Graph
    from .part import Part


@dataclass(frozen=True, slots=True)
class Described:
    """The source of a launched kernel, and what it computes: None for a kernel that is written by hand."""

    source: TritonSource
    kernel: Kernel | None


@dataclass(frozen=True, slots=True)
class RecordingTarget(GpuTarget):
    """A GPU that collects the kernels of all programs that are compiled for it by their symbols."""

    kernels: dict[str, Described] = field(default_factory=dict[str, Described])

    def __hash__(self) -> int:
        return hash(self.identity)

    def emitter(self, graph: Graph, context: Context) -> TritonEmitter:
        return _RecordingEmitter(self, context)


@dataclass(frozen=True, slots=True)
class DescribedTarget(RecordingTarget):
    """A GPU for which nothing is compiled, so neither Triton nor a driver is needed: programs have no code."""

    @property
    def identity(self) -> str:
        return f"described {self.tuning_identity}{self.tuned.digest}"

    def emitter(self, graph: Graph, context: Context) -> TritonEmitter:
        return _DescribingEmitter(self, context)


def recorded(target: GpuTarget) -> RecordingTarget:
    """The same GPU, with a list of kernels that is empty."""
    return RecordingTarget(target.capability, target.shared_bytes, target.multiprocessors, target.form, target.tuned)


def described(target: GpuTarget) -> DescribedTarget:
    """The same GPU, for descriptions."""
    return DescribedTarget(target.capability, target.shared_bytes, target.multiprocessors, target.form, target.tuned)


class _RecordingEmitter(TritonEmitter):
    """Emits the same launches, and adds each kernel to those of the target."""

    def __init__(self, target: RecordingTarget, context: Context) -> None:
        super().__init__(target, context)
        self.described = target.kernels

    def _sources(self, kernel: Kernel, key: str, aligned: bool) -> tuple[TritonSource, ...]:
        sources = super()._sources(kernel, key, aligned)
        self.described.update((source.name, Described(source, kernel)) for source in sources)
        return sources


class _DescribingEmitter(_RecordingEmitter):
    """Compiles nothing."""

    def __init__(self, target: DescribedTarget, context: Context) -> None:
        super().__init__(target, context)
        self.kernels = _NoCode(target, context)


class _NoCode(ProgramCode):
    """Kernels that are not compiled."""

    def __init__(self, target: DescribedTarget, context: Context) -> None:
        super().__init__(target, context)
        self._described = target.kernels

    def add(self, source: TritonSource, part: Part | None = None) -> None:
        self.sources[source.name] = source
        self._described.setdefault(source.name, Described(source, None))

    def objects(self) -> tuple[bytes, ...]:
        return ()
