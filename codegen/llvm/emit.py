"""Emits any kernel for a CPU: contractions through their own emitters, everything else as loops."""

from __future__ import annotations

from ...ir.kernel import Contract, Kernel, walk
from ...ir.target import CpuTarget
from ..emission import Emission
from .emitter import ModuleBuilder
from .loops.emit import emit_loops


def emit_kernel(kernel: Kernel, target: CpuTarget, module: ModuleBuilder, symbol: str) -> Emission:
    """Schedule `kernel` for `target` and add its functions to `module`; `symbol` begins their names.

    ValueError or NotImplementedError says what of the kernel has no emission.
    """
    if any(isinstance(e, Contract) for stage in kernel.stages for e in walk(stage.value)):
        from ..schedule.contract import schedule_contraction
        from .contract.emit import emit_contraction

        return emit_contraction(kernel, schedule_contraction(kernel, target), target, module, symbol)
    return emit_loops(kernel, target, module, symbol)
