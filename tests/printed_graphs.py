"""Graphs for the tests of printing, parsing, hashing and verification: one with every primitive, and random graphs."""

from __future__ import annotations

import random

import numpy as np
from mxforge.ir.dialects.core import PRIMITIVES, ConvWeightGradient, CoreBuilder, Fused
from mxforge.ir.graph import Graph, Op, Value
from mxforge.ir.scalar import ReduceOp
from mxforge.ir.types import DType, Layout, TensorType

F32, I32 = DType.F32, DType.I32
CONSTANTS = (
    np.array([[1.5, np.nan], [np.inf, -0.0]], np.float16),
    np.array([0.1, -np.inf, 1e-45, 16777216.0], np.float32),
    np.linspace(-1, 1, 100, dtype=np.float32).reshape(4, 25),
    np.array([0.1, 1e-300, np.nan], np.float64),
    np.frombuffer(b"\x01\x00\x80\x7f\x01\x00\xc0\xff", np.float32),  # a signalling NaN and a quiet NaN with payloads
    np.full((3, 5), -0.0),
    np.zeros((0, 3), np.float32),
    np.array(7, np.int64),
    np.array([-128, 127], np.int8),
    np.arange(-20, 20, dtype=np.int16),
    np.array([-(2**31), 2**31 - 1], np.int32),
    np.array([-(2**63), 2**63 - 1]),
    np.arange(256, dtype=np.uint8),
    np.array([0, 2**16 - 1], np.uint16),
    np.array([0, 2**32 - 1], np.uint32),
    np.array([0, 2**64 - 1], np.uint64),
    np.arange(40) % 3 == 0,
    np.array(True),
)


def body(name: str, *shapes: tuple[int, ...]) -> Graph:
    """A nested graph that adds 1 to each of its inputs."""
    b = CoreBuilder(name)
    return b.build([b.add(b.input(TensorType(shape, F32), f"in{i}"), 1.0) for i, shape in enumerate(shapes)])


def _condition() -> Graph:
    b = CoreBuilder("below")
    return b.build([b.lt(b.input(TensorType((), F32)), 10.0)])


def _step() -> Graph:
    b = CoreBuilder("step")
    carry, item = b.input(TensorType((4,), F32)), b.input(TensorType((), F32))
    return b.build([b.add(carry, b.broadcast_to(item, (4,))), item])


def _shapes(b: CoreBuilder, x: Value) -> list[Value]:
    return [
        b.exp(x),
        b.cast(x, DType.BF16),
        b.broadcast(x, (3, 2, 4, 6, 6), (1, 2, 3, 4)),
        b.reshape(x, (2, 144)),
        b.transpose(x, (0, 2, 3, 1)),
        b.slice(x, (0, 1, 0, 0), (2, 4, 6, 6), (1, 2, 1, 3)),
        b.reverse(x, (1,)),
        b.concat([x, b.slice_axis(x, 1, 0, 1)], 1),
        b.pad(x, b.constant(0.0, F32), (0, 0, -1, 2), (0, 0, 1, 0), (0, 0, 0, 1)),
        b.relayout(b.relayout(x, Layout(2, ((1, 1), (0, 2)))), None),
        b.relayout(x, Layout(8, ((0, 0), (0, 0)))),
    ]


def _numbers(b: CoreBuilder, x: Value, key: Value) -> list[Value]:
    rows = b.reshape(x, (8, 36))
    picked = b.iota((3, 1), I32, 0)
    pooled = b.reduce_window(ReduceOp.MAX, rows, (1, 3), (1, 3), ((0, 0), (1, 2)))
    return [
        b.gather(rows, picked, (0,)),
        b.scatter(rows, picked, b.constant(np.ones((3, 36), np.float32)), "set", (0,)),
        b.sum(rows, (1,)),
        b.arg_reduce("max", rows, 1),
        b.cumulative(ReduceOp.MUL, rows, 0, reverse=True),
        pooled,
        b.select_and_scatter(rows, pooled, (1, 3), (1, 3), ((0, 0), (1, 2))),
        b.dot(rows, rows, (), (), (1,), (1,)),
        b.conv(x, b.iota((6, 2, 3, 3), F32, 0), (2, 1), ((1, 1), (0, 2)), groups=2),
        b.add_node(ConvWeightGradient((3, 3), (2, 1), ((1, 1), (0, 2)), (1, 1), 2), x, b.iota((2, 6, 3, 6), F32, 0)),
        b.dot(b.cast(rows, DType.BF16), b.cast(rows, DType.BF16), (), (), (1,), (1,), F32),
        b.conv(b.cast(x, DType.U8), b.iota((6, 4, 3, 3), DType.I8, 0), (1, 1), ((0, 0),) * 2, accumulator=I32),
        b.random_bits(key, (2, 3)),
        *b.sort([rows, b.cast(rows, I32)], 1),
        b.argsort(rows, 0, descending=True, count=3),
        b.csr_dot(b.sum(b.slice_axis(rows, 1, 0, 2), (0,)), b.iota((2,), I32, 0), b.iota((3,), I32, 0), rows),
        *_factors(b, b.slice(rows, (0, 0), (8, 8))),
    ]


def _factors(b: CoreBuilder, x: Value) -> list[Value]:
    solved = b.triangular_solve(b.cholesky(x), x, transpose=True)
    return [solved, *b.lu(x), *b.lq(x), *b.symmetric_eigen(x)]


def _control(b: CoreBuilder, x: Value) -> list[Value]:
    scalar, row = b.sum(x), b.constant(np.zeros(4, np.float32))
    items = b.constant(np.arange(3, dtype=np.float32))
    one = body("one", (4,))
    return [
        *b.node(Fused(body("fusion", (4,), ()), "pointwise"), row, scalar, name="region", location="net.py:7").outputs,
        *b.call(one, row),
        *b.call(one, row, gradient=_gradient()),
        *b.call(one, row, gradient=_gradient(), wrt=[0]),
        *b.call(one, row, gradient=_no_gradient(), wrt=[]),
        *b.cond(b.lt(scalar, 0.0), one, body("other", (4,)), row),
        *b.while_(_condition(), body("next", ()), scalar),
        *b.while_(_condition(), body("next", ()), scalar, limit=9),
        *b.scan(_step(), [row], [items], [], 3),
        *b.scan(_step(), [row], [items], [], 3, reverse=True),
    ]


def _gradient() -> Graph:
    """A gradient graph on the operand, the result and the result's cotangent."""
    b = CoreBuilder("gradient")
    x, y, dy = (b.input(TensorType((4,), F32)) for _ in range(3))
    return b.build([b.mul(b.add(x, y), dy)])


def _no_gradient() -> Graph:
    b = CoreBuilder("stop")
    for _ in range(3):
        b.input(TensorType((4,), F32))
    return b.build([])


def every_primitive() -> Graph:
    """A graph with every primitive except the host callback, whose text cannot be parsed."""
    b = CoreBuilder("every")
    x = b.input(TensorType((2, 4, 6, 6), F32), "data")
    mean = b.input(TensorType((4,), F32), 'moving "mean"\n\\ ünï', parameter=True)
    key = b.input(TensorType((4,), DType.U32), "key")
    constants = [b.constant(c) for c in CONSTANTS] + [b.constant(np.array([0.5, 2.0], np.float32), DType.BF16)]
    named = b.node(PRIMITIVES["core.cast"](F32), b.input(TensorType((), DType.F64)), name="a", location="odd place")  # type: ignore[call-arg]
    values = [*constants, *named.outputs, *_shapes(b, x), *_numbers(b, x, key), *_control(b, x)]
    b.updates, b.private = (1,), frozenset({0})
    return b.build([*values, b.add(mean, 1.0)])


def ops_of(graph: Graph) -> list[Op]:
    """All ops, including those of nested graphs."""
    inner = [op for node in graph.nodes for region in node.op.regions() for op in ops_of(region)]
    return [node.op for node in graph.nodes] + inner


def random_graph(seed: int, depth: int = 2) -> Graph:
    """A random graph of (4, 4) tensors with names, locations, parameters, updates and nested graphs."""
    r = random.Random(seed)
    b = CoreBuilder(r.choice(("main", "f_1", 'odd "name"')))
    square = TensorType((4, 4), F32)
    values = [b.input(square, r.choice(("", f"x{i}")), parameter=r.random() < 0.4) for i in range(r.randint(1, 4))]
    for i in range(r.randint(1, 12)):
        b.location = r.choice(("", f"net.py:{i}", "a b:c", f"C:\\net.py:{i}:3"))
        x, y = r.choice(values), r.choice(values)
        choices = (
            lambda x, y, i: [b.add(x, y)],
            lambda x, y, i: [b.select(b.lt(x, y), x, y)],
            lambda x, y, i: [b.tanh(b.transpose(x, (1, 0)))],
            lambda x, y, i: [b.broadcast_to(b.mean(x, (i % 2,), keepdims=True), (4, 4))],
            lambda x, y, i: b.sort([x, y], i % 2),
            lambda x, y, i: [b.mul(x, r.uniform(-1e3, 1e-3))],
            lambda x, y, i: [b.constant(np.random.default_rng(i).normal(size=(4, 4)).astype(np.float32))],
        )
        if depth and r.random() < 0.3:
            inner = random_graph(seed + i, depth - 1)
            fed = [r.choice(values) for _ in inner.inputs]
            values += b.node(Fused(inner, "pointwise"), *fed, name=f"region{i}").outputs
        else:
            values += r.choice(choices)(x, y, i)
    outputs = r.sample(values, min(3, len(values)))
    b.updates = (0,) if r.random() < 0.3 else ()
    return b.build(outputs)
