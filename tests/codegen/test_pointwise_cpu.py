"""Every scalar operation on every dtype, and extreme shapes, compiled for this machine."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from compiled import compiled, run_program
from mxforge.ir.dialects.core import CoreBuilder, Pointwise, evaluate_graph
from mxforge.ir.graph import Value
from mxforge.ir.scalar import FLOAT_ONLY, ReduceOp, ScalarOp, result_dtype
from mxforge.ir.types import DType, TensorType

DTYPES = [d for d in DType if d is not DType.BF16]
# Units in the last place, relative to the interpreter's result in the same dtype. Near poles, cancellation adds an
# absolute error.
RELATIVE = {DType.F16: 2e-3, DType.F32: 2e-5, DType.F64: 1e-9}
LENGTH = 203  # not a multiple of any register's lanes


def operands(dtype: DType) -> list[np.ndarray]:
    """Two rows of numbers of a dtype, including special values."""
    rng = np.random.default_rng(dtype.bits)
    if dtype is DType.BOOL:
        return [rng.integers(0, 2, LENGTH).astype(np.bool_) for _ in range(2)]
    if dtype.is_float:
        special = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, np.inf, -np.inf, np.nan]
        pairs = np.array(list(itertools.product(special, special))).T
        rest = rng.standard_normal((2, LENGTH - pairs.shape[1])) * 2
        return [np.concatenate([p, r]).astype(dtype.numpy) for p, r in zip(pairs, rest, strict=True)]
    info = np.iinfo(dtype.numpy)
    special = [0, 1, 2, 3, info.max, info.min, info.max - 1, *([-1, -2, -7] if info.min else [7])]
    pairs = np.array(list(itertools.product(special, special)), dtype=dtype.numpy).T
    rest = rng.integers(max(info.min, -100), 100, (2, LENGTH - pairs.shape[1])).astype(dtype.numpy)
    return [np.concatenate([p, r]) for p, r in zip(pairs, rest, strict=True)]


def is_defined(op: ScalarOp, dtype: DType) -> bool:
    types = [DType.BOOL, dtype, dtype] if op is ScalarOp.SELECT else [dtype] * op.arity
    try:
        result_dtype(op, *types)
    except TypeError:
        return False
    return True


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.value)
def test_every_scalar_operation(dtype: DType) -> None:
    ops = [op for op in ScalarOp if is_defined(op, dtype)]
    arrays = operands(dtype)
    b = CoreBuilder("table")
    x, y = (b.input(TensorType(a.shape, dtype)) for a in arrays)
    condition = b.ge(x, y)
    results = [_apply(b, op, x, y, condition) for op in ops]
    graph = b.build(results)
    with np.errstate(all="ignore"):
        expected = evaluate_graph(graph, arrays)
    for op, found, reference in zip(ops, run_program(compiled(graph), arrays), expected, strict=True):
        assert found.dtype == reference.dtype, op
        inexact = op in FLOAT_ONLY or op in (ScalarOp.POW, ScalarOp.MOD)
        limit = RELATIVE[dtype] if inexact and dtype.is_float else 0.0
        known = _fits(arrays, dtype) if op is ScalarOp.POW else slice(None)
        np.testing.assert_allclose(found[known], reference[known], limit, limit, equal_nan=True, err_msg=op.value)


def _fits(arrays: list[np.ndarray], dtype: DType) -> np.ndarray:
    """True where a power is exact in double and fits its integer type; all other cases are undefined in C."""
    if not dtype.is_integer:
        return np.full(LENGTH, True)
    with np.errstate(all="ignore"):
        power = np.power(*(a.astype(np.float64) for a in arrays))
    info = np.iinfo(dtype.numpy)
    return (power >= info.min) & (power < min(float(info.max), 2.0**50))


def _apply(b: CoreBuilder, op: ScalarOp, x: Value, y: Value, condition: Value) -> Value:
    given = (condition, x, y) if op is ScalarOp.SELECT else (x, y)[: op.arity]
    return b.add_node(Pointwise(op), *given)


@pytest.mark.parametrize("source", DTYPES, ids=lambda d: d.value)
def test_every_conversion(source: DType) -> None:
    """Only for numbers that fit the other dtype: other conversions are undefined in C."""
    x = np.array([0, 1, 1] if source is DType.BOOL else [0, 1, 2, 100, 17, 3] * 7).astype(source.numpy)
    if source.is_float:
        x = x + np.array(0.75, source.numpy)
    b = CoreBuilder("casts")
    value = b.input(TensorType(x.shape, source))
    graph = b.build([b.cast(b.add(value, value) if source is not DType.BOOL else value, d) for d in DTYPES])
    for found, reference in zip(run_program(compiled(graph), [x]), evaluate_graph(graph, [x]), strict=True):
        np.testing.assert_array_equal(found, reference)


SHAPES = [
    (),
    (1,),
    (0,),
    (3, 0, 2),
    (1, 1, 1),
    (7,),
    (16,),
    (17,),
    (4099,),
    (3, 1, 5),
    (2, 3, 4, 5, 3),
    (5, 1),
    (1, 33),
]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "x".join(map(str, s)) or "scalar")
def test_extreme_shapes(shape: tuple[int, ...]) -> None:
    """Pointwise work, broadcasts, reductions of each axis and of all axes, reversals, transposes."""
    b = CoreBuilder("edges")
    x = b.input(TensorType(shape, DType.F32))
    rank = len(shape)
    results = [b.tanh(x), b.broadcast(x, (3, *shape), tuple(range(1, rank + 1))), b.sum(x, list(range(rank)))]
    results += [b.broadcast(x, (*shape, 2), tuple(range(rank)))]
    for axis in range(rank):
        row = b.input(TensorType((shape[axis],), DType.F32))
        results += [b.add(x, b.broadcast_along(row, shape, axis)), b.sum(x, axis), b.reverse(x, (axis,))]
        results += [b.concat([x, b.neg(x)], axis), b.cumulative(ReduceOp.ADD, x, axis)]
        if shape[axis]:
            results += [b.sub(x, b.broadcast_to(b.max(x, axis, keepdims=True), shape))]
            results += [b.take(x, b.constant(np.array([0, shape[axis] - 1], np.int32)), axis)]
    results += [b.transpose(x, tuple(reversed(range(rank))))]
    graph = b.build(results)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(t.shape).astype(np.float32) for t in graph.input_types()]
    for found, reference in zip(run_program(compiled(graph), arrays), evaluate_graph(graph, arrays), strict=True):
        np.testing.assert_allclose(found, reference, 1e-5, 1e-4)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.value)
def test_reductions_of_every_type(dtype: DType) -> None:
    """Reductions and cumulative reductions along both axes; the extents are not multiples of any register's lanes."""
    b = CoreBuilder("reductions")
    x = b.input(TensorType((7, 29), dtype))
    logic = [] if dtype.is_float else [ReduceOp.AND, ReduceOp.OR]
    ops = [ReduceOp.ADD, ReduceOp.MAX, ReduceOp.MIN, ReduceOp.MUL, *logic]
    results = [b.reduce(op, x, [axis]) for op in ops for axis in (0, 1)]
    results += [b.cumulative(op, x, axis) for op in ops for axis in (0, 1)]
    results += [b.arg_reduce(kind, x, 1) for kind in ("max", "min")]
    graph = b.build([*results, *b.sort(x, 1), b.gather(x, b.constant(np.array([[3], [0]], np.int32)), (0,))])
    rng = np.random.default_rng(1)
    array = (1 + rng.standard_normal((7, 29)) / 8 if dtype.is_float else rng.integers(0, 3, (7, 29))).astype(
        dtype.numpy
    )
    limit = 2 * RELATIVE[dtype] if dtype.is_float else 0
    for found, reference in zip(run_program(compiled(graph), [array]), evaluate_graph(graph, [array]), strict=True):
        np.testing.assert_allclose(found, reference, limit, limit)
