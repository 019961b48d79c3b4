"""Every primitive's gradient against central differences, in float64. The table of samples is proven total."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from mxforge.ir.dialects.core import (
    LQ,
    LU,
    PRIMITIVES,
    ArgReduce,
    ArgSort,
    Broadcast,
    Call,
    Cast,
    Cholesky,
    Concat,
    Cond,
    Constant,
    Conv,
    ConvWeightGradient,
    CoreBuilder,
    CsrDot,
    Cumulative,
    Dot,
    Fused,
    Gather,
    HostCallback,
    HostGradient,
    Iota,
    Pad,
    Pointwise,
    Primitive,
    RandomBits,
    Reduce,
    ReduceWindow,
    Relayout,
    Reshape,
    Reverse,
    Scan,
    Scatter,
    SelectAndScatter,
    Size,
    Slice,
    Sort,
    SymmetricEigen,
    Transpose,
    TriangularSolve,
    While,
    gradient_graph,
    interpret,
)
from mxforge.ir.graph import Graph, GraphError, Value
from mxforge.ir.scalar import BITWISE, SHIFTS, ReduceOp, ScalarOp
from mxforge.ir.types import DType, Layout, TensorType

Array = np.ndarray[Any, Any]
F64 = DType.F64
RANDOM = np.random.default_rng(7)


def real(*shape: int, low: float = -1, high: float = 1) -> Array:
    return np.asarray(RANDOM.uniform(low, high, shape))


def spaced(*shape: int) -> Array:
    """Distinct numbers, so far apart that a small step preserves their order, and none near 0."""
    n = int(np.prod(shape))
    return (RANDOM.permutation(n).reshape(shape) - n / 2 + 0.25) / 4


def definite(batch: int, n: int) -> Array:
    """Symmetric matrices whose eigenvalues are positive and far apart."""
    q = np.linalg.qr(real(batch, n, n))[0]
    return q @ (np.arange(1.0, n + 1)[:, None] * np.swapaxes(q, 1, 2))


def ints(*rows: Any) -> Array:
    return np.array(rows, np.int64)


def graph(build: Callable[..., Value | Sequence[Value]], *shapes: tuple[int, ...]) -> Graph:
    b = CoreBuilder("body")
    results = build(b, *(b.input(TensorType(s, F64)) for s in shapes))
    return b.build([results] if isinstance(results, Value) else results)


def step(b: CoreBuilder, h: Value, x: Value, w: Value) -> Sequence[Value]:
    """A recurrent step: the same value is carried and stacked."""
    new = b.tanh(b.add(b.mul(h, w), x))
    return [new, new, b.mul(x, h)]


POSITIVE = (ScalarOp.LOG, ScalarOp.LOG2, ScalarOp.LOG10, ScalarOp.SQRT, ScalarOp.RSQRT, ScalarOp.POW)
SCALARS = [op for op in ScalarOp if op not in BITWISE and op not in SHIFTS]


def scalar_operands(op: ScalarOp) -> list[Array]:
    """Points in the domain of `op`, away from its kinks."""
    low, high = (0.2, 2.0) if op in POSITIVE else (1.2, 3.0) if op is ScalarOp.ACOSH else (-0.9, 0.9)
    drawn = [real(8, low=low, high=high) for _ in range(op.arity)]
    if op is ScalarOp.SELECT:
        drawn[0] = drawn[0] > 0
    if op in (ScalarOp.DIV, ScalarOp.MOD, ScalarOp.HYPOT, ScalarOp.ATAN2):
        drawn[1] = np.copysign(real(8, low=0.5, high=1.5), drawn[1])
    return [np.where(np.abs(a) < 0.05, 0.3, a) if a.dtype != np.bool_ else a for a in drawn]


def reduce_windows() -> list[tuple[Primitive, list[Array]]]:
    geometry = ((1, 2, 3), (1, 2, 1), ((0, 0), (1, 0), (1, 2)), (1, 1, 1))
    dilated = ((1, 2, 2), (1, 1, 2), ((0, 0), (0, 1), (2, 0)), (1, 2, 3))
    return [(ReduceWindow(op, *g), [spaced(2, 5, 6)]) for op in REAL_REDUCTIONS for g in (geometry, dilated)]


def conv(
    strides: Sequence[int], padding: Sequence[tuple[int, int]], left: Sequence[int], right: Sequence[int], **kw: Any
) -> Conv:
    return Conv(tuple(strides), tuple(padding), tuple(left), tuple(right), **kw)


REAL_REDUCTIONS = (ReduceOp.ADD, ReduceOp.MUL, ReduceOp.MAX, ReduceOp.MIN)
POINTS = ints([[0, 1], [2, 3]], [[1, 0], [2, 3]])  # the last coordinates of both rows agree
OUTSIDE = ints([[0], [-2], [9]], [[1], [1], [4]])
CELL = graph(step, (3,), (3,), (3,))
SQUARE = graph(lambda b, x, y: [b.mul(x, y), b.exp(x)], (4,), (4,))
SUM = graph(lambda b, x, y: [b.add(x, y), b.sin(y)], (4,), (4,))
TRIPLED = graph(lambda b, x, y, z, g: b.mul(b.mul(g, b.square(x)), 3), (4,), (4,), (4,), (4,))
BELOW = graph(lambda b, x, y: b.lt(x, 3.0), (), (3,))
GROW = graph(lambda b, x, y: [b.mul(x, 2.1), b.add(b.sin(y), b.broadcast(x, (3,), ()))], (), (3,))
CUBE = graph(lambda b, x: b.mul(x, b.square(x)), (4,))
CALL_GRADIENT = Graph("gradient", TRIPLED.inputs[:1] + TRIPLED.inputs[2:], TRIPLED.nodes, TRIPLED.outputs)

DEFINITE = definite(2, 4)
SAMPLES: dict[type[Primitive], list[tuple[Primitive, list[Array]]]] = {
    Pointwise: [(Pointwise(op), scalar_operands(op)) for op in SCALARS],
    Cast: [(Cast(F64), [real(3, 2)])],
    Broadcast: [
        (Broadcast((2, 3, 4), (1,)), [real(3)]),
        (Broadcast((2, 3, 4), (0, 2)), [real(2, 1)]),
        (Broadcast((2, 1), ()), [real()]),
        (Broadcast((1, 3), (0, 1)), [real(1, 3)]),
    ],
    Reshape: [(Reshape((3, 4)), [real(2, 6)])],
    Transpose: [(Transpose((2, 0, 1)), [real(2, 3, 4)])],
    Slice: [(Slice((0, 1), (3, 6), (2, 3)), [real(4, 7)]), (Slice((1, 2), (1, 5), (1, 1)), [real(4, 7)])],
    Reverse: [(Reverse((0, 2)), [real(2, 3, 4)])],
    Concat: [(Concat(1), [real(2, 3), real(2, 1), real(2, 2)])],
    Pad: [
        (Pad((1, -1), (-1, 2), (0, 2)), [real(4, 3), real()]),
        (Pad((0, 3), (2, 0), (1, 0)), [real(2, 2), real()]),
    ],
    Relayout: [(Relayout(Layout(2, ((1, 1),))), [real(2, 3, 4)])],
    Gather: [
        (Gather((1, 2)), [real(2, 3, 4), POINTS]),
        (Gather((2,), 1), [real(2, 3, 5), OUTSIDE]),
        (Gather((1, 0)), [real(4, 3), POINTS]),
        (Gather((1,), 1), [real(3, 4, 2), np.array([[5], [0], [-1]])]),
        (Gather((3,), 2), [real(2, 2, 3, 4), np.array([[[0], [3]], [[1], [1]]])]),
    ],
    Scatter: [
        *(
            (Scatter(op, (1, 2)), [spaced(2, 3, 4), POINTS, spaced(2, 2, 2) + 0.3])
            for op in ("set", "add", "mul", "max", "min")
        ),
        *((Scatter(op, (2,), 1), [real(2, 3, 5), OUTSIDE, real(2, 3, 3)]) for op in ("set", "add", "max")),
    ],
    Reduce: [(Reduce(op, axes), [spaced(3, 2, 4)]) for op in REAL_REDUCTIONS for axes in ((0, 2), (1,))],
    ArgReduce: [(ArgReduce("max", 1), [spaced(3, 4)])],
    Cumulative: [(Cumulative(op, 1, r), [spaced(3, 4, 2)]) for op in REAL_REDUCTIONS for r in (False, True)],
    ReduceWindow: reduce_windows(),
    SelectAndScatter: [
        (SelectAndScatter((1, 2, 2), (1, 1, 2), ((0, 0), (1, 0), (0, 1))), [spaced(2, 4, 5), real(2, 4, 3)]),
    ],
    Dot: [
        (Dot((), (), (1,), (0,)), [real(3, 4), real(4, 2)]),
        (Dot((1,), (0,), (3, 0), (1, 3)), [real(2, 3, 4, 5), real(3, 5, 6, 2)]),
        (Dot((), (), (), ()), [real(3), real(2)]),
        (Dot((), (), (1,), (0,), F64), [real(3, 4), real(4, 2)]),
    ],
    Conv: [
        (conv((1, 1), ((1, 1), (0, 2)), (1, 1), (1, 1)), [real(2, 3, 5, 4), real(4, 3, 3, 2)]),
        (conv((2, 3), ((0, 1), (2, 0)), (1, 1), (2, 1), groups=2), [real(2, 4, 6, 7), real(6, 2, 2, 3)]),
        (conv((2,), ((-1, 3),), (3,), (2,), batch_groups=2), [real(4, 3, 5), real(4, 3, 3)]),
        (conv((1,), ((1, 0),), (2,), (1,), groups=3), [real(1, 3, 4), real(3, 1, 2)]),
        (conv((1, 1), ((2, 1), (0, 3)), (3, 2), (1, 2), groups=2), [real(2, 4, 3, 4), real(6, 2, 3, 2)]),
        (conv((2,), ((-1, 3),), (3,), (2,)), [real(2, 3, 5), real(4, 3, 3)]),
        (conv((1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1)), [real(2, 3, 4, 4), real(2, 3, 4, 4)]),
    ],
    ConvWeightGradient: [
        (ConvWeightGradient((3, 2), (1, 1), ((1, 1), (0, 2)), (1, 1)), [real(2, 3, 5, 4), real(2, 4, 5, 5)]),
        (ConvWeightGradient((2, 3), (2, 3), ((0, 1), (2, 0)), (2, 1), 2), [real(2, 4, 6, 7), real(2, 6, 3, 3)]),
    ],
    Cholesky: [(Cholesky(), [DEFINITE])],
    TriangularSolve: [
        (TriangularSolve(low, t), [DEFINITE, real(2, 4, 3)]) for low in (True, False) for t in (True, False)
    ],
    LU: [(LU(), [real(2, 4, 4)])],
    LQ: [(LQ(), [real(3, 3)]), (LQ(), [real(2, 3, 5)])],
    SymmetricEigen: [(SymmetricEigen(), [DEFINITE])],
    ArgSort: [(ArgSort(1), [spaced(3, 4)])],
    CsrDot: [(CsrDot(), [real(4), np.array([1, 0, 2, 1]), np.array([0, 1, 1, 4]), real(3, 2)])],
    Sort: [(Sort(1, d, s), [spaced(3, 4), real(3, 4)]) for d in (False, True) for s in (False, True)],
    Constant: [(Constant(real(2)), [])],
    Iota: [(Iota((3,), F64, 0), [])],
    Size: [(Size(3, F64), [])],
    RandomBits: [(RandomBits((3,)), [np.arange(4, dtype=np.uint32)])],
    Fused: [(Fused(SQUARE, "pointwise"), [real(4), real(4)])],
    Call: [(Call(SQUARE), [real(4), real(4)]), (Call(CUBE, CALL_GRADIENT), [real(4)])],
    Cond: [(Cond(SQUARE, SUM), [np.array(p), real(4), real(4)]) for p in (True, False)],
    While: [(While(BELOW, GROW, limit), [np.array(0.3), real(3)]) for limit in (4, 9)],
    Scan: [(Scan(CELL, 5, 1, 1, reverse), [real(3), real(5, 3), real(3)]) for reverse in (False, True)],
    HostCallback: [
        (
            HostCallback(
                lambda x: [x**2],
                (TensorType((3,), F64),),
                HostGradient(lambda wrt: lambda x, y, g: [2 * x * g], (0,), (0,), (0,), (0,)),
            ),
            [real(3)],
        ),
    ],
}
CASES = [pytest.param(op, arrays, id=f"{op.name}-{i}") for s in SAMPLES.values() for i, (op, arrays) in enumerate(s)]


def single(op: Primitive, arrays: Sequence[Array]) -> Graph:
    """A graph with one node."""
    b = CoreBuilder(op.name)
    operands = [b.input(TensorType(a.shape, DType.from_numpy(a.dtype))) for a in arrays]
    return b.build(b.node(op, *operands).outputs)


def test_every_primitive_has_samples() -> None:
    assert set(SAMPLES) == set(PRIMITIVES.values())


@pytest.mark.parametrize(("op", "arrays"), CASES)
def test_results_have_the_inferred_types(op: Primitive, arrays: list[Array]) -> None:
    g = single(op, arrays)
    for value, result in zip(g.outputs, op.evaluate(*arrays), strict=True):
        assert isinstance(result, np.ndarray)
        assert (result.shape, result.dtype) == (value.type.shape, value.type.dtype.numpy)


@pytest.mark.parametrize(("op", "arrays"), CASES)
def test_gradient_agrees_with_central_differences(op: Primitive, arrays: list[Array]) -> None:
    check_gradient(single(op, arrays), arrays)


def check_gradient(g: Graph, arrays: list[Array], tolerance: float = 1e-6) -> None:
    wrt = [i for i, v in enumerate(g.inputs) if v.type.dtype is F64]
    seeds = [i for i, v in enumerate(g.outputs) if v.type.dtype is F64]
    if not wrt or not seeds:
        return
    cotangents = [real(*g.outputs[i].type.shape) for i in seeds]
    gradients = interpret(gradient_graph(g, wrt, seeds), [*arrays, *cotangents])
    for i, gradient in zip(wrt, gradients, strict=True):
        direction = real(*arrays[i].shape)
        expected = slope(g, arrays, i, direction, seeds, cotangents)
        np.testing.assert_allclose(np.sum(gradient * direction), expected, tolerance, tolerance, err_msg=f"operand {i}")


def slope(
    g: Graph, arrays: list[Array], i: int, direction: Array, seeds: list[int], cotangents: list[Array], h: float = 1e-5
) -> float:
    """The derivative of <cotangents, results> as operand i moves in `direction`."""
    values: list[float] = []
    for sign in (1, -1):
        moved = [a + sign * h * direction if k == i else a for k, a in enumerate(arrays)]
        results = interpret(g, moved)
        values.append(sum(float(np.sum(results[k] * c)) for k, c in zip(seeds, cotangents, strict=True)))
    return (values[0] - values[1]) / (2 * h)


@pytest.mark.parametrize(("op", "arrays"), CASES)
def test_gradient_can_be_differentiated(op: Primitive, arrays: list[Array]) -> None:
    if isinstance(op, HostCallback):
        pytest.skip("the gradient of a callback is a callback without a gradient")
    g = single(op, arrays)
    wrt = [i for i, v in enumerate(g.inputs) if v.type.dtype is F64]
    seeds = [i for i, v in enumerate(g.outputs) if v.type.dtype is F64]
    first = gradient_graph(g, wrt, seeds)
    check_gradient(first, [*arrays, *(real(*g.outputs[i].type.shape) for i in seeds)], 1e-5)


@pytest.mark.parametrize(("op", "arrays"), CASES)
def test_operands_that_are_not_floats_have_no_gradient(op: Primitive, arrays: list[Array]) -> None:
    g = single(op, arrays)
    node = g.nodes[0]
    b = CoreBuilder()
    found = op.vjp(b, node, [b.full_like(v, 0) for v in node.outputs])
    assert len(found) == len(arrays)
    for operand, gradient in zip(node.inputs, found, strict=True):
        assert gradient is None or gradient.type == operand.type
        assert gradient is None or operand.type.dtype.is_float


@pytest.mark.parametrize(("op", "arrays"), CASES)
def test_results_that_vanish_are_zero(op: Primitive, arrays: list[Array]) -> None:
    """For each set of operands that are zero. NaN, from 0 times infinity or 0 divided by 0, counts as 0."""
    node = single(op, arrays).nodes[0]
    for zero in itertools.product((False, True), repeat=len(arrays)):
        if op.vanishes(node, zero):
            with np.errstate(all="ignore"):
                found = op.evaluate(*(np.zeros_like(a) if z else a for a, z in zip(arrays, zero, strict=True)))
            assert not any(np.any(np.nan_to_num(result)) for result in found)


def test_while_names_why_it_has_no_gradient() -> None:
    body = graph(lambda b, x: b.mul(x, 0.5), ())
    b = CoreBuilder("condition")
    x = b.input(TensorType((), F64))
    g = single(While(b.build([b.gt(x, 1)]), body), [np.array(8.0)])
    with pytest.raises(GraphError, match="its number of steps is unbounded"):
        gradient_graph(g, [0], [0])


def test_one_element_of_each_row_has_a_gradient_without_a_scatter() -> None:
    """That of a pick, and so of a cross entropy, is one kernel with what reads it."""
    g = single(Gather((1,), 1), [np.zeros((3, 4)), np.array([[1], [0], [3]])])
    nodes = gradient_graph(g, [0], [0]).nodes
    assert not any(isinstance(node.op, Scatter) for node in nodes)


def test_ties_of_the_maximum() -> None:
    """MXNet's choices: the first operand of maximum, every element of a reduction, the first of a pooling window."""
    b = CoreBuilder()
    x = b.input(TensorType((3,), F64))
    outputs = [b.maximum(x, 1.0), b.max(x), b.reduce_window(ReduceOp.MAX, x, (3,), (1,), ((0, 0),))]
    g = b.build(outputs)
    ones = np.ones(3)
    seeds = [np.ones(3), np.array(1.0), np.ones(1)]
    found = [interpret(gradient_graph(g, [0], [i]), [ones, seeds[i]])[0].tolist() for i in range(3)]
    assert found == [[1, 1, 1], [1, 1, 1], [1, 0, 0]]
