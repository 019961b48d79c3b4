"""Random small graphs, compiled and compared with the interpreter: what no single test thought of combining."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest
from compiled import check
from mxforge.ir.dialects.core import CoreBuilder
from mxforge.ir.graph import Graph, Value
from mxforge.ir.kernel import ReduceOp
from mxforge.ir.types import DType
from rewriting import random_inputs, tensor

Rule = Callable[[random.Random, CoreBuilder, Value, Sequence[Value]], Value | None]  # None: does not apply


def _axis(r: random.Random, x: Value) -> int:
    return r.randrange(x.type.rank)


def _binary(r: random.Random, b: CoreBuilder, x: Value, others: Sequence[Value]) -> Value:
    y = r.choice([v for v in others if v.type == x.type])
    return b.add(x, y) if r.random() < 0.5 else b.maximum(x, y)


def _transpose(r: random.Random, b: CoreBuilder, x: Value, others: Sequence[Value]) -> Value:
    return b.transpose(x, r.sample(range(x.type.rank), x.type.rank))


def _reshape(r: random.Random, b: CoreBuilder, x: Value, others: Sequence[Value]) -> Value:
    return b.reshape(x, r.sample(x.type.shape, x.type.rank))


def _slice(r: random.Random, b: CoreBuilder, x: Value, others: Sequence[Value]) -> Value:
    axis = _axis(r, x)
    begin = r.randrange(x.type.shape[axis])
    return b.slice_axis(x, axis, begin, r.randint(begin + 1, x.type.shape[axis]))


def _concat(r: random.Random, b: CoreBuilder, x: Value, others: Sequence[Value]) -> Value:
    axis = _axis(r, x)

    def fits(v: Value) -> bool:
        pairs = zip(v.type.shape, x.type.shape, strict=False)
        return v.type.rank == x.type.rank and all(n == m or k == axis for k, (n, m) in enumerate(pairs))

    return b.concat([*r.choices([v for v in others if fits(v)], k=r.choice((1, 2))), x], axis)


def _pad(r: random.Random, b: CoreBuilder, x: Value, others: Sequence[Value]) -> Value:
    low = [r.choice((0, 0, 1, -1)) if n > 2 else 0 for n in x.type.shape]
    high = [r.choice((0, 0, 1, 2)) for _ in x.type.shape]
    return b.pad(x, b.constant(r.choice((0.0, 1.5)), DType.F32), low, high)


def _softmax(r: random.Random, b: CoreBuilder, x: Value, others: Sequence[Value]) -> Value:
    axis, shape = _axis(r, x), x.type.shape
    e = b.exp(b.sub(x, b.broadcast_to(b.max(x, axis, keepdims=True), shape)))
    return b.div(e, b.broadcast_to(b.sum(e, axis, keepdims=True), shape))


def _reduction(r: random.Random, b: CoreBuilder, x: Value, others: Sequence[Value]) -> Value:
    return b.max(x, _axis(r, x), keepdims=r.random() < 0.5)


def _take(r: random.Random, b: CoreBuilder, x: Value, others: Sequence[Value]) -> Value:
    return b.take(x, b.input(tensor(3, dtype=DType.I32)), _axis(r, x))


def _is_image(x: Value) -> bool:
    return x.type.rank == 4 and min(x.type.shape[2:]) >= 3


def _pool(r: random.Random, b: CoreBuilder, x: Value, others: Sequence[Value]) -> Value | None:
    padding = ((0, 0), (0, 0), (1, 1), (0, 1))
    op, strides = r.choice((ReduceOp.MAX, ReduceOp.ADD)), (1, 1, r.choice((1, 2)), 2)
    return b.reduce_window(op, x, (1, 1, 3, 3), strides, padding) if _is_image(x) else None


def _convolution(r: random.Random, b: CoreBuilder, x: Value, others: Sequence[Value]) -> Value | None:
    """Some with groups, strides, padding, a batch norm and a ReLU."""
    if not _is_image(x):
        return None
    channels = x.type.shape[1]
    groups = r.choice([1, 1, 1] + [n for n in (2, 3, channels) if channels % n == 0])
    filters, kernel, stride = groups * r.choice((1, 4, 8, 16)), r.choice((1, 3)), r.choice((1, 1, 2))
    if filters > 64:
        return None
    weight = b.input(tensor(filters, channels // groups, kernel, kernel), parameter=r.random() < 0.8)
    y = b.conv(x, b.mul(weight, 0.2), (stride, stride), ((kernel // 2, kernel // 2),) * 2, groups=groups)
    for rule in r.choice(((), (b.mul, b.add), (b.add, b.mul, b.add))):
        y = rule(y, b.broadcast_along(b.input(tensor(filters), parameter=True), y.type.shape, 1))
    return b.maximum(y, 0.0) if r.random() < 0.5 else y


RULES: tuple[Rule, ...] = (
    lambda r, b, x, others: b.tanh(x),
    lambda r, b, x, others: b.mul(x, 0.5),
    lambda r, b, x, others: b.select(b.gt(x, 0.1), x, b.mul(x, x)),
    lambda r, b, x, others: b.reverse(x, (_axis(r, x),)),
    _binary,
    _transpose,
    _reshape,
    _slice,
    _concat,
    _pad,
    _softmax,
    _reduction,
    _take,
    _pool,
    *(_convolution,) * 4,
)


def random_graph(seed: int) -> Graph:
    """Up to nine operations in a row, with branches, of 2 to 4 dimensions; 1 to 3 results."""
    r = random.Random(seed)
    b = CoreBuilder(f"random{seed}")
    image = (r.choice((1, 2)), r.choice((3, 8, 16, 20, 33)), r.choice((5, 7, 8)), r.choice((5, 8)))
    shape = image if r.random() < 0.5 else tuple(r.choice((1, 2, 3, 5, 17)) for _ in range(r.choice((2, 3, 4))))
    values = [b.input(tensor(*shape))]
    for _ in range(r.randint(2, 9)):
        x = r.choice(values[-3:])
        if x.type.rank == 0:
            continue
        y = r.choice(RULES)(r, b, x, values)
        if y is not None and y.type.size < 40000:
            values.append(y)
    return b.build([values[-1], *r.sample(values, min(len(values), r.choice((0, 1, 2))))])


@pytest.mark.parametrize("seed", range(80))
def test_a_random_graph_computes_what_the_interpreter_does(seed: int) -> None:
    graph = random_graph(seed)
    check(graph, *random_inputs(graph, seed), tolerance=2e-4)
