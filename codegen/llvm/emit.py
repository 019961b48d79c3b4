"""Emits any kernel for a CPU: contractions through their own emitters, everything else as loops."""

from __future__ import annotations

from ...ir.kernel import Contract, Kernel, walk
from ...ir.target import CpuTarget
from ..emission import Emission
from .emitter import ModuleBuilder
from .loops.emit import emit_loops


def is_contraction(kernel: Kernel) -> bool:
    """Whether a kernel holds a Contract."""
    return any(isinstance(e, Contract) for stage in kernel.stages for e in walk(stage.value))


def emit_kernel(
    kernel: Kernel,
    target: CpuTarget,
    module: ModuleBuilder,
    symbol: str,
    parameters: frozenset[str] = frozenset(),
) -> Emission:
    """Schedule `kernel` for `target` and add its functions to `module`; `symbol` begins their names.

    `parameters` names buffers that change rarely, so that packing them costs nothing in a run. ValueError or
    NotImplementedError says what of the kernel has no emission.
    """
    if is_contraction(kernel):
        from ..schedule.contract import schedule_contraction
        from .contract import emit_contraction

        schedule = schedule_contraction(kernel, target, parameters)
        return emit_contraction(kernel, schedule, target, module, symbol)
    return emit_loops(kernel, target, module, symbol)
