"""Emits a kernel as a function whose unit i computes row i of the result, so that a caller can run it on any rows."""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.kernel import AxisKind, Kernel
from ...emission import Emission, LaunchSpec
from ...hoist import hoist_stages
from ...nest import Access, Nest, build_nest
from ..cpu import Cpu
from ..emitter import ModuleBuilder
from ..schedule.loops import LoopSchedule, schedule_nest
from .emit import emit_nest


def emit_by_rows(
    kernel: Kernel, buffers: Sequence[str], rows: int, target: Cpu, module: ModuleBuilder, symbol: str
) -> Emission | None:
    """Emit a kernel as a function whose unit i computes row i. None unless it has `rows` rows, and reads and writes
    `buffers`, which are contiguous, only at the row that it computes."""
    nest = build_nest(hoist_stages(kernel))
    schedule = schedule_nest(nest, {b.name: b.dtype for b in kernel.buffers}, target, by_rows=True)
    accesses = [a for a in nest.accesses.values() if a.buffer in buffers]
    if schedule.count != rows or not all(_is_row(nest, schedule, a) for a in accesses):
        return None
    emit_nest(kernel, nest, schedule, module, symbol)
    return Emission((LaunchSpec(symbol, rows, 1),))


def _is_row(nest: Nest, schedule: LoopSchedule, access: Access) -> bool:
    """True if the element of unit i is in row i of contiguous rows, in the order of the reduced axes."""
    if access.offset != 0 or access.bounds or access.gathers or schedule.vector not in schedule.reductions:
        return False
    step = 1
    for axis in (*reversed(nest.names(AxisKind.REDUCE)), *reversed(schedule.units)):
        if access.stride(axis) != step:
            return False
        step *= nest.known_extent(axis)
    return True
