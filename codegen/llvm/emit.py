"""Emits any kernel for a CPU: contractions with their emitters, all other kernels as loops."""

from __future__ import annotations

from dataclasses import replace

from ...ir.kernel import Kernel, contracts
from ..emission import Emission
from ..lower_contract import contract_as_sum, epilogue_in_float32
from .cpu import Cpu
from .emitter import ModuleBuilder
from .loops.emit import emit_loops, schedule_loops
from .schedule.kinds import Schedule


def is_contraction(kernel: Kernel) -> bool:
    """True if a kernel contains a Contract."""
    return bool(contracts(kernel))


def schedule_kernel(kernel: Kernel, target: Cpu, parameters: frozenset[str]) -> Schedule | None:
    """See `CpuTarget.schedule`."""
    if is_contraction(kernel):
        from .contract.emit import schedule_contraction

        return schedule_contraction(kernel, target, parameters)
    return None if kernel.extents else schedule_loops(kernel, target)


def scheduled_kernel(kernel: Kernel) -> Kernel:
    """The kernel that schedules are chosen for and stored under: contractions have explicit conversions."""
    return epilogue_in_float32(kernel) if is_contraction(kernel) else kernel


def emit_kernel(
    kernel: Kernel,
    target: Cpu,
    module: ModuleBuilder,
    symbol: str,
    parameters: frozenset[str] = frozenset(),
    once: bool = False,
) -> Emission:
    """Schedule `kernel` for `target` and add its functions to `module`; their names start with `symbol`.

    `parameters` names buffers that change rarely, so that packing them costs nothing in a run; `once`: all of them do,
    so that the kernel's own speed matters little. Raises ValueError or NotImplementedError that names the construct
    that cannot be emitted.
    """
    if is_contraction(kernel):
        return _emit_contraction(kernel, target, module, symbol, parameters)
    return emit_loops(kernel, target, module, symbol, once=once)


def _emit_contraction(
    kernel: Kernel, target: Cpu, module: ModuleBuilder, symbol: str, parameters: frozenset[str]
) -> Emission:
    """Emit a contraction under its schedule; as a sum in plain loops if it has none (integers, computed operands)."""
    from .contract.emit import emit_contraction, schedule_contraction
    from .schedule.describe import ContractionError

    before = module.mark()
    explicit = scheduled_kernel(kernel)
    try:
        schedule = schedule_contraction(explicit, target, parameters)
        return emit_contraction(explicit, schedule, target, module, symbol)
    except ContractionError as error:
        module.undo(before)
        loops = emit_loops(contract_as_sum(kernel), target, module, symbol)
        return replace(loops, fallback=str(error).removeprefix(f"{kernel.name}: "))
