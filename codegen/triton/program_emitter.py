"""Emits the kernels of one program as Triton functions, equal kernels once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING

from ...ir.gather_steps import Part
from ...ir.graph import Node
from ...ir.hashing import structural_hash, trace_hash
from ...ir.kernel import Kernel
from ...ir.program import Computation, Program
from ...ir.types import TensorType
from ...passes.manager import Context
from ..chains import ChainedKernel
from ..emission import Emission, LaunchSpec, Packing
from ..generalize import GeneralKernel, generalize
from ..observe import observe_kernel
from .emit import DIVISOR, TritonSource, emit_launches
from .halves import HalvesPacking, with_halves
from .images import KernelPacking, on_packed_image
from .join_launches import join_launches, symbols_of
from .part import part_of
from .program_code import ProgramCode
from .schedule import power_of_two, schedule_triton

if TYPE_CHECKING:
    from .target import GpuTarget

_UNNAMED = "kernel_for_any_shape"


class TritonEmitter:
    """Collects the kernels of one program.

    Kernels of eager calls have no constant extents, if they have such a form (`generalize.py`): calls of other shapes
    launch the same kernel. It is compiled for sizes up to the same powers of two, which determine its blocks, and for
    extents of which the same are multiples of 16. A kernel with symbolic numbers is named after its text: programs that
    are compiled for other extents have the same kernel.
    """

    def __init__(self, target: GpuTarget, context: Context) -> None:
        self.target, self.context = target, context
        self.is_nested = False
        self.kernels = ProgramCode(target, context)
        self.emitted: dict[str, tuple[TritonSource, ...]] = {}  # by the kernel; numbers can differ for one name

    def emit(self, kernel: Kernel, parameters: frozenset[str], aligned: bool) -> Emission:
        options = self.context.options
        if not (options.static_shape or options.dynamic or self.is_nested):
            general = generalize(kernel, ())
            if general is not None:
                return self._emit_general(general, aligned)
        kernel, packings = on_packed_image(kernel)
        operands: tuple[int, ...] | None = None
        if not packings and not options.dynamic:
            schedule = schedule_triton(kernel, self.target, precision=options.precision)
            kernel, packings, operands = with_halves(kernel, schedule, parameters)
        sources = self._emitted(kernel, aligned)
        first = sources[0]
        reason = first.schedule.fallback.removeprefix(f"kernel {kernel.name}: ")
        numbers = () if len(sources) > 1 else first.numbers
        return Emission(_launches(sources), first.workspace(), packings, reason, operands=operands, extents=numbers)

    def _emitted(self, kernel: Kernel, aligned: bool) -> tuple[TritonSource, ...]:
        """The sources of the launches of a kernel, which are kernels of the program from now on."""
        key = trace_hash(kernel, aligned)[:16]
        sources = self.emitted.get(key)
        if sources is None:
            observe_kernel(kernel, self.context)
            sources = self.emitted[key] = self._sources(kernel, key, aligned)
        for source in sources:
            self._add(source)
        return sources

    def _add(self, source: TritonSource) -> None:
        """Add a kernel of the program."""
        self.kernels.add(source, part_of(source) if self.joins else None)

    @property
    def joins(self) -> bool:
        """True for programs for known shapes: others share kernels, each of which is compiled once."""
        return self.context.options.static_shape and not self.context.options.dynamic

    def _sources(self, kernel: Kernel, key: str, aligned: bool) -> tuple[TritonSource, ...]:
        precision = self.context.options.precision
        schedule = schedule_triton(kernel, self.target, precision=precision)
        if self.target.tuned.entries and not self.context.options.dynamic:
            from .choices import tuned_schedule

            schedule = tuned_schedule(kernel, schedule, self.target, precision)
        schedule = replace(schedule, aligned=aligned)
        if not self.context.options.dynamic:
            return emit_launches(replace(kernel, name=f"k_{key}"), schedule)
        sources = emit_launches(replace(kernel, name=_UNNAMED), schedule)
        return tuple(_named(source) for source in sources)

    def _emit_general(self, general: GeneralKernel, aligned: bool) -> Emission:
        extents = dict(zip(general.kernel.extents, general.extents, strict=True))
        sizes = {name: power_of_two(n) for name, n in extents.items()}
        schedule = schedule_triton(general.kernel, self.target, sizes, self.context.options.precision)
        divisible = frozenset(name for name in general.sizes if extents[name] % DIVISOR == 0)
        schedule = replace(schedule, aligned=aligned, divisible=divisible)
        name = f"g_{structural_hash(general.kernel, schedule)[:16]}"
        sources = self.emitted.get(name)
        if sources is None:
            observe_kernel(general.kernel, self.context)
            sources = self.emitted[name] = emit_launches(replace(general.kernel, name=name), schedule)
            for source in sources:
                self._add(source)
        workspace = sources[0].workspace(extents)
        return Emission(_launches(sources, extents), workspace, operands=general.operands, extents=general.extents)

    def nested(self) -> TritonEmitter:
        inner = copy(self)
        inner.is_nested = True
        return inner

    def emit_node(self, node: Node, aligned: bool, in_place: bool) -> Emission | None:
        """None for primitives without hand-written kernels (`routines/`)."""
        from .routines.emit import emit_routine

        options = self.context.options
        is_fixed = self.is_nested or (options.static_shape and not options.dynamic)
        emitted = emit_routine(node, is_fixed, aligned, in_place)
        if emitted is None:
            return None
        emission, sources = emitted
        for source in sources:
            self._add(source)
        return emission

    @property
    def chained_bytes(self) -> int:
        return 0

    def emit_chain(self, chain: Sequence[ChainedKernel]) -> Emission | None:
        raise AssertionError("no Triton kernel computes a chain")

    def emit_packing(self, packing: Packing) -> LaunchSpec:
        if isinstance(packing, HalvesPacking):
            source = packing.source()
            self._add(source)
            return LaunchSpec(source.name, source.programs(), 1)
        assert isinstance(packing, KernelPacking)
        (launch,) = _launches(self._emitted(packing.kernel, aligned=False))
        return launch

    def emit_clearing(self, type: TensorType, position: int, grouped: bool) -> LaunchSpec | None:
        return None

    def join(self, program: Program, parts: Sequence[Part]) -> Program:
        """See `Emitter`."""
        computing = (step for step in (*program.prepare, *program.steps) if isinstance(step, Computation))
        of_steps = {id(step): part for step, part in zip(computing, parts, strict=True)}
        joined = join_launches(program, self.kernels.parts(), self.kernels.add, of_steps)
        self.kernels.keep(symbols_of(joined))
        return joined

    def code(self) -> tuple[bytes, ...]:
        return self.kernels.objects()


def _launches(sources: Sequence[TritonSource], extents: Mapping[str, int] | None = None) -> tuple[LaunchSpec, ...]:
    """The launches of a kernel. If there are several, each has numbers of its own."""
    single = len(sources) == 1
    return tuple(LaunchSpec(s.name, s.programs(extents), 1, numbers=() if single else s.numbers) for s in sources)


def _named(source: TritonSource) -> TritonSource:
    """A kernel named after its text."""
    name = f"d_{structural_hash(source.identity)[:16]}"
    return replace(source, name=name, text=source.text.replace(source.name, name))
