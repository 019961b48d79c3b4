"""Emits the kernels of one program as Triton functions, equal kernels once, and compiles those that the store lacks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ...ir.graph import Node
from ...ir.hashing import structural_hash
from ...ir.kernel import Kernel
from ...ir.types import TensorType
from ...passes.manager import Context
from ..chains import ChainedKernel
from ..emission import Emission, LaunchSpec, Packing
from ..observe import observe_kernel, observe_text
from ..statistics import statistics
from ..target import ALIGNED_BYTES
from .compile import compile_triton, lower_to_ttir
from .emit import TritonSource, emit_triton
from .kernel_code import KernelCode
from .schedule import schedule_triton

if TYPE_CHECKING:
    from .target import GpuTarget

_SOURCE = 5  # MXFORGE_DEBUG from which the generated source is printed


class TritonEmitter:
    """Collects the kernels of one program. Kernels have fixed shapes."""

    def __init__(self, target: GpuTarget, context: Context) -> None:
        self.target, self.context = target, context
        self.sources: dict[str, TritonSource] = {}

    def emit(self, kernel: Kernel, parameters: frozenset[str], offsets: Sequence[int]) -> Emission:
        starts = [at * b.dtype.itemsize for at, b in zip(offsets, kernel.buffers, strict=True)]
        aligned = all(at % ALIGNED_BYTES == 0 for at in starts)
        symbol = f"k_{structural_hash(kernel, aligned)[:16]}"
        source = self.sources.get(symbol)
        if source is None:
            observe_kernel(kernel, self.context)
            schedule = replace(schedule_triton(kernel, self.target), aligned=aligned)
            source = self.sources[symbol] = emit_triton(replace(kernel, name=symbol), schedule)
        reason = source.schedule.fallback.removeprefix(f"kernel {kernel.name}: ")
        return Emission((LaunchSpec(symbol, source.programs(), 1),), fallback=reason)

    def nested(self) -> TritonEmitter:
        return self

    def emit_node(self, node: Node) -> Emission | None:
        """None: sorts, scatters and factorizations have no Triton kernels."""
        return None

    @property
    def chained_bytes(self) -> int:
        return 0

    def emit_chain(self, chain: Sequence[ChainedKernel]) -> Emission | None:
        raise AssertionError("no Triton kernel computes a chain")

    def emit_packing(self, packing: Packing) -> LaunchSpec:
        raise AssertionError("no Triton kernel packs its operands")

    def emit_clearing(self, type: TensorType, position: int, grouped: bool) -> LaunchSpec | None:
        return None

    def code(self) -> tuple[bytes, ...]:
        return tuple(self._stored(source) for source in self.sources.values())

    def _stored(self, source: TritonSource) -> bytes:
        """The code of a kernel from the store, or compiled."""
        store = self.context.kernels
        code = store.find(source.identity)
        if code is None:
            code = self._compiled(source).to_bytes()
            store.add(source.identity, code)
        return code

    def _compiled(self, source: TritonSource) -> KernelCode:
        statistics.modules += 1
        start = time.perf_counter()
        observe_text(source.name, "py", source.text, _SOURCE, self.context)
        parameters = tuple(kind for _, kind in source.signature)
        warps = source.schedule.num_warps
        if self.target.form == "ttir":
            text = lower_to_ttir(source, self.target)
            kernel = KernelCode(source.name, "ttir", parameters, warps, 0, text.encode())
        else:
            compiled = compile_triton(source, self.target)
            kernel = KernelCode(source.name, "cubin", parameters, warps, compiled.shared, compiled.cubin)
        self.context.dump(source.name, self.target.form, kernel.code)
        self.context.trace.append(("triton", time.perf_counter() - start))
        return kernel
