"""Maps the index of a reshape's result to the index of its operand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod

from ..ir.kernel import Affine, Const, Expr, Index, Scalar, index_value
from ..ir.scalar import ScalarOp
from ..ir.types import DType, Shape

Part = Affine | Expr
Extent = Callable[[str], int]


def reshaped_index(index: Index, result: Shape, operand: Shape, extent: Extent) -> Index:
    """The index into a tensor of shape `operand` of the element at `index` of its reshape to `result`.

    A part is affine if the reshape divides dimensions, or if it joins dimensions whose index has a term for each of
    them (b * heads + h, with h < heads). Else it is a quotient or a remainder. `extent` is that of an axis.
    """
    if [n for n in result if n != 1] == [n for n in operand if n != 1]:
        rest = iter([i for i, n in zip(index, result, strict=True) if n != 1])
        return tuple(Affine() if n == 1 else next(rest) for n in operand)
    if 0 in result:
        return (Affine(),) * len(operand)
    parts: list[Part] = [Affine()] * len(operand)
    for wide, narrow in _groups(result, operand):
        position = _position([index[k] for k in wide], [result[k] for k in wide])
        for k in reversed(narrow[1:]):
            position, parts[k] = _divided(position, operand[k], extent)
        if narrow:
            parts[narrow[0]] = position
    return tuple(parts)


def _groups(result: Shape, operand: Shape) -> Iterator[tuple[list[int], list[int]]]:
    """The dimensions of both shapes, without those of extent 1, in the smallest groups of equal size."""
    left, right = ([k for k, n in enumerate(shape) if n != 1] for shape in (result, operand))
    while left:
        a, b = [left.pop(0)], [right.pop(0)]
        while (sizes := (prod(result[k] for k in a), prod(operand[k] for k in b)))[0] != sizes[1]:
            (a, b)[sizes[0] > sizes[1]].append((left, right)[sizes[0] > sizes[1]].pop(0))
        yield a, b


def _position(index: Sequence[Part], shape: Sequence[int]) -> Part:
    """The row-major position of an index."""
    steps = [prod(shape[k + 1 :]) for k in range(len(shape))]
    if len(index) == 1:
        return index[0]
    if all(isinstance(i, Affine) for i in index):
        parts = [(i, s) for i, s in zip(index, steps, strict=True) if isinstance(i, Affine)]
        terms: dict[str, int] = {}
        for i, step in parts:
            for axis, c in i.terms:
                terms[axis] = terms.get(axis, 0) + c * step
        return Affine(tuple(terms.items()), sum(i.offset * s for i, s in parts))
    total: Expr = Const(0, DType.I64)
    for i, step in zip(index, steps, strict=True):
        total = _add(total, _times(index_value(i), step))
    return total


def _divided(position: Part, n: int, extent: Extent) -> tuple[Part, Part]:
    """(position // n, position % n)."""
    if isinstance(position, Affine):
        inner = tuple(t for t in position.terms if t[1] % n)
        low = high = position.offset % n
        for axis, c in inner:
            reach = c * (extent(axis) - 1)
            low, high = low + min(0, reach), high + max(0, reach)
        if low >= 0 and high < n:
            outer = tuple((axis, c // n) for axis, c in position.terms if c % n == 0)
            return Affine(outer, position.offset // n), Affine(inner, position.offset % n)
    value, divisor = index_value(position), Const(n, DType.I64)
    return Scalar(ScalarOp.DIV, (value, divisor)), Scalar(ScalarOp.MOD, (value, divisor))


def _add(a: Expr, b: Expr) -> Expr:
    return b if a == Const(0, DType.I64) else Scalar(ScalarOp.ADD, (a, b))


def _times(value: Expr, step: int) -> Expr:
    return value if step == 1 else Scalar(ScalarOp.MUL, (value, Const(step, DType.I64)))
