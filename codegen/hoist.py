"""Rewrites kernels so that each stage is either a reduction or pointwise, as emitters of loops require."""

from __future__ import annotations

from dataclasses import replace

from ..ir.kernel import (
    Affine,
    AxisKind,
    Cast,
    Const,
    Expr,
    Index,
    Kernel,
    Load,
    Local,
    Reduce,
    Ref,
    Scalar,
    ScalarParameter,
    Stage,
    walk,
)
from ..ir.scalar import ScalarOp

CHEAP = frozenset(
    (
        *(ScalarOp.ADD, ScalarOp.SUB, ScalarOp.MUL, ScalarOp.NEG, ScalarOp.MAX, ScalarOp.MIN, ScalarOp.RECTIFY),
        *(ScalarOp.GT, ScalarOp.SELECT),
    )
)
"""The operations that take one or two cycles."""


def hoist_reductions(kernel: Kernel) -> Kernel:
    """Give every Reduce its own Local, so that each stage is either a reduction or pointwise."""
    stages: list[Stage] = []
    parallel = tuple(a.name for a in kernel.axes if a.kind is AxisKind.PARALLEL)
    for stage in kernel.stages:
        if isinstance(stage, Local) and isinstance(stage.value, Reduce):
            stages.append(
                replace(stage, value=replace(stage.value, operand=_hoist(stage.value.operand, stages, parallel)))
            )
        else:
            stages.append(replace(stage, value=_hoist(stage.value, stages, parallel)))
    return replace(kernel, stages=tuple(stages))


def _hoist(expr: Expr, stages: list[Stage], parallel: tuple[str, ...]) -> Expr:
    match expr:
        case Reduce():
            name = f"s{len(stages)}"
            stages.append(Local(name, parallel, replace(expr, operand=_hoist(expr.operand, stages, parallel))))
            return Ref(name)
        case Scalar():
            return replace(expr, operands=tuple(_hoist(e, stages, parallel) for e in expr.operands))
        case Cast():
            return replace(expr, operand=_hoist(expr.operand, stages, parallel))
        case _:
            return expr


def hoist_stages(kernel: Kernel) -> Kernel:
    """Give every Reduce, and values of rows that take long, Locals of their own."""
    return hoist_row_values(hoist_reductions(kernel))


def hoist_row_values(kernel: Kernel) -> Kernel:
    """Give values of rows that take more than a few cycles, such as a logarithm of a sum, Locals of their own: else
    they would be computed for each element. Each stage of the kernel is a reduction or pointwise."""
    reduced = frozenset(a.name for a in kernel.axes if a.kind is AxisKind.REDUCE)
    if not reduced:
        return kernel
    parallel = tuple(a.name for a in kernel.axes if a.kind is AxisKind.PARALLEL)
    stages: list[Stage] = []
    rows = _Rows(reduced, parallel, stages)
    for stage in kernel.stages:
        if isinstance(stage, Local) and reduced.isdisjoint(stage.axes):
            rows.locals.add(stage.name)
        if rows.runs_once(stage):
            stages.append(stage)
        elif isinstance(stage.value, Reduce):
            operand = rows.without(stage.value.operand)
            stages.append(replace(stage, value=replace(stage.value, operand=operand)))
        else:
            stages.append(replace(stage, value=rows.without(stage.value)))
    return replace(kernel, stages=tuple(stages))


class _Rows:
    """Moves values that are the same in a whole row to Locals among `stages`."""

    def __init__(self, reduced: frozenset[str], parallel: tuple[str, ...], stages: list[Stage]) -> None:
        self._reduced, self._parallel, self._stages = reduced, parallel, stages
        self._known: dict[Expr, str] = {}
        self.locals: set[str] = set()

    def runs_once(self, stage: Stage) -> bool:
        """True if the stage computes one value for each row, without a loop."""
        if isinstance(stage.value, Reduce):
            return False
        return stage.name in self.locals if isinstance(stage, Local) else self._of_rows(stage.index)

    def without(self, expr: Expr) -> Expr:
        """The expression with Refs instead of values of rows."""
        match expr:
            case Scalar(operands=operands):
                if self._is_value(expr):
                    return self._moved(expr)
                return replace(expr, operands=tuple([self.without(e) for e in operands]))
            case Cast(operand=operand):
                return replace(expr, operand=self.without(operand))
            case _:
                return expr

    def _moved(self, expr: Expr) -> Expr:
        if all(e.op in CHEAP for e in walk(expr) if isinstance(e, Scalar)):
            return expr
        name = self._known.get(expr)
        if name is None:
            name = self._known[expr] = f"r{len(self._stages)}"
            self._stages.append(Local(name, self._parallel, expr))
        return Ref(name)

    def _is_value(self, expr: Expr) -> bool:
        """True if the expression reads only values of rows, of which one is a Local."""
        nodes = list(walk(expr))
        return any(isinstance(e, Ref) for e in nodes) and all(map(self._is_part, nodes))

    def _is_part(self, expr: Expr) -> bool:
        match expr:
            case Ref(local=name):
                return name in self.locals
            case Load(index=index):
                return self._of_rows(index)
            case Scalar() | Cast() | Const() | ScalarParameter():
                return True
            case _:
                return False

    def _of_rows(self, index: Index) -> bool:
        """True if an index is the same in a whole row."""
        return all(isinstance(i, Affine) and self._reduced.isdisjoint(axis for axis, _ in i.terms) for i in index)
