"""Rules of matrix products."""

from __future__ import annotations

import string
from collections.abc import Sequence

import numpy as np

from ....ir.dialects.core.builder import CoreBuilder, broadcast_shape
from ....ir.graph import Value
from ....ir.types import DType
from .node import OnnxNode, Unsupported, rule


def matmul(b: CoreBuilder, x: Value, y: Value) -> Value:
    """NumPy's matmul: vectors are rows or columns, other leading axes are broadcast."""
    row, column = x.type.rank == 1, y.type.rank == 1
    x, y = b.expand_dims(x, 0) if row else x, b.expand_dims(y, 1) if column else y
    batch = broadcast_shape(x.type.shape[:-2], y.type.shape[:-2])
    if y.type.rank == 2 and x.type.rank > 2:  # one product of all rows
        result = b.dot(x, y, (), (), (x.type.rank - 1,), (0,))
    else:
        x = b.broadcast_to(x, (*batch, *x.type.shape[-2:]))
        y = b.broadcast_to(y, (*batch, *y.type.shape[-2:]))
        result = b.matmul(x, y)
    shape = list(result.type.shape)
    if column:
        shape.pop(-1)
    if row:
        shape.pop(-1 if column else -2)
    return b.reshape(result, tuple(shape))


@rule("MatMul")
def matmul_rule(n: OnnxNode) -> Value:
    return matmul(n.b, n[0], n[1])


@rule("Gemm")
def gemm(n: OnnxNode) -> Value:
    b, x, y = n.b, n[0], n[1]
    axes = (0 if n.attr("transA", 0) else 1,), (1 if n.attr("transB", 0) else 0,)
    result = b.dot(x, y, (), (), *axes)
    alpha, beta = n.attr("alpha", 1.0), n.attr("beta", 1.0)
    result = result if alpha == 1 else b.mul(result, _number(result, alpha))
    if not n.has(2):
        return result
    bias = n[2] if beta == 1 else b.mul(n[2], _number(n[2], beta))
    return b.add(result, b.broadcast_to(bias, result.type.shape))


def _number(x: Value, number: float) -> float | int:
    return number if x.type.dtype.is_float else int(number)


@rule("Einsum")
def einsum(n: OnnxNode) -> Value:
    """Contracted from left to right, two tensors at a time."""
    tensors = n.operands()
    terms, wanted = _parse(n.attr("equation"), [x.type.rank for x in tensors])
    listed = [_diagonal(n.b, x, t) for x, t in zip(tensors, terms, strict=True)]
    x, labels = listed[0]
    for i, (y, others) in enumerate(listed[1:], 2):
        needed = set(wanted).union(*(t for _, t in listed[i:]))
        x, labels = _contract(n.b, x, labels, y, others, needed)
    x, labels = _summed(n.b, x, labels, set(wanted))
    return n.b.transpose(x, [labels.index(k) for k in wanted])


def _parse(equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """The labels of the operands' axes and of the result's; the axes of an ellipsis get capital letters from Z."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise Unsupported(f"the equation {equation!r} has not one term for each operand")
    free = [c for c in reversed(string.ascii_letters) if c not in equation]
    wide = max((r - len(t.replace("...", "")) for t, r in zip(terms, ranks, strict=True) if "..." in t), default=0)
    dots = "".join(free[:wide])
    written = []
    for term, rank in zip(terms, ranks, strict=True):
        count = rank - len(term.replace("...", ""))
        written.append(term.replace("...", dots[len(dots) - count :] if count else ""))
    if not arrow:
        labels = "".join(terms).replace(".", "")
        right = "..." * ("..." in left) + "".join(sorted(c for c in set(labels) if labels.count(c) == 1))
    return written, right.replace("...", dots)


def _diagonal(b: CoreBuilder, x: Value, labels: str) -> tuple[Value, str]:
    """The tensor with each label once."""
    for label in labels:
        while labels.count(label) > 1:
            i = labels.index(label)
            j = labels.index(label, i + 1)
            k = b.iota((x.type.shape[i], 1), DType.I64, 0)
            x = b.gather(x, b.concat([k, k], 1), (i, j))
            labels = label + labels[:i] + labels[i + 1 : j] + labels[j + 1 :]
    return x, labels


def _summed(b: CoreBuilder, x: Value, labels: str, needed: set[str]) -> tuple[Value, str]:
    axes = [i for i, k in enumerate(labels) if k not in needed]
    return b.sum(x, axes) if axes else x, "".join(k for k in labels if k in needed)


def _contract(b: CoreBuilder, x: Value, p: str, y: Value, q: str, needed: set[str]) -> tuple[Value, str]:
    x, p = _summed(b, x, p, needed | set(q))
    y, q = _summed(b, y, q, needed | set(p))
    shared = [k for k in p if k in q]
    batch, inner = [k for k in shared if k in needed], [k for k in shared if k not in needed]
    first, second, third, fourth = ([t.index(k) for k in part] for part in (batch, inner) for t in (p, q))
    result = b.dot(x, y, first, second, third, fourth)
    return result, "".join([*batch, *(k for k in p if k not in shared), *(k for k in q if k not in shared)])


@rule("Det")
def det(n: OnnxNode) -> Value:
    """The product of the diagonal of the factor, with the sign of the row permutation."""
    x, b = n[0], n.b
    size = x.type.shape[-1]
    packed, order = b.lu(x)[:2]
    eye = b.constant(np.eye(size, dtype=np.bool_))
    diagonal = b.select(b.broadcast_to(eye, packed.type.shape), packed, 0)
    factors = b.prod(b.sum(diagonal, -1), -1)
    order = b.cast(order, DType.I64)
    wide = (*order.type.shape, size)
    first, second = b.broadcast(order, wide, range(order.type.rank)), None
    second = b.broadcast(order, wide, (*range(order.type.rank - 1), order.type.rank))
    later = b.constant(np.triu(np.ones((size, size), np.bool_), 1))
    swaps = b.and_(b.gt(first, second), b.broadcast_to(later, wide))
    odd = b.mod(b.sum(b.cast(swaps, DType.I64), (-2, -1)), 2)
    return b.select(b.eq(odd, 1), b.neg(factors), factors)
