"""Upstream MLIR and our rules lower every primitive: whole graphs, as one StableHLO module, compute what core means."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from mxforge.codegen.driver import compile_graph
from mxforge.codegen.mlir.target import MlirTarget
from mxforge.ir.dialects.core import CoreBuilder, HostCallback, SymmetricEigen, While, evaluate_graph
from mxforge.ir.graph import Graph, Op, Value
from mxforge.ir.scalar import ReduceOp
from mxforge.ir.types import DType, TensorType
from mxforge.passes.eliminate import EliminateDeadCode
from mxforge.passes.manager import Context, Pass
from mxforge.runtime.devices import HOST
from printed_graphs import every_primitive

pytest.importorskip("torch_mlir.ir", reason="the torch-mlir wheel, which holds upstream MLIR, is not installed")

Array = np.ndarray[Any, Any]
F32, F64, I32, I64, U8 = DType.F32, DType.F64, DType.I32, DType.I64, DType.U8
DTYPES = (DType.F16, F32, F64, DType.I8, DType.I16, I32, I64, U8, DType.U16, DType.U32, DType.U64)
APART = (HostCallback, SymmetricEigen)  # eigenvalues have any order


class Whole(MlirTarget):
    """The target, with graphs as they are: loops and branches are part of the module."""

    @property
    def passes(self) -> tuple[Pass, ...]:
        return ()


def run_module(graph: Graph, arrays: Sequence[Array]) -> list[Array]:
    """The results of a graph as one module."""
    b = CoreBuilder()
    inputs = [b.input(v.type) for v in graph.inputs]
    called = b.build(b.call(graph, *inputs))
    executable = HOST.load(compile_graph(called, Whole.of(HOST.target_for())))
    operands = [np.array(a, order="C") for a in arrays]
    results = [np.empty(t.shape, t.dtype.numpy) for t in graph.output_types()]
    executable.run([a.ctypes.data for a in operands], [r.ctypes.data for r in results])
    for before, after in zip(arrays, operands, strict=True):
        np.testing.assert_array_equal(before, after, "an operand was written")
    return results


def numbers(type: TensorType, rng: np.random.Generator) -> Array:
    if type.dtype is DType.BOOL:
        return rng.integers(0, 2, type.shape).astype(np.bool_)
    made = rng.standard_normal(type.shape) if type.dtype.is_float else rng.integers(0, 9, type.shape)
    return np.asarray(made, type.dtype.numpy)


def assert_agrees(graph: Graph, tolerance: float = 1e-5) -> None:
    rng = np.random.default_rng(0)
    arrays = [numbers(v.type, rng) for v in graph.inputs]
    expected = evaluate_graph(graph, arrays)
    for i, (ours, theirs, value) in enumerate(zip(run_module(graph, arrays), expected, graph.outputs, strict=True)):
        assert value.node is not None
        if value.type.dtype.is_float:
            limit = 2e-3 if value.type.dtype is DType.F16 else tolerance
            np.testing.assert_allclose(ours, theirs, limit, limit, err_msg=f"{i}: {value.node.describe()}")
        else:
            np.testing.assert_array_equal(ours, theirs, f"{i}: {value.node.describe()}")


def check(build: Callable[[CoreBuilder], Iterable[Value]], tolerance: float = 1e-5) -> None:
    """Compile the values as the results of one module."""
    b = CoreBuilder("all")
    assert_agrees(b.build(list(build(b))), tolerance)


def positive(b: CoreBuilder, shape: tuple[int, ...], dtype: DType) -> Value:
    """Matrices that have a Cholesky factor."""
    x = b.input(TensorType(shape, dtype))
    order = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
    identity = b.broadcast_to(b.constant(np.eye(shape[-1]), dtype), shape)
    return b.add(b.matmul(x, b.transpose(x, order)), identity)


def test_every_primitive() -> None:
    """All primitives of one graph in one module, except those that the host computes."""
    graph = every_primitive()
    kept = [v for v in graph.outputs if not any(isinstance(op, APART) or is_limited(op) for op in ops_for(graph, v))]
    assert len(kept) > 45
    b = CoreBuilder("every")
    results = b.inline(alone(graph, kept), [b.input(v.type) for v in graph.inputs])
    narrow = (DType.BF16, DType.F16)
    assert_agrees(b.build([b.cast(v, F32) if v.type.dtype in narrow else v for v in results]), 1e-4)


def alone(graph: Graph, outputs: Sequence[Value]) -> Graph:
    """The graph that computes only some of the outputs."""
    reduced = replace(graph, outputs=tuple(outputs), updates=(), private=frozenset[int]())
    return EliminateDeadCode().run(reduced, Context(HOST.target_for()))


def ops_for(graph: Graph, output: Value) -> list[Op]:
    return [node.op for node in alone(graph, [output]).nodes]


def is_limited(op: Op) -> bool:
    """True for a loop with a limit, which the reference enforces."""
    return isinstance(op, While) and op.limit is not None


def test_scatter() -> None:
    def build(b: CoreBuilder) -> Iterable[Value]:
        for dtype in DTYPES:
            x, updates = b.input(TensorType((5, 3), dtype)), b.input(TensorType((6, 3), dtype))
            at = b.constant(np.array([[1], [4], [1], [-1], [5], [1]], np.int32))  # repeated, and out of range
            for op in ("set", "add", "max", "min", "mul"):
                yield b.scatter(x, at, updates, op, (0,))
        batched, updates = b.input(TensorType((2, 3, 4, 5), F32)), b.input(TensorType((2, 7, 4), F32))
        for dtype in (DType.I8, I64, U8, DType.U32):
            at = b.input(TensorType((2, 7, 2), dtype))
            yield b.scatter(batched, at, updates, "add", (3, 1), 1)
        yield b.scatter(batched, b.input(TensorType((0, 1), I32)), b.input(TensorType((0, 3, 4, 5), F32)), "set", (0,))
        yield b.scatter(
            b.input(TensorType((3, 0), F32)),
            b.input(TensorType((2, 1), I32)),
            b.input(TensorType((2, 0), F32)),
            "add",
            (0,),
        )

    check(build)


def test_sort() -> None:
    def build(b: CoreBuilder) -> Iterable[Value]:
        for dtype in DTYPES:
            x = b.input(TensorType((3, 37), dtype))
            for descending in (False, True):
                yield from b.sort([x, b.iota((3, 37), I32, 1)], 1, descending=descending)
        for n in (0, 1, 2, 3, 4, 5, 8, 9, 64, 65):
            yield from b.sort([b.input(TensorType((2, n, 3), F32)), b.iota((2, n, 3), I64, 1)], 1)
        missing = np.array([np.nan, 1, np.inf, -np.inf, np.nan, -0.0, 0.0], np.float32)
        for descending in (False, True):
            yield from b.sort([b.constant(missing), b.iota((7,), I32, 0)], 0, descending=descending)
        yield from b.sort([b.input(TensorType((0, 4), F32))], 1)

    check(build)


def test_windows() -> None:
    def build(b: CoreBuilder) -> Iterable[Value]:
        for dtype in (F32, F64, I32, DType.I8, U8):
            x = b.input(TensorType((2, 3, 9, 8), dtype))
            window, strides, padding = (1, 1, 3, 2), (1, 1, 2, 3), ((0, 0), (0, 0), (1, 2), (0, 1))
            for op in (ReduceOp.ADD, ReduceOp.MAX, ReduceOp.MIN, ReduceOp.MUL):
                yield b.reduce_window(op, x, window, strides, padding)
                yield b.reduce_window(op, x, (1, 2, 2, 2), (1, 1, 1, 1), ((0, 0),) * 4, (1, 1, 2, 3))
                for axis in (0, 2, 3):
                    yield b.cumulative(op, x, axis)
                    yield b.cumulative(op, x, axis, reverse=True)
            if dtype.is_float:
                pooled = b.reduce_window(ReduceOp.MAX, x, window, strides, padding)
                yield b.select_and_scatter(x, pooled, window, strides, padding)
        row = b.input(TensorType((1, 9), F32))
        taken = b.input(TensorType((1, 9), F32))
        yield b.select_and_scatter(row, taken, (1, 3), (1, 1), ((0, 0), (1, 1)))
        missing = b.constant(np.array([1, np.nan, 3, np.nan, -np.inf, -np.inf], np.float32))
        yield b.select_and_scatter(missing, b.constant(np.ones(4, np.float32)), (3,), (1,), ((0, 0),))
        yield b.cumulative(ReduceOp.ADD, b.input(TensorType((3, 0), F32)), 1)
        yield b.cumulative(ReduceOp.ADD, b.input(TensorType((3, 1), F32)), 1)
        yield b.reduce_window(ReduceOp.ADD, row, (1, 3), (1, 1), ((0, 0), (-1, -1)))

    check(build)


def test_moves() -> None:
    def build(b: CoreBuilder) -> Iterable[Value]:
        for dtype in (F32, DType.F16, I64, U8, DType.BOOL):
            x = b.input(TensorType((4, 1, 6), dtype))
            yield b.reverse(x, (0, 2))
            yield b.concat([x, x, b.slice_axis(x, 2, 1, 1), b.slice_axis(x, 2, 0, 2)], 2)
            yield b.pad(x, b.constant(1, dtype), (1, 0, -2), (0, 2, 3), (2, 0, 1))
            yield b.slice(x, (1, 0, 0), (4, 1, 6), (2, 1, 4))
            yield b.transpose(b.broadcast(x, (2, 4, 1, 6), (1, 2, 3)), (3, 0, 2, 1))
            yield b.gather(x, b.constant(np.array([[9], [-3], [2]], np.int32)), (0,))
            yield b.gather(x, b.input(TensorType((4, 3, 1), U8)), (2,), 1)
            yield b.reshape(x, (2, 12))
        empty = b.input(TensorType((0, 3), F32))
        yield from (b.sum(empty, (0,)), b.concat([empty, empty], 1), b.reverse(empty, (1,)), b.transpose(empty))
        yield b.pad(empty, b.constant(2.0, F32), (1, 0), (1, 0))

    check(build)


@pytest.mark.parametrize("dtype", [F32, F64])
def test_factorizations(dtype: DType) -> None:
    def build(b: CoreBuilder) -> Iterable[Value]:
        for shape in ((5, 5), (2, 3, 4, 4), (1, 1), (0, 3, 3)):
            factor = b.cholesky(positive(b, shape, dtype))
            yield factor
            y = b.input(TensorType((*shape[:-1], 3), dtype))
            for lower in (True, False):
                a = factor if lower else b.transpose(factor, (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2))
                yield from (b.triangular_solve(a, y, lower, transpose) for transpose in (False, True))
        yield b.cholesky(b.constant(np.array([[4, 2, 2], [2, 1, 0], [2, 0, 9]]), dtype))  # its second pivot is zero

    check(build, 1e-4)


@pytest.mark.parametrize("dtype", [F32, F64])
def test_factorizations_that_stablehlo_calls(dtype: DType) -> None:
    """Of singular matrices, rows of zeros, and matrices without elements too."""
    singular = np.array([[1, 2, 3], [2, 4, 6], [0, 0, 0]], float)
    missing = np.array([[1, np.nan], [2, 3]], float)

    def build(b: CoreBuilder) -> Iterable[Value]:
        for shape in ((6, 6), (2, 3, 4, 4), (1, 1), (0, 3, 3)):
            yield from b.lu(b.input(TensorType(shape, dtype)))
        for shape in ((6, 6), (2, 3, 3, 5), (1, 4), (1, 1), (0, 2, 3)):
            yield from b.lq(b.input(TensorType(shape, dtype)))
        for matrix in (singular, singular.T, missing):
            yield from b.lu(b.constant(matrix, dtype))
        yield from b.lq(b.constant(np.triu(singular), dtype))

    check(build, 1e-5)
    b = CoreBuilder("singular")  # whose rotation is not determined
    lower, q = run_module(b.build(b.lq(b.input(TensorType((3, 3), dtype)))), [singular.astype(dtype.numpy)])
    np.testing.assert_allclose(lower @ q, singular, 1e-5, 1e-5)
    np.testing.assert_allclose(q @ q.T, np.eye(3), 1e-5, 1e-5)


@pytest.mark.parametrize("dtype", [F32, F64])
def test_eigenvalues(dtype: DType) -> None:
    rng = np.random.default_rng(0)
    b = CoreBuilder("eigen")
    shapes = ((2, 3, 5, 5), (1, 1), (12, 12), (3, 3), (0, 2, 2))
    graph = b.build([v for shape in shapes for v in b.symmetric_eigen(b.input(TensorType(shape, dtype)))])
    arrays = [rng.standard_normal(shape).astype(dtype.numpy) for shape in shapes]
    arrays[3] = np.diag([2, 2, -1]).astype(dtype.numpy)  # equal eigenvalues
    results = run_module(graph, arrays)
    tolerance = 1e-5 if dtype is F32 else 1e-12
    for x, values, vectors in zip(arrays, results[::2], results[1::2], strict=True):
        symmetric = np.tril(x) + np.swapaxes(np.tril(x, -1), -1, -2)
        np.testing.assert_allclose(np.sort(values), np.linalg.eigvalsh(x, "L"), tolerance, tolerance)
        np.testing.assert_allclose(vectors @ symmetric, values[..., None] * vectors, tolerance, tolerance)
    arrays[0][0, 1, 2, 1] = np.nan
    values, vectors, *_ = run_module(graph, arrays)
    assert np.isnan(values).sum() == 5 and np.isnan(vectors).sum() == 25


def nested(build: Callable[..., Iterable[Value]], *types: TensorType) -> Graph:
    b = CoreBuilder("nested")
    return b.build(list(build(b, *(b.input(t) for t in types))))


def test_control_flow() -> None:
    """Tensors that a loop exchanges, replaces, keeps or writes in part, and equal tensors that it changes apart."""
    row, square, number = TensorType((6,), F32), TensorType((6, 6), F32), TensorType((), I32)

    def more(b: CoreBuilder, step: Value, *rest: Value) -> Iterable[Value]:
        return [b.lt(step, 5)]

    def exchange(b: CoreBuilder, step: Value, x: Value, y: Value, z: Value) -> Iterable[Value]:
        written = b.scatter(x, b.reshape(step, (1, 1)), b.reshape(b.cast(step, F32), (1,)), "set", (0,))
        return [b.add(step, 1), y, written, b.tanh(b.add(z, b.broadcast_to(b.sum(x), (6,))))]

    def changed(b: CoreBuilder, step: Value, x: Value, y: Value) -> Iterable[Value]:
        at, one = b.reshape(step, (1, 1)), b.reshape(b.mul(b.cast(step, F32), 3.0), (1,))
        return [b.add(step, 1), b.scatter(x, at, one, "add", (0,)), y]

    def step(b: CoreBuilder, carry: Value, item: Value, weights: Value) -> Iterable[Value]:
        following = b.tanh(b.add(b.dot(carry, weights, (), (), (0,), (0,)), item))
        return [following, b.mul(following, 2.0)]

    def build(b: CoreBuilder) -> Iterable[Value]:
        x, y, z, weights = (b.input(t) for t in (row, row, row, square))
        zero = b.constant(np.array(0, np.int32))
        yield from b.while_(nested(more, number, row, row, row), nested(exchange, number, row, row, row), zero, x, y, z)
        equal = b.exp(x)
        loop = nested(more, number, row, row), nested(changed, number, row, row)
        yield from b.while_(*loop, zero, equal, equal)
        yield from b.while_(*loop, b.constant(np.array(9, np.int32)), equal, y)  # no step
        for reverse in (False, True):
            yield from b.scan(nested(step, row, row, square), [x], [weights], [weights], 6, reverse=reverse)
        keep, swap = (
            nested(lambda b, x, y: [x, y, b.sum(x)], row, row),
            nested(lambda b, x, y: [y, x, b.sum(y)], row, row),
        )
        for limit in (-100.0, 100.0):
            outcome = b.cond(b.lt(b.sum(x), limit), keep, swap, x, y)
            yield from outcome
            yield b.scatter(
                outcome[0], b.constant(np.array([[0]], np.int32)), b.constant(np.ones(1, np.float32)), "set", (0,)
            )
        inner = nested(lambda b, s, x, y: b.while_(*loop, zero_of(b), x, y)[1:], number, row, row)
        yield from b.cond(b.lt(b.sum(x), 100.0), inner, nested(lambda b, s, x, y: [y, x], number, row, row), zero, x, y)

    check(build)


def zero_of(b: CoreBuilder) -> Value:
    return b.constant(np.array(0, np.int32))
