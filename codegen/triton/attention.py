"""Describes the kernel of attention for tensor cores: a softmax of the rows of one product, multiplied by another one.

result = sum over keys of weight * value * factor
weight = exp(score - maximum)                        0 where one of `conditions` is false
factor = a function of the sum of all exp(score - maximum) of a row
"""

from __future__ import annotations

from ...ir.kernel import AxisKind, Cast, Const, Contract, Expr, Kernel, Reduce, Ref, Scalar, contracts, local
from ...ir.lazy_dataclass import dataclass
from ...ir.scalar import ScalarOp
from .accesses import axis_names
from .operands import axes_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """`first` is the product of queries and keys, of which `score` is a function, times `scale`. `last` is the product
    with values. `total` names the Local that has the sum of a row, of which `factor` is a function.

    Axes: `rows` are those of queries alone, `columns` of values alone, `keys` those of the softmax, `inner` those of
    the product of queries and keys, and `batch` all others.
    """

    first: Contract
    last: Contract
    score: Expr
    scale: float
    conditions: tuple[Expr, ...]
    total: str
    factor: Expr
    batch: tuple[str, ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    keys: tuple[str, ...]
    inner: tuple[str, ...]


def find_attention(kernel: Kernel) -> Attention | None:
    """The attention that a kernel computes; None for any other kernel."""
    products = contracts(kernel)
    last = kernel.stages[-1].value if kernel.stages else None
    first = next((c for c in products if c is not last), None)
    if len(products) != 2 or first is None or not isinstance(last, Contract):
        return None
    conditions: list[Expr] = []
    weight = _value(kernel, last.lhs)
    while isinstance(weight, Scalar) and weight.op is ScalarOp.SELECT:
        conditions.append(weight.operands[0])
        weight = _value(kernel, weight.operands[1])
    parts = _softmax(kernel, weight)
    if parts is None:
        return None
    score, total, factor = parts
    score, scale = _without_scale(kernel, score)
    used = [axes_of(kernel, e) for e in (first.lhs, first.rhs, last.rhs)]
    parallel = axis_names(kernel, AxisKind.PARALLEL)
    rows = tuple(a for a in parallel if a in used[0] and a not in used[1] | used[2])
    columns = tuple(a for a in parallel if a in used[2] and a not in used[0] | used[1])
    return Attention(
        first=first,
        last=last,
        score=score,
        scale=scale,
        conditions=tuple(conditions),
        total=total,
        factor=factor,
        batch=tuple(a for a in parallel if a not in (*rows, *columns)),
        rows=rows,
        columns=columns,
        keys=last.inner,
        inner=first.inner,
    )


def _softmax(kernel: Kernel, weight: Expr) -> tuple[Expr, str, Expr] | None:
    """(score, total, factor) of a product of an exponential and a factor of the row."""
    if not isinstance(weight, Scalar) or weight.op is not ScalarOp.MUL:
        return None
    for x, factor in (weight.operands, weight.operands[::-1]):
        exponential = _value(kernel, x)
        if isinstance(exponential, Scalar) and exponential.op is ScalarOp.EXP:
            shifted = _value(kernel, exponential.operands[0])
            total = _total(kernel, factor)
            if total is not None and isinstance(shifted, Scalar) and shifted.op is ScalarOp.SUB:
                return shifted.operands[0], total, factor
    return None


def _total(kernel: Kernel, factor: Expr) -> str | None:
    """The Local with a sum that `factor` reads."""
    stack = [factor]
    while stack:
        match stack.pop():
            case Ref(local=name):
                value = local(kernel, name).value
                if isinstance(value, Reduce):
                    return name
                stack.append(value)
            case Scalar(operands=operands):
                stack += operands
            case Cast(operand=operand):
                stack.append(operand)
            case _:
                pass
    return None


def _without_scale(kernel: Kernel, score: Expr) -> tuple[Expr, float]:
    """The score without the positive number by which it is multiplied at last, which does not change the order of
    scores; and the number."""
    value = _value(kernel, score)
    if isinstance(value, Scalar) and value.op is ScalarOp.MUL:
        x, number = value.operands
        if isinstance(number, Const) and 0 < number.value < float("inf"):
            return x, float(number.value)
    return score, 1.0


def _value(kernel: Kernel, expr: Expr) -> Expr:
    """The expression that computes a value: without names of Locals and conversions between floats."""
    while isinstance(expr, Ref | Cast):
        if isinstance(expr, Cast) and not expr.dtype.is_float:
            break
        expr = local(kernel, expr.local).value if isinstance(expr, Ref) else expr.operand
    return expr
