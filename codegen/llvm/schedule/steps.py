"""Plans the steps of one row of a nest: which of its stages share a loop over the reduced axes.

    step = LoopGroup(stages)    one loop over the reduced axes: full Locals, reductions, full Stores
         | Stage                a stage at the level of the row

A full stage runs once for each point of the reduced axes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from ....ir.kernel import AxisKind, Expr, Load, Local, Reduce, Ref, Scalar, Stage, Store, walk
from ....ir.lazy_dataclass import dataclass
from ...hoist import CHEAP
from ...nest import Nest


@dataclass
class LoopGroup:
    """Stages that are computed in one loop over the reduced axes, in order."""

    stages: list[Stage] = field(default_factory=list[Stage])


Step = LoopGroup | Stage


def plan_steps(nest: Nest) -> list[Step]:
    """The stages of one row in order, in as few loops as their dependencies allow.

    A reduction runs in the first loop before which its operands are complete, a full Local in the first loop that reads
    it. Full Stores share one loop, because one of them can overwrite an operand that the others read.
    """
    loops = _loop_numbers(nest)
    steps: list[Step] = []
    for number in range(max(loops, default=-1) + 1):
        group = LoopGroup()
        for stage, loop in zip(nest.stages, loops, strict=True):
            if loop == number:
                (group.stages if _is_full(stage, nest) else steps).append(stage)
        if group.stages:
            steps.append(group)
    return steps


def _loop_numbers(nest: Nest) -> list[int]:
    """For each stage the loop that computes it, or before which it is computed at the level of the row."""
    full = [_is_full(stage, nest) for stage in nest.stages]
    known: dict[str, int] = {}  # the first loop that can read each Local
    loops: list[int] = []
    for stage in nest.stages:
        loops.append(max((known[name] for name in _refs(stage)), default=0))
        if isinstance(stage, Local):
            known[stage.name] = loops[-1] + is_reduction(stage)
    stores = [i for i, stage in enumerate(nest.stages) if full[i] and isinstance(stage, Store)]
    for i in stores:
        loops[i] = max(loops[k] for k in stores)
    first: dict[str, int] = {}  # the first loop that reads each Local
    for i, stage in reversed(list(enumerate(nest.stages))):
        if full[i] and isinstance(stage, Local) and not is_reduction(stage):
            loops[i] = first.get(stage.name, loops[i])
        if full[i]:
            for name in _refs(stage):
                first[name] = min(first.get(name, loops[i]), loops[i])
    return loops


def scratch_rows(steps: Sequence[Step]) -> list[str]:
    """Full Locals that are read in a later loop than the one that computes them, and that cost more to compute again
    than to store."""
    full: dict[str, Local] = {}
    computed: dict[str, int] = {}
    rows: dict[str, None] = {}
    for number, step in enumerate(steps):
        stages = step.stages if isinstance(step, LoopGroup) else [step]
        rows.update((name, None) for s in stages for name in _refs(s) if computed.get(name, number) != number)
        if isinstance(step, LoopGroup):
            values = [s for s in stages if isinstance(s, Local) and not is_reduction(s)]
            computed.update((s.name, number) for s in values)
            full.update((s.name, s) for s in values)
    return [name for name in rows if not _is_cheap(full[name].value, full)]


_CHEAP_STEPS = 4


def _is_cheap(expr: Expr, full: Mapping[str, Local]) -> bool:
    """True if an expression is a few simple operations on one loaded element: a scratch row would be loaded too."""
    loads, operations, stack = 0, 0, [expr]
    while stack:
        for e in walk(stack.pop()):
            loads += isinstance(e, Load)
            if isinstance(e, Scalar):
                operations += 1 if e.op in CHEAP else _CHEAP_STEPS + 1
            elif isinstance(e, Ref) and e.local in full:
                stack.append(full[e.local].value)
            if loads > 1 or operations > _CHEAP_STEPS:
                return False
    return True


def is_reduction(stage: Stage) -> bool:
    return isinstance(stage, Local) and isinstance(stage.value, Reduce)


def _is_full(stage: Stage, nest: Nest) -> bool:
    """True if a stage runs once for each point of the reduced axes, False if once for each row."""
    reduced = nest.names(AxisKind.REDUCE)
    if not reduced:
        return False
    if is_reduction(stage):
        return True
    if isinstance(stage, Local):
        return not nest.reduced.isdisjoint(stage.axes)
    return any(nest.accesses[stage.buffer, stage.index].stride(a) for a in reduced)


def _refs(stage: Stage) -> tuple[str, ...]:
    """The Locals that a stage reads, in order: scratch rows are allocated in it."""
    return tuple(dict.fromkeys(e.local for e in walk(stage.value) if isinstance(e, Ref)))
