"""Every kind of region, compiled and compared with the interpreter; the number of launches shows what was fused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from compiled import Array, check, compiled, run_program
from mxforge.ir.dialects.core import CoreBuilder, evaluate_graph
from mxforge.ir.graph import Graph, Value
from mxforge.ir.manifest import ManifestError, program_to_bytes
from mxforge.ir.scalar import ReduceOp
from mxforge.ir.types import DType, TensorType
from mxforge.passes.manager import Options
from mxforge.runtime.host.executable import Executable

F32, I32 = DType.F32, DType.I32


def tensor(*shape: int, dtype: DType = F32) -> TensorType:
    return TensorType(shape, dtype)


def normal(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


Case = tuple[Graph, list[Array], int]  # graph, inputs, expected launches


def pointwise() -> Case:
    b = CoreBuilder()
    x, y = b.input(tensor(5, 37)), b.input(tensor(37))
    return b.build([b.mul(b.add(b.exp(x), b.broadcast_to(y, (5, 37))), 2.0)]), [normal(5, 37), normal(37)], 1


def shared_value() -> Case:
    b = CoreBuilder()
    x = b.input(tensor(50, 37))
    y = b.tanh(x)
    return b.build([b.mul(y, b.sigmoid(y))]), [normal(50, 37)], 1


def two_results() -> Case:
    b = CoreBuilder()
    y = b.exp(b.input(tensor(50, 37)))
    return b.build([y, b.add(y, 1.0)]), [normal(50, 37)], 1


def _softmax(b: CoreBuilder, x: Value, axis: int) -> Value:
    shape = x.type.shape
    e = b.exp(b.sub(x, b.broadcast_to(b.max(x, axis, keepdims=True), shape)))
    return b.div(e, b.broadcast_to(b.sum(e, axis, keepdims=True), shape))


def softmax() -> Case:
    b = CoreBuilder()
    return b.build([_softmax(b, b.input(tensor(50, 37)), 1)]), [normal(50, 37)], 1


def softmax_with_prologue() -> Case:
    b = CoreBuilder()
    return b.build([_softmax(b, b.mul(b.input(tensor(50, 137)), 3.0), 1)]), [normal(50, 137)], 1


def softmax_over_a_middle_axis() -> Case:
    b = CoreBuilder()
    return b.build([_softmax(b, b.input(tensor(5, 37, 9)), 1)]), [normal(5, 37, 9)], 1


def long_rows() -> Case:
    b = CoreBuilder()
    return b.build([_softmax(b, b.input(tensor(3, 40000)), 1)]), [normal(3, 40000)], 1


def layer_norm() -> Case:
    b = CoreBuilder()
    x, gamma, beta = b.input(tensor(20, 64)), b.input(tensor(64)), b.input(tensor(64))
    shape = x.type.shape
    centred = b.sub(x, b.broadcast_to(b.mean(x, 1, keepdims=True), shape))
    scale = b.rsqrt(b.add(b.mean(b.square(centred), 1, keepdims=True), 1e-5))
    normed = b.mul(b.mul(centred, b.broadcast_to(scale, shape)), b.broadcast_to(gamma, shape))
    return b.build([b.add(normed, b.broadcast_to(beta, shape))]), [normal(20, 64), normal(64), normal(64)], 1


def index_maps() -> Case:
    b = CoreBuilder()
    y = b.transpose(b.input(tensor(6, 8, 10)), (2, 0, 1))
    y = b.reverse(b.slice(y, (1, 0, 2), (9, 6, 8), (2, 1, 3)), (0,))
    y = b.pad(y, b.constant(3.0, F32), (1, 0, 2), (0, 1, 2))
    return b.build([b.add(y, 1.0)]), [normal(6, 8, 10)], 4


def concatenation() -> Case:
    b = CoreBuilder()
    x, y = b.input(tensor(3, 4)), b.input(tensor(3, 5))
    return b.build([b.concat([b.exp(x), y, b.neg(x)], 1)]), [normal(3, 4), normal(3, 5)], 3


def take() -> Case:
    b = CoreBuilder()
    x, i = b.input(tensor(30, 7)), b.input(tensor(4, 5, dtype=I32))
    return b.build([b.take(x, i, 0)]), [normal(30, 7), np.arange(-5, 15, dtype=np.int32).reshape(4, 5)], 1


def reductions() -> Case:
    b = CoreBuilder()
    x = b.input(tensor(6, 8, 10))
    return b.build([b.sum(x, (0, 2)), b.prod(x, 1), b.max(x), b.min(x, (1, 2))]), [normal(6, 8, 10)], 4


def integers() -> Case:
    b = CoreBuilder()
    x = b.input(tensor(33, dtype=I32))
    positive = b.gt(x, 0)
    return b.build([b.select(positive, b.mul(x, x), b.sub(x, 7)), positive]), [np.arange(-16, 17, dtype=np.int32)], 1


def max_pool() -> Case:
    b = CoreBuilder()
    window = ((1, 1, 3, 3), (1, 1, 2, 2), ((0, 0), (0, 0), (1, 1), (1, 1)))
    return b.build([b.reduce_window(ReduceOp.MAX, b.input(tensor(2, 5, 9, 9)), *window)]), [normal(2, 5, 9, 9) - 2], 1


def dense() -> Case:
    b = CoreBuilder()
    x, w, bias = b.input(tensor(7, 33)), b.input(tensor(20, 33), parameter=True), b.input(tensor(20), parameter=True)
    y = b.add(b.dot(x, w, (), (), (1,), (1,)), b.broadcast_along(bias, (7, 20), 1))
    return b.build([b.maximum(y, 0.0)]), [normal(7, 33), normal(20, 33), normal(20)], 1


def batched_product() -> Case:
    b = CoreBuilder()
    return (
        b.build([b.matmul(b.input(tensor(3, 7, 33)), b.input(tensor(3, 33, 20)))]),
        [normal(3, 7, 33), normal(3, 33, 20)],
        1,
    )


def recurrence() -> Case:
    steps, batch, width = 5, 3, 8
    step = CoreBuilder("step")
    h, x, w = step.input(tensor(batch, width)), step.input(tensor(batch, width)), step.input(tensor(width, width))
    state = step.tanh(step.add(x, step.dot(h, w, (), (), (1,), (1,))))
    body = step.build([state, state])
    b = CoreBuilder()
    xs, h0 = b.input(tensor(steps, batch, width)), b.input(tensor(batch, width))
    weight = b.input(tensor(width, width), parameter=True)
    results = b.scan(body, [h0], [xs], [weight], steps)
    return b.build(list(results)), [normal(steps, batch, width), normal(batch, width), normal(width, width)], 6


def positions() -> Case:
    b = CoreBuilder()
    x = b.input(tensor(6, 8, 10))
    data = np.round(normal(6, 8, 10))  # many equal values: the first is the result
    data[2, 3, 4] = data[2, 5, 4] = np.nan
    y = b.input(tensor(9))
    return b.build([b.arg_reduce("max", x, 1), b.arg_reduce("min", y, 0)]), [data, normal(9)], 2


def random_bits() -> Case:
    b = CoreBuilder()
    key = b.input(tensor(4, dtype=DType.U32))
    return b.build([b.random_bits(key, (3, 35))]), [np.array([1, 2, 3, 0xFFFFFFFF], np.uint32)], 1


def running_sums() -> Case:
    b = CoreBuilder()
    x = b.input(tensor(4, 9, 5))
    sums = b.cumulative(ReduceOp.ADD, x, 1)
    return b.build([sums, b.cumulative(ReduceOp.MAX, x, 2, reverse=True)]), [normal(4, 9, 5)], 2


def scatters() -> Case:
    b = CoreBuilder()
    x, i, u = b.input(tensor(4, 6, 5)), b.input(tensor(4, 3, 1, dtype=I32)), b.input(tensor(4, 3, 6))
    at = np.array([[[0], [4], [0]], [[7], [-1], [2]], [[1], [1], [1]], [[3], [2], [0]]], np.int32)
    arrays = [normal(4, 6, 5), at, normal(4, 3, 6)]
    return b.build([b.scatter(x, i, u, op, (2,), 1) for op in ("set", ReduceOp.ADD)]), arrays, 2


def sorts() -> Case:
    b = CoreBuilder()
    x = b.input(tensor(6, 23, 4))
    data = np.round(normal(6, 23, 4) * 2)
    data[1, 5, 2], data[2, 3, 1], data[2, 4, 1] = np.nan, -np.inf, -0.0
    places = b.iota((6, 23, 4), I32, 1)
    down = b.sort([x, places], 1, descending=True)
    return b.build([*b.sort([x, places], 1), *down]), [data], 6


CASES: list[Callable[[], Case]] = [
    pointwise,
    shared_value,
    two_results,
    softmax,
    softmax_with_prologue,
    softmax_over_a_middle_axis,
    long_rows,
    layer_norm,
    index_maps,
    concatenation,
    take,
    reductions,
    integers,
    max_pool,
    dense,
    batched_product,
    recurrence,
    positions,
    random_bits,
    running_sums,
    scatters,
    sorts,
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.__name__)
def test_regions_agree_with_the_interpreter(case: Callable[[], Case]) -> None:
    graph, arrays, launches = case()
    program = check(graph, *arrays)
    assert len(program.launches) == launches


def _scaled_sum(*shape: int) -> Graph:
    b = CoreBuilder()
    x, y = b.input(tensor(*shape)), b.input(tensor(shape[-1]))
    return b.build([b.mul(b.add(x, b.broadcast_to(y, shape)), 2.0)])


def test_new_extents_use_existing_code() -> None:
    options = Options(static_shape=False)
    shapes = [(5, 37), (1000, 16), (2, 9000), (3, 4, 5)]
    codes: set[tuple[bytes, ...]] = set()
    for shape in shapes:
        graph, arrays = _scaled_sum(*shape), [normal(*shape), normal(shape[-1])]
        program = compiled(graph, options)
        (found,) = run_program(program, arrays)
        assert np.array_equal(found, (arrays[0] + arrays[1]) * np.float32(2))
        codes.add(program.code)
    assert len(codes) == 1


def test_dynamic_kernels_accept_any_strides() -> None:
    b = CoreBuilder()
    x, y = b.input(tensor(7, 33)), b.input(tensor(33, 7))
    graph = b.build([b.sub(x, b.transpose(y, (1, 0))), b.transpose(x, (1, 0))])
    arrays = [normal(7, 33), normal(33, 7)]
    found = run_program(compiled(graph, Options(static_shape=False)), arrays)
    assert np.array_equal(found[0], arrays[0] - arrays[1].T)
    assert np.array_equal(found[1], arrays[0].T)


def test_results_of_a_region_can_overwrite_its_operands() -> None:
    """Each result reads both operands, so none may be stored before all are computed."""
    b = CoreBuilder()
    x, y = b.input(tensor(1000)), b.input(tensor(1000))
    total = b.add(x, y)
    graph = b.build([total, b.mul(total, b.sub(x, y))])
    program = compiled(graph)
    assert len(program.launches) == 1
    executable = Executable(program)
    assert all(executable.may_overwrite(i, k) for i in range(2) for k in range(2))
    left, right = normal(1000), normal(1000)
    expected = evaluate_graph(graph, [left.copy(), right.copy()])
    addresses = [left.ctypes.data, right.ctypes.data]
    executable.run(addresses, addresses)
    for found, reference in zip((left, right), expected, strict=True):
        np.testing.assert_allclose(found, reference, 1e-6)


def test_a_python_function_between_regions() -> None:
    b = CoreBuilder()
    x = b.input(tensor(4, 6))
    (found,) = b.host_callback(lambda a: [np.cumsum(a, 1, dtype=np.float32)], [tensor(4, 6)], b.exp(x))
    program = check(b.build([b.neg(found), b.transpose(found)]), normal(4, 6))
    assert len(program.functions) == 1
    with pytest.raises(ManifestError, match="calls Python functions"):
        program_to_bytes(program)


@pytest.mark.parametrize("taken", [True, False])
def test_a_python_function_in_a_branch(taken: bool) -> None:
    calls: list[int] = []

    def doubled(a: np.ndarray) -> list[np.ndarray]:
        calls.append(1)
        return [a * 2]

    def branch(called: bool) -> Graph:
        inner = CoreBuilder("branch")
        x = inner.input(tensor(4))
        return inner.build(inner.host_callback(doubled, [tensor(4)], x) if called else [x])

    b = CoreBuilder()
    pred, x = b.input(TensorType((), DType.BOOL)), b.input(tensor(4))
    program = compiled(b.build(b.cond(pred, branch(True), branch(False), x)))
    (found,) = run_program(program, [np.array(taken), np.arange(4, dtype=np.float32)])
    np.testing.assert_array_equal(found, np.arange(4) * (2 if taken else 1))
    assert bool(calls) == taken


@pytest.mark.parametrize("axis", [0, 1])
def test_reductions_over_rows_and_columns_of_a_square_matrix(axis: int) -> None:
    """Sums over one axis are broadcast along each axis, as for squared distances."""
    b = CoreBuilder()
    x = b.input(TensorType((5, 5), DType.F32))
    s = b.reduce(ReduceOp.ADD, b.mul(x, x), axis)
    both = [b.broadcast(s, (5, 5), (k,)) for k in range(2)]
    check(b.build([b.add(*both), b.sub(x, both[axis]), b.sub(x, both[1 - axis])]), normal(5, 5))


def test_products_with_equal_kernels_and_different_operand_names() -> None:
    """`x y` and `z z^T` have the same kernel; the second reads one value as two buffers with different names."""
    b = CoreBuilder()
    x, y = b.input(TensorType((6, 6), DType.F32)), b.input(TensorType((6, 6), DType.F32))
    z = b.tanh(x)
    products = [b.dot(x, y, [], [], [1], [1]), b.dot(z, z, [], [], [1], [1])]
    check(b.build(products), normal(6, 6), normal(6, 6))
    check(b.build(products[::-1]), normal(6, 6), normal(6, 6))


def test_a_value_gathered_by_itself() -> None:
    """One region reads the value at a point, as an index, and at the position of this index."""
    b = CoreBuilder()
    x = b.input(TensorType((7,), DType.I64))
    y = b.mul(x, x)
    taken = b.take(y, y, 0)
    check(b.build([b.maximum(taken, b.neg(taken))]), np.array([1, 0, 2, 1, 0, 2, 1]))
