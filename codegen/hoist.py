"""Rewrites kernels so that each stage is either a reduction or pointwise, as emitters of loops require."""

from __future__ import annotations

from dataclasses import replace

from ..ir.kernel import AxisKind, Cast, Expr, Kernel, Local, Reduce, Ref, Scalar, Stage


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
