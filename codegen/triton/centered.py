"""Finds sums of squared differences from a mean, as of a variance, whose parts do not need the mean of the row.

A part of n points has the sum s of its values and the sum q of squares of their differences from s / n. The sum for the
whole row is the sum of q + n (s / n - mean)^2 over all parts (Chan, Golub and LeVeque, 1979).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from ...ir.kernel import AxisKind, Const, Expr, Kernel, Local, Reduce, ReduceOp, Ref, Scalar, local
from ...ir.lazy_dataclass import dataclass
from ...ir.scalar import ScalarOp


@dataclass(frozen=True, slots=True)
class Centered:
    """`squares` is the sum of squares of differences from `mean`, which is `total` divided by the number of points."""

    squares: Local
    mean: Local
    total: Local


def find_centered(kernel: Kernel) -> Mapping[str, Centered]:
    """By the names of the sums of squares. Each reduction of the kernel is a stage."""
    every = (_centered(kernel, stage) for stage in kernel.stages if isinstance(stage, Local))
    return {c.squares.name: c for c in every if c is not None}


def _centered(kernel: Kernel, squares: Local) -> Centered | None:
    square = _operands(_summed(kernel, squares), ScalarOp.MUL)
    difference = _operands(_inlined(kernel, square[0]), ScalarOp.SUB) if square and square[0] == square[1] else ()
    if not difference or not isinstance(difference[1], Ref):
        return None
    mean = local(kernel, difference[1].local)
    quotient = _operands(mean.value, ScalarOp.DIV)
    if not quotient or not isinstance(quotient[0], Ref) or not isinstance(quotient[1], Const):
        return None
    total = local(kernel, quotient[0].local)
    points = [axis.extent for axis in kernel.axes if axis.kind is AxisKind.REDUCE]
    is_mean = _summed(kernel, total) == _inlined(kernel, difference[0]) and all(isinstance(n, int) for n in points)
    return Centered(squares, mean, total) if is_mean and quotient[1].value == prod(map(int, points)) else None


def _summed(kernel: Kernel, stage: Local) -> Expr | None:
    """The operand of a sum; None for other stages."""
    reduce = stage.value
    return _inlined(kernel, reduce.operand) if isinstance(reduce, Reduce) and reduce.op is ReduceOp.ADD else None


def _inlined(kernel: Kernel, expr: Expr) -> Expr:
    """The expression of a pointwise stage instead of a reference to it."""
    while isinstance(expr, Ref) and not isinstance(value := local(kernel, expr.local).value, Reduce):
        expr = value
    return expr


def _operands(expr: Expr | None, op: ScalarOp) -> tuple[Expr, ...]:
    return expr.operands if isinstance(expr, Scalar) and expr.op is op else ()
