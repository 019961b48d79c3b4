"""The result's side of a contraction: stored from registers where vectors of channels fit it, else through sums in the
workspace.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ....ir.kernel import Expr, Kernel, Load, Ref, Store, contracts
from ....ir.types import DType
from ...schedule.strides import View, Walk, view_of
from .finish import SUM, Finish, is_vectorizable, name_operands
from .problem import Tables, accesses

Operand = tuple[Load, View, DType, int]


@dataclass(frozen=True, slots=True)
class Ending:
    """`separate` says that the nest stores plain sums [group][point][channel] in the workspace, and that a second
    launch finishes them.
    """

    expr: Expr
    out: View
    out_dtype: DType
    out_slot: int
    loads: tuple[Operand, ...]
    points: tuple[int, ...]
    sum_dtype: DType
    separate: bool

    def finish(self, tables: Tables, out: View, loads: list[View]) -> Finish:
        pairs = [(v, d) for v, (_, _, d, _) in zip(loads, self.loads, strict=True)]
        own, others = accesses(tables, out, self.out_dtype, pairs)
        return Finish(self.expr, others, own, self.sum_dtype)


def end_of(
    kernel: Kernel, store: Store, walk: Walk, groups: tuple[int, ...], points: tuple[int, ...], channels: int
) -> Ending:
    """How the nest over `groups`, `points` and `channels` ends for this kernel's Store."""
    direct = _direct_end(kernel, store, walk, points)
    if direct is not None:
        return direct
    size = sum_dtype(kernel)
    steps = tuple(prod(points[k + 1 :]) * channels for k in range(len(points)))
    area = prod(points) * channels
    group_steps = tuple(prod(groups[k + 1 :]) * area for k in range(len(groups)))
    out = View(0, group_steps, steps, 1, 1)
    return Ending(Ref(SUM), out, size, len(kernel.buffers) + len(kernel.extents), (), points, size, True)


def sum_dtype(kernel: Kernel) -> DType:
    """The dtype in which the kernel's contraction sums."""
    (contract,) = contracts(kernel)
    return contract.accumulator


def _direct_end(kernel: Kernel, store: Store, walk: Walk, points: tuple[int, ...]) -> Ending | None:
    expr, loads = name_operands(store.value)
    out = kernel.buffer(store.buffer)
    view = view_of(out, store.index, walk)
    if view is None or not is_vectorizable(expr) or not _fits_vectors(view):
        return None
    found: list[Operand] = []
    for load in loads:
        buffer = kernel.buffer(load.buffer)
        operand = None if load.other is not None else view_of(buffer, load.index, walk)
        if operand is None or (operand.block > 1 and view.block > 1 and operand.block != view.block):
            return None
        found.append((load, operand, buffer.dtype, kernel.buffers.index(buffer)))
    slot = kernel.buffers.index(out)
    return Ending(expr, view, out.dtype, slot, tuple(found), points, sum_dtype(kernel), False)


def _fits_vectors(out: View) -> bool:
    """Channels side by side: in blocks, or without any (row-major with channels last, or a single position)."""
    return out.block > 1 or out.stride == 1
