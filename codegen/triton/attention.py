"""Describes the kernel of attention for tensor cores: a softmax of the rows of one product, multiplied by another one.

result = sum over keys of weight * value * factor
weight = exp(score - maximum)                        0 where one of `conditions` is false
factor = a function of the sum of all exp(score - maximum) of a row
"""

from __future__ import annotations

from ...ir.kernel import (
    AxisKind,
    Cast,
    Const,
    Contract,
    Expr,
    Kernel,
    Reduce,
    Ref,
    Scalar,
    Store,
    contracts,
    dtype_of,
    local,
)
from ...ir.lazy_dataclass import dataclass
from ...ir.scalar import ScalarOp
from .accesses import axis_names
from .operands import axes_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """`first` is the product of queries and keys, of which `score` is a function, times `scale`. `last` is the product
    with values. `top` and `total` name the Locals that have the maximum and the sum of a row; `factor` is a function of
    the sum. `changes` are what is done to weights, the last one first: (MUL, by a number), or (SELECT, a condition).

    Axes: `rows` are those of queries alone, `columns` of values alone, `keys` those of the softmax, `inner` those of
    the product of queries and keys, and `batch` all others.
    """

    first: Contract
    last: Contract
    score: Expr
    scale: float
    changes: tuple[tuple[ScalarOp, Expr], ...]
    top: str
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
    last = next((s.value for s in kernel.stages if isinstance(s, Store) and isinstance(s.value, Contract)), None)
    first = next((c for c in products if c is not last), None)
    if len(products) != 2 or first is None or last is None:
        return None
    weights = _weights(kernel, last.lhs)
    if weights is None:
        return None
    changes, softmax = weights
    score, scale = _without_scale(kernel, softmax.score)
    used = [axes_of(kernel, e) for e in (first.lhs, first.rhs, last.rhs)]
    parallel = axis_names(kernel, AxisKind.PARALLEL)
    rows = tuple(a for a in parallel if a in used[0] and a not in used[1] | used[2])
    columns = tuple(a for a in parallel if a in used[2] and a not in used[0] | used[1])
    return Attention(
        first=first,
        last=last,
        score=score,
        scale=scale,
        changes=changes,
        top=softmax.top,
        total=softmax.total,
        factor=softmax.factor,
        batch=tuple(a for a in parallel if a not in (*rows, *columns)),
        rows=rows,
        columns=columns,
        keys=last.inner,
        inner=first.inner,
    )


@dataclass(frozen=True, slots=True)
class _Softmax:
    score: Expr
    top: str
    total: str
    factor: Expr


_Changes = tuple[tuple[ScalarOp, Expr], ...]


def _weights(kernel: Kernel, expr: Expr) -> tuple[_Changes, _Softmax] | None:
    """The softmax of which `expr` is a multiple, and what makes it one."""
    value = _value(kernel, expr)
    if not isinstance(value, Scalar):
        return None
    if value.op is ScalarOp.SELECT:
        condition, chosen, _ = value.operands
        weights = _weights(kernel, chosen)
        return weights and (((ScalarOp.SELECT, condition), *weights[0]), weights[1])
    if value.op is ScalarOp.DIV:
        x, total = value.operands
        softmax = _softmax(kernel, x, Scalar(ScalarOp.DIV, (Const(1.0, dtype_of(kernel, total)), total)))
        return softmax and ((), softmax)
    if value.op is not ScalarOp.MUL:
        return None
    pairs = (value.operands, value.operands[::-1])
    for x, factor in pairs:
        softmax = _softmax(kernel, x, factor)
        if softmax is not None:
            return (), softmax
    for x, factor in pairs:
        weights = _weights(kernel, x)
        if weights is not None:
            return ((ScalarOp.MUL, factor), *weights[0]), weights[1]
    return None


def _softmax(kernel: Kernel, x: Expr, factor: Expr) -> _Softmax | None:
    """The softmax that is the product of an exponential and a factor of the row."""
    exponential, total = _value(kernel, x), _reduced(kernel, factor)
    if not isinstance(exponential, Scalar) or exponential.op is not ScalarOp.EXP or total is None:
        return None
    shifted = _value(kernel, exponential.operands[0])
    if not isinstance(shifted, Scalar) or shifted.op is not ScalarOp.SUB:
        return None
    top = _reduced(kernel, shifted.operands[1])
    return _Softmax(shifted.operands[0], top, total, factor) if top is not None else None


def _reduced(kernel: Kernel, factor: Expr) -> str | None:
    """The Local with a reduction of which `factor` is a function."""
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
