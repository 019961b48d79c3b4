"""Kernels and fused regions on the Triton target: they compile without spills, and their TTIR agrees with float64.

Tolerances limit the largest error relative to the largest value: 1e-6 in float32 (2e-6 for sums of products), 2^-8
where results are rounded to bfloat16.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton", reason="Triton is not installed: pip install mxforge[cuda]")

import ml_dtypes
from contraction_kernels import Extras, gemm_kernel
from mxforge.codegen.lower import lower_concat
from mxforge.codegen.triton.schedule import TritonSchedule, schedule_triton
from mxforge.codegen.triton.target import SM90
from mxforge.ir.dialects.core import CoreBuilder
from mxforge.ir.dialects.core.numerics import erf
from mxforge.ir.graph import Value
from mxforge.ir.kernel import (
    Axis,
    AxisKind,
    Buffer,
    Cast,
    Const,
    Contract,
    Kernel,
    Load,
    Local,
    Reduce,
    ReduceOp,
    Ref,
    Scalar,
    Store,
    affine,
)
from mxforge.ir.scalar import ScalarOp
from mxforge.ir.types import DType, TensorType
from support.triton_kernels import emitted, load, relative_error, run_compiled, run_graph, run_source

Array = np.ndarray[Any, Any]
F32, BF16 = DType.F32, DType.BF16
FLOAT, PRODUCTS, SHORT = 1e-6, 2e-6, 2.0**-8


def normal(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def tensor(*shape: int, dtype: DType = F32) -> TensorType:
    return TensorType(shape, dtype)


# -- fused regions

Build = Callable[..., Value]
Reference = Callable[..., Array]


def gelu_chain(b: CoreBuilder, x: Value, y: Value) -> Value:
    z = b.add(b.exp(b.mul(x, 0.5)), b.broadcast_to(y, x.type.shape))
    return b.mul(b.mul(z, 0.5), b.add(b.erf(b.mul(z, 2**-0.5)), 1.0))


def gelu_reference(x: Array, y: Array) -> Array:
    z = np.exp(x / 2) + y
    return 0.5 * z * (1 + erf(z * 2**-0.5))


def softmax(b: CoreBuilder, x: Value, axis: int = -1) -> Value:
    e = b.exp(b.sub(x, b.broadcast_to(b.max(x, axis, keepdims=True), x.type.shape)))
    return b.div(e, b.broadcast_to(b.sum(e, axis, keepdims=True), x.type.shape))


def softmax_reference(x: Array, axis: int = -1) -> Array:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def log_softmax(b: CoreBuilder, x: Value) -> Value:
    centred = b.sub(x, b.broadcast_to(b.max(x, -1, keepdims=True), x.type.shape))
    return b.sub(centred, b.broadcast_to(b.log(b.sum(b.exp(centred), -1, keepdims=True)), x.type.shape))


def layer_norm(b: CoreBuilder, x: Value, gamma: Value, beta: Value) -> Value:
    shape = x.type.shape
    centred = b.sub(x, b.broadcast_to(b.mean(x, -1, keepdims=True), shape))
    scale = b.rsqrt(b.add(b.mean(b.square(centred), -1, keepdims=True), 1e-5))
    normed = b.mul(b.mul(centred, b.broadcast_to(scale, shape)), b.broadcast_to(gamma, shape))
    return b.add(normed, b.broadcast_to(beta, shape))


def layer_norm_reference(x: Array, gamma: Array, beta: Array) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * gamma + beta


def dense(b: CoreBuilder, x: Value, w: Value, bias: Value, residual: Value) -> Value:
    y = b.dot(x, w, (), (), (1,), (1,))
    return b.add(b.maximum(b.add(y, b.broadcast_to(bias, y.type.shape)), 0.0), residual)


def dense_reference(x: Array, w: Array, bias: Array, residual: Array) -> Array:
    return np.maximum(x @ w.T + bias, 0) + residual


REGIONS: dict[str, tuple[Build, Reference, tuple[tuple[int, ...], ...], float]] = {
    "pointwise chain with a broadcast": (gelu_chain, gelu_reference, ((9, 150), (150,)), FLOAT),
    "softmax": (softmax, softmax_reference, ((5, 300),), FLOAT),
    "softmax of short rows": (softmax, softmax_reference, ((3, 41, 17),), FLOAT),
    "softmax of long rows": (softmax, softmax_reference, ((2, 20000),), FLOAT),
    "log_softmax": (log_softmax, lambda x: np.log(softmax_reference(x)), ((5, 300),), FLOAT),
    "layer norm": (layer_norm, layer_norm_reference, ((7, 384), (384,), (384,)), FLOAT),
    "softmax over a middle axis": (
        lambda b, x: softmax(b, x, 1),
        lambda x: softmax_reference(x, 1),
        ((3, 37, 9),),
        FLOAT,
    ),
    "one number": (lambda b, x: b.exp(x), np.exp, ((),), FLOAT),
    "sum over the first axis": (lambda b, x: b.sum(x, 0), lambda x: x.sum(0), ((70, 90),), FLOAT),
    "product over a middle axis": (lambda b, x: b.prod(x, 1), lambda x: x.prod(1), ((6, 8, 10),), FLOAT),
    "least of everything": (lambda b, x: b.min(x), lambda x: x.min(), ((6, 8, 10),), 0.0),
    "transpose": (
        lambda b, x: b.exp(b.transpose(x, (2, 0, 1))),
        lambda x: np.exp(x.transpose(2, 0, 1)),
        ((3, 50, 40),),
        FLOAT,
    ),
    "transpose of matrices": (
        lambda b, x: b.exp(b.transpose(x, (0, 2, 1))),
        lambda x: np.exp(x.transpose(0, 2, 1)),
        ((3, 50, 40),),
        FLOAT,
    ),
    "padding": (
        lambda b, x: b.pad(x, b.constant(3.0, F32), (1, 2), (3, 0)),
        lambda x: np.pad(x, ((1, 3), (2, 0)), constant_values=3),
        ((7, 9),),
        0.0,
    ),
    "moves of moves": (
        lambda b, x: b.neg(b.reverse(b.slice(x, (1, 0), (9, 30), (2, 3)), (1,))),
        lambda x: -x[1:9:2, :30:3][:, ::-1],
        ((9, 31),),
        0.0,
    ),
    "dense layer": (dense, dense_reference, ((70, 100), (50, 100), (50,), (70, 50)), PRODUCTS),
    "dense layer of sequences": (
        lambda b, x, w: b.tanh(b.dot(x, w, (), (), (2,), (0,))),
        lambda x, w: np.tanh(x @ w),
        ((3, 30, 40), (40, 33)),
        PRODUCTS,
    ),
    "batched product": (lambda b, x, y: b.matmul(x, y), lambda x, y: x @ y, ((3, 40, 70), (3, 70, 20)), PRODUCTS),
}


@pytest.mark.parametrize("name", REGIONS)
def test_region(name: str) -> None:
    build, reference, shapes, tolerance = REGIONS[name]
    b = CoreBuilder()
    graph = b.build([build(b, *(b.input(tensor(*s)) for s in shapes))])
    inputs = [normal(*s) for s in shapes]
    (found,), kernels = run_graph(graph, inputs)
    assert len(kernels) == 1
    assert relative_error(found, reference(*(x.astype(np.float64) for x in inputs))) <= tolerance


# -- kernels written by hand


def gemm(rows: int, columns: int, inner: int, dtype: DType, transposed: tuple[bool, bool] = (False, False)) -> Kernel:
    """relu(a b + bias) + residual."""
    extra = (Buffer("bias", dtype, (columns,)), Buffer("residual", dtype, (rows, columns)))

    def epilogue(total, index):
        shifted = Scalar(ScalarOp.ADD, (total, Load("bias", index[-1:])))
        return Scalar(ScalarOp.ADD, (Scalar(ScalarOp.MAX, (shifted, Const(0.0, dtype))), Load("residual", index)))

    return gemm_kernel((), rows, columns, inner, dtype, transposed, extras=Extras(extra, epilogue))


def tiled(kernel: Kernel, **blocks: int) -> TritonSchedule:
    """The derived schedule with other block sizes."""
    schedule = schedule_triton(kernel, SM90)
    return replace(schedule, dims=tuple(replace(d, block=blocks.get(d.name, d.block)) for d in schedule.dims))


@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)])
def test_gemm_of_bfloat16_runs_on_tensor_cores(transposed: tuple[bool, bool]) -> None:
    kernel = gemm(130, 72, 80, BF16, transposed)
    a, b, bias, residual = (
        x.astype(ml_dtypes.bfloat16) for x in (normal(130, 80), normal(80, 72), normal(72), normal(130, 72))
    )
    given = [a.T if transposed[0] else a, b.T if transposed[1] else b, bias, residual]
    (found,), compiled = run_compiled(emitted(kernel, tiled(kernel, m=64, n=32, k=32)), kernel, given)
    a, b, bias, residual = (x.astype(np.float64) for x in (a, b, bias, residual))
    assert relative_error(found, np.maximum(a @ b + bias, 0) + residual) <= SHORT
    assert "wgmma.mma_async" in compiled.ptx


@pytest.mark.parametrize(("precision", "instruction"), [("float32", "tf32"), ("exact", "fma.rn.f32")])
def test_gemm_of_float32_is_not_tf32(precision: str, instruction: str) -> None:
    kernel = gemm(32, 32, 40, F32)
    inputs = [normal(32, 40), normal(40, 32), normal(32), normal(32, 32)]
    source = emitted(kernel, replace(tiled(kernel, m=32, n=32, k=16), precision=precision))
    (found,), compiled = run_compiled(source, kernel, inputs)
    a, b, bias, residual = (x.astype(np.float64) for x in inputs)
    assert relative_error(found, np.maximum(a @ b + bias, 0) + residual) <= PRODUCTS
    assert instruction in compiled.ptx


def test_widened_bfloat16_operands_stay_narrow() -> None:
    """A product of float32 values that were bfloat16: tensor cores read bfloat16; only the cast of the sum rounds."""
    kernel = gemm_kernel((), 64, 32, 48, BF16)
    (stage,) = kernel.stages
    assert isinstance(stage, Store) and isinstance(stage.value, Contract)
    total = replace(stage.value, lhs=Cast(F32, stage.value.lhs), rhs=Cast(F32, stage.value.rhs), dtype=F32)
    rounded = Cast(F32, Cast(BF16, total))
    output = replace(kernel.buffers[-1], dtype=F32)
    kernel = replace(kernel, buffers=(*kernel.buffers[:-1], output), stages=(replace(stage, value=rounded),))
    a, b = normal(64, 48).astype(ml_dtypes.bfloat16), normal(48, 32).astype(ml_dtypes.bfloat16)
    (found,), compiled = run_compiled(emitted(kernel), kernel, [a, b])
    assert "bf16" in compiled.ptx
    assert "tf32" not in compiled.ptx
    assert (found == found.astype(ml_dtypes.bfloat16).astype(np.float32)).all()
    assert relative_error(found, a.astype(np.float64) @ b.astype(np.float64)) <= SHORT


def test_computed_operands_of_a_gemm() -> None:
    """exp of masked elements is 1 and not 0: it must not be added to the sum."""
    kernel = gemm_kernel((), 20, 24, 50)
    (stage,) = kernel.stages
    assert isinstance(stage, Store)
    contract = stage.value
    computed = replace(contract, lhs=Scalar(ScalarOp.EXP, (contract.lhs,)), rhs=Scalar(ScalarOp.EXP, (contract.rhs,)))  # type: ignore[union-attr]
    kernel = replace(kernel, stages=(replace(stage, value=computed),))
    a, b = normal(20, 50), normal(50, 24)
    (found,) = run_source(emitted(kernel), kernel, [a, b])
    assert relative_error(found, np.exp(a.astype(np.float64)) @ np.exp(b.astype(np.float64))) <= PRODUCTS


def test_a_row_times_a_matrix() -> None:
    kernel = gemm_kernel((2,), 1, 40, 70, batched_rhs=False)
    a, b = normal(2, 1, 70), normal(70, 40)
    (found,) = run_source(emitted(kernel), kernel, [a, b])
    assert relative_error(found, a.astype(np.float64) @ b.astype(np.float64)) <= PRODUCTS


def softmax_kernel(rows: int | str, columns: int | str) -> Kernel:
    x = load("x0", "i0", "r1")
    e = Scalar(ScalarOp.EXP, (Scalar(ScalarOp.SUB, (x, Ref("high"))),))
    stages = (
        Local("high", ("i0",), Reduce(ReduceOp.MAX, ("r1",), x)),
        Local("e", ("i0", "r1"), e),
        Local("total", ("i0",), Reduce(ReduceOp.ADD, ("r1",), Ref("e"))),
        Store("y0", (affine(("i0", 1)), affine(("r1", 1))), Scalar(ScalarOp.DIV, (Ref("e"), Ref("total")))),
        Store("y1", (affine(("i0", 1)),), Ref("high")),
    )
    buffers = (
        Buffer("x0", F32, (rows, columns)),
        Buffer("y0", F32, (rows, columns), written=True),
        Buffer("y1", F32, (rows,), written=True),
    )
    extents = tuple(n for n in (rows, columns) if isinstance(n, str))
    return Kernel("softmax", buffers, extents, (Axis("i0", rows), Axis("r1", columns, AxisKind.REDUCE)), stages)


@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (3, 1024), (2, 5000)])
def test_run_time_extents(shape: tuple[int, int]) -> None:
    """One kernel for all shapes; the hint only determines block sizes."""
    kernel = softmax_kernel("rows", "columns")
    extents = {"rows": shape[0], "columns": shape[1]}
    source = emitted(kernel, extents={"rows": 4, "columns": 1000})
    x = normal(*shape)
    found, high = run_source(source, kernel, [x], extents)
    assert relative_error(found, softmax_reference(x.astype(np.float64))) <= FLOAT
    np.testing.assert_array_equal(high, x.max(1))


def test_a_maximum_propagates_nan() -> None:
    kernel = softmax_kernel(2, 3000)
    x = normal(2, 3000)
    x[1, 1234] = np.nan
    _, high = run_source(emitted(kernel), kernel, [x])
    assert high[0] == x[0].max()
    assert np.isnan(high[1])


def test_chunks_of_a_row_agree_with_the_whole() -> None:
    kernel = softmax_kernel(3, 1000)
    x = normal(3, 1000)
    for block in (1024, 128):
        found, _ = run_source(emitted(kernel, tiled(kernel, r=block, x=1)), kernel, [x])
        assert relative_error(found, softmax_reference(x.astype(np.float64))) <= FLOAT


@pytest.mark.parametrize(("op", "dtype"), [(op, d) for op in ReduceOp for d in (F32, DType.I8, DType.I64, DType.BOOL)])
def test_every_reduction(op: ReduceOp, dtype: DType) -> None:
    """Reductions in one block and in chunks. Integers are exact and wrap around."""
    if dtype.is_float and op in (ReduceOp.AND, ReduceOp.OR):
        return
    functions = {
        "add": np.add,
        "mul": np.multiply,
        "max": np.maximum,
        "min": np.minimum,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
    }
    x = (normal(4, 50) * 5).astype(dtype.numpy)
    stages = (Store("y0", (affine(("i0", 1)),), Reduce(op, ("r1",), load("x0", "i0", "r1"))),)
    buffers = (Buffer("x0", dtype, (4, 50)), Buffer("y0", dtype, (4,), written=True))
    kernel = Kernel("reduce", buffers, (), (Axis("i0", 4), Axis("r1", 50, AxisKind.REDUCE)), stages)
    expected = functions[op.value].reduce(x, axis=1, dtype=x.dtype)
    for block in (64, 16):
        (found,) = run_source(emitted(kernel, tiled(kernel, r=block)), kernel, [x])
        np.testing.assert_allclose(found, expected, *((1e-5, 1e-5) if dtype.is_float else (0, 0)))


def test_gather_reads_at_the_index() -> None:
    index = Load("i", (affine(("i0", 1)),))
    stage = Store("y", (affine(("i0", 1)), affine(("i1", 1))), Load("x", (index, affine(("i1", 1)))))
    buffers = (Buffer("x", F32, (30, 70)), Buffer("i", DType.I64, (40,)), Buffer("y", F32, (40, 70), written=True))
    kernel = Kernel("take", buffers, (), (Axis("i0", 40), Axis("i1", 70)), (stage,))
    x, i = normal(30, 70), np.arange(40) % 30
    (found,) = run_source(emitted(kernel), kernel, [x, i])
    np.testing.assert_array_equal(found, x[i])


def test_strides_and_wide_indices() -> None:
    """Every second column of x, with the 64-bit indices of a buffer of more than 2^31 elements."""
    buffers = (Buffer("x", F32, (6, 5), strides=(10, 2)), Buffer("y", F32, (5, 6), written=True))
    stage = Store("y", (affine(("i0", 1)), affine(("i1", 1))), load("x", "i1", "i0"))
    kernel = Kernel("strided", buffers, (), (Axis("i0", 5), Axis("i1", 6)), (stage,))
    x = normal(6, 10)
    for wide in (False, True):
        (found,) = run_source(emitted(kernel, replace(schedule_triton(kernel, SM90), wide=wide)), kernel, [x])
        np.testing.assert_array_equal(found, x[:, ::2].T)


@pytest.mark.parametrize(
    "kernel",
    [gemm(40, 30, 50, F32), softmax_kernel(3, 5000), softmax_kernel(50, 9)],
    ids=["gemm", "long rows", "short rows"],
)
def test_wide_indices_change_nothing(kernel: Kernel) -> None:
    inputs = [normal(*(int(n) for n in b.shape)) for b in kernel.buffers if not b.written]
    schedule = schedule_triton(kernel, SM90)
    narrow, wide = (run_source(emitted(kernel, replace(schedule, wide=w)), kernel, inputs) for w in (False, True))
    np.testing.assert_array_equal(narrow[0], wide[0])


def test_statistics_over_several_axes() -> None:
    """Batch normalisation with its mean and variance as further results: the reduced axes are not adjacent."""
    b = CoreBuilder()
    x = b.input(tensor(4, 5, 6, 7))
    mean = b.mean(x, (0, 2, 3), keepdims=True)
    centred = b.sub(x, b.broadcast_to(mean, x.type.shape))
    variance = b.mean(b.square(centred), (0, 2, 3), keepdims=True)
    scale = b.broadcast_to(b.rsqrt(b.add(variance, 1e-5)), x.type.shape)
    data = normal(4, 5, 6, 7)
    found, kernels = run_graph(b.build([b.mul(centred, scale), mean, variance]), [data])
    assert len(kernels) == 1
    wide = data.astype(np.float64)
    mean, variance = wide.mean((0, 2, 3), keepdims=True), wide.var((0, 2, 3), keepdims=True)
    for result, expected in zip(found, ((wide - mean) / np.sqrt(variance + 1e-5), mean, variance), strict=True):
        assert relative_error(result, expected) <= FLOAT


def test_regions_of_bfloat16_round_once() -> None:
    b = CoreBuilder()
    data = normal(6, 100).astype(ml_dtypes.bfloat16)
    (found,), _ = run_graph(b.build([softmax(b, b.input(tensor(6, 100, dtype=BF16)))]), [data])
    expected = softmax_reference(data.astype(np.float64))
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=SHORT)


def test_concatenation_copies_each_piece() -> None:
    pieces = [normal(6, 4), normal(6, 30)]
    for begin, piece in zip((0, 4), pieces, strict=True):
        kernel = lower_concat(tensor(*piece.shape), tensor(6, 34), 1, begin, "piece", (None, None))
        (found,) = run_source(emitted(kernel), kernel, [piece])
        np.testing.assert_array_equal(found[:, begin : begin + piece.shape[1]], piece)
        assert np.isnan(np.delete(found, range(begin, begin + piece.shape[1]), 1)).all()


def test_max_pool_with_padding() -> None:
    b = CoreBuilder()
    x = b.input(tensor(2, 3, 9, 9))
    window = ((1, 1, 3, 3), (1, 1, 2, 2), ((0, 0), (0, 0), (1, 1), (1, 1)))
    data = normal(2, 3, 9, 9) - 2
    (found,), _ = run_graph(b.build([b.reduce_window(ReduceOp.MAX, x, *window)]), [data])
    padded = np.pad(data, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    expected = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))[:, :, ::2, ::2].max((-1, -2))
    np.testing.assert_array_equal(found, expected)
