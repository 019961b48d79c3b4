"""Matrix products on the CPU against float64 NumPy: sizes, batches, transpositions, schedules and epilogues."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from compiled import check
from contraction_kernels import Extras, einsum_kernel, gemm_kernel
from contractions import HOST, Runner
from mxforge.codegen.llvm.contract import packing
from mxforge.codegen.llvm.contract.emit import emit_contraction, schedule_contraction
from mxforge.codegen.llvm.emitter import ModuleBuilder
from mxforge.codegen.llvm.schedule.describe import ContractionError, GemmShape, describe_contraction
from mxforge.codegen.llvm.schedule.kinds import DepthwiseSchedule, GemvSchedule, RegisterTile, TileSchedule
from mxforge.codegen.llvm.target import AVX2, AVX512, CpuTarget
from mxforge.ir.dialects.core import CoreBuilder
from mxforge.ir.kernel import (
    Buffer,
    Cast,
    Const,
    Contract,
    Expr,
    Index,
    Kernel,
    Load,
    Scalar,
    Store,
    affine,
)
from mxforge.ir.scalar import ScalarOp
from mxforge.ir.types import DType, TensorType
from mxforge.passes.manager import Options
from rewriting import random_inputs, tensor

pytest.importorskip("llvmlite.binding")
RNG = np.random.default_rng(11)
TOLERANCE = {DType.F32: 2e-6, DType.F64: 1e-13, DType.F16: 1e-3}


def operands(kernel: Kernel) -> dict[str, np.ndarray]:
    return {b.name: RNG.standard_normal([int(n) for n in b.shape]).astype(b.dtype.numpy) for b in kernel.buffers[:-1]}


def close(y: np.ndarray, expected: np.ndarray, dtype: DType = DType.F32) -> None:
    assert y.shape == expected.shape
    assert np.abs(y - expected).max() <= TOLERANCE[dtype] * max(1.0, float(np.abs(expected).max()))


def reference(values: dict[str, np.ndarray], transposed: tuple[bool, bool]) -> np.ndarray:
    a, b = (values[n].astype(np.float64) for n in "ab")
    return (a.swapaxes(-1, -2) if transposed[0] else a) @ (b.swapaxes(-1, -2) if transposed[1] else b)


SIZES = [
    ((), 5, 7, 3),
    ((), 33, 40, 65),
    ((), 1, 33, 19),
    ((), 3, 35, 130),
    ((), 4, 16, 16),
    ((2,), 7, 9, 16),
    ((2, 3), 20, 17, 12),
    ((), 130, 70, 33),
]


TRANSPOSED = [(False, False), (True, False), (False, True), (True, True)]
PRODUCTS = [(size, t, DType.F32) for size in SIZES for t in TRANSPOSED]
PRODUCTS += [(size, t, d) for size in SIZES[1:4] for t in TRANSPOSED[1:3] for d in (DType.F64, DType.F16)]


@pytest.mark.parametrize(("size", "transposed", "dtype"), PRODUCTS, ids=str)
def test_product(size: tuple[tuple[int, ...], int, int, int], transposed: tuple[bool, bool], dtype: DType) -> None:
    extras = Extras(epilogue=lambda total, index: Cast(dtype, total) if dtype is DType.F16 else total)
    kernel = gemm_kernel(*size, dtype=dtype, transposed=transposed, extras=extras)
    values = operands(kernel)
    for parameters in (frozenset[str](), frozenset("b")):
        schedule = schedule_contraction(kernel, HOST, parameters)
        close(Runner(kernel, schedule=schedule, values=values).run(), reference(values, transposed), dtype)


def test_products_of_few_rows_do_not_pack_the_weights() -> None:
    kernel = gemm_kernel((), 2, 50, 64, transposed=(False, True))
    runner = Runner(kernel, values=operands(kernel))
    assert isinstance(runner.schedule, GemvSchedule)
    assert not runner.emission.packings


def test_products_of_few_rows_do_not_pack_a_changing_operand() -> None:
    kernel = gemm_kernel((), 8, 50, 64)
    runner = Runner(kernel, schedule=schedule_contraction(kernel, HOST), values=operands(kernel))
    assert not runner.emission.packings


def test_shared_right_operand() -> None:
    """A batch of the left operand only is more rows: the weights are packed once."""
    kernel = gemm_kernel((3,), 5, 18, 20, batched_rhs=False)
    shape = describe_contraction(kernel)
    assert isinstance(shape, GemmShape)
    assert shape.rows == ("b0", "m")
    values = operands(kernel)
    close(Runner(kernel, values=values).run(), reference(values, (False, False)))


@pytest.mark.parametrize("outside", [False, True])
def test_split_reduction(outside: bool) -> None:
    kernel = gemm_kernel((), 50, 45, 77)
    values = operands(kernel)
    schedule = TileSchedule(
        lanes=8, main=RegisterTile(4, 2), last=None, points=20, panels=2, steps=3, reduction_outside=outside
    )
    close(Runner(kernel, schedule=schedule, values=values).run(), reference(values, (False, False)))


@pytest.mark.parametrize("outside", [False, True])
def test_sums_of_a_narrower_and_taller_last_panel_have_their_own_memory(outside: bool) -> None:
    kernel = gemm_kernel((), 50, 37, 77)
    values = operands(kernel)
    schedule = TileSchedule(
        lanes=8,
        main=RegisterTile(3, 2),
        last=RegisterTile(5, 1),
        points=20,
        panels=3,
        steps=3,
        reduction_outside=outside,
    )
    runner = Runner(kernel, schedule=schedule, values=values)
    assert runner.emission.workspace >= HOST.threads * 20 * 16 * 4 * (3 if outside else 1)
    close(runner.run(), reference(values, (False, False)))


@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_rows_of_weights_are_packed_by_transposing_registers(lanes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 45 columns, the last vector is ragged; of 30 elements, two are left after the last register."""
    monkeypatch.setattr(packing, "_MUCH_REPEATED", 0)
    kernel = gemm_kernel((2,), 20, 45, 30, transposed=(False, True))
    last = RegisterTile(4, 1) if lanes == 16 else None
    schedule = TileSchedule(lanes=lanes, main=RegisterTile(4, 2), last=last, points=20, panels=1)
    module = ModuleBuilder(HOST)
    for _, form in emit_contraction(kernel, schedule, HOST, module, "product").packings:
        assert isinstance(form, packing.PackedPanels)
        form.emit(module, HOST, "once")
        assert "pack.rows" not in module.text()  # would take longer to compile than it saves
        form.repeated().emit(module, HOST, "pack")
    assert f"@pack.rows.f32.{lanes}(" in module.text()
    monkeypatch.setattr(packing, "_MUCH", 0)
    values = operands(kernel)
    close(Runner(kernel, schedule=schedule, values=values).run(), reference(values, (False, True)))


def test_the_rest_of_a_reduction_needs_no_further_micro_kernel() -> None:
    module = ModuleBuilder(HOST)
    kernel, tile = gemm_kernel((), 48, 64, 77), RegisterTile(4, 2)
    schedule = TileSchedule(lanes=8, main=tile, last=None, points=48, panels=1)
    emit_contraction(kernel, schedule, HOST, module, "product")
    assert module.text().count("define internal void @tile.") == 1


def test_a_large_product_prefetches_its_weights() -> None:
    """They come from memory, or from the cache that threads share."""
    kernel = gemm_kernel((), 140, 768, 3072, transposed=(False, True))
    schedule = schedule_contraction(kernel, AVX512, frozenset("b"))
    assert isinstance(schedule, TileSchedule)
    assert schedule.reduction_outside
    assert schedule.prefetch > 0


def test_a_product_whose_panels_fit_the_l2_cache_is_not_split() -> None:
    kernel, target = gemm_kernel((), 140, 2600, 650, transposed=(False, True)), replace(AVX512, l2_bytes=1 << 20)
    schedule = schedule_contraction(kernel, target, frozenset("b"))
    assert isinstance(schedule, TileSchedule)
    assert (schedule.steps, schedule.panels) == (0, 1)
    assert schedule.prefetch > 0
    smaller = schedule_contraction(kernel, replace(target, l2_bytes=1 << 19), frozenset("b"))
    assert isinstance(smaller, TileSchedule)
    assert smaller.steps > 0


def test_a_product_of_few_rows_prefetches_its_own_panel() -> None:
    kernel, module = gemm_kernel((), 4, 32, 24, transposed=(False, True)), ModuleBuilder(AVX2)
    schedule = TileSchedule(lanes=8, main=RegisterTile(4, 4), last=None, points=4, panels=1, ahead=4096)
    emit_contraction(kernel, schedule, AVX2, module, "product")
    assert module.text().count("call void @llvm.prefetch") == 8  # the loop has 4 products of two lines each


@pytest.mark.parametrize(("target", "rows"), [(AVX512, 4), (AVX2, 2)], ids=["avx512", "avx2"])
def test_only_products_that_take_as_long_as_reading_prefetch_their_panel(target: CpuTarget, rows: int) -> None:
    for few, prefetches in ((rows - 1, False), (rows, True)):
        schedule = schedule_contraction(gemm_kernel((), few, 2600, 650), target, frozenset("b"))
        assert isinstance(schedule, TileSchedule)
        assert (schedule.ahead > 0) == prefetches


@pytest.mark.parametrize(("target", "rows"), [(AVX512, 8), (AVX2, 4)], ids=["avx512", "avx2"])
def test_tiles_are_blocks_of_packed_rows_if_registers_allow(target: CpuTarget, rows: int) -> None:
    schedule = schedule_contraction(gemm_kernel((), 260, 96, 112, transposed=(True, False)), target)
    assert isinstance(schedule, TileSchedule)
    assert schedule.pack_rows
    assert schedule.main.rows == rows


def test_a_large_product_runs_on_all_threads() -> None:
    kernel = gemm_kernel((), 128, 768, 768, transposed=(False, True))
    values = operands(kernel)
    runner = Runner(kernel, values=values)
    assert runner.emission.launches[0].count % HOST.threads == 0
    close(runner.run(), reference(values, (False, True)))


@pytest.mark.parametrize("rows", [1, 3, 24])
def test_epilogue(rows: int) -> None:
    """gelu-like: (sum + bias) * sigmoid(sum + bias) + residual, and a scale for each row."""

    def end(total: Expr, index: Index) -> Expr:
        biased = Scalar(ScalarOp.ADD, (total, Load("bias", (index[-1],))))
        gated = Scalar(ScalarOp.MUL, (biased, Scalar(ScalarOp.SIGMOID, (biased,))))
        scaled = Scalar(ScalarOp.MUL, (gated, Load("scale", (index[0], affine()))))
        return Scalar(ScalarOp.ADD, (scaled, Load("residual", index)))

    n = 37
    buffers = (
        Buffer("bias", DType.F32, (n,)),
        Buffer("scale", DType.F32, (rows, 1)),
        Buffer("residual", DType.F32, (rows, n)),
    )
    kernel = gemm_kernel((), rows, n, 20, transposed=(False, True), extras=Extras(buffers, end))
    values = operands(kernel)
    biased = reference(values, (False, True)) + values["bias"]
    close(Runner(kernel, values=values).run(), biased / (1 + np.exp(-biased)) * values["scale"] + values["residual"])


@pytest.mark.parametrize(
    "spec",
    [
        "btk,hdk->bhtd",  # projection into heads
        "bhtd,hdk->btk",  # back from heads: two reduced axes
        "mk,kn->nm",  # a transposed result: the operands are swapped
        "bmk,bkn->mnb",  # the batch is innermost in the result: no vectors of columns
        "ij,kl->ikjl",  # no reduced axis: an outer product
        "mk,nk->mn",
        "mk,k->m",
        "bmk,bk->bm",
        "bmk,bk->mb",
        "bk,bk->b",  # no column in either operand
        "k,k->",
    ],
)
def test_any_order_of_axes(spec: str) -> None:
    sizes = {a: 3 + k for k, a in enumerate(sorted(set(spec) - set(",->")))}
    operands_text, out = spec.split("->")
    lhs, rhs = operands_text.split(",")
    kernel = einsum_kernel(out, lhs, rhs, sizes)
    values = operands(kernel)
    expected = np.einsum(spec, values["a"].astype(np.float64), values["b"])
    close(Runner(kernel, values=values).run(), expected)


def test_unsupported_kernels_raise_an_error() -> None:
    kernel = einsum_kernel("mn", "mk", "kn", {"m": 3, "n": 4, "k": 5})
    store = kernel.stages[0]
    assert isinstance(store, Store)
    assert isinstance(store.value, Contract)
    computed = replace(store.value, lhs=Scalar(ScalarOp.NEG, (store.value.lhs,)))
    for value, message in ((computed, "must be loads"), (Const(0.0, DType.F32), "found 0")):
        broken = Kernel("k", kernel.buffers, (), kernel.axes, (Store("y", store.index, value),))
        with pytest.raises(ContractionError, match=message):
            describe_contraction(broken)


def test_contractions_without_a_schedule_raise_an_error() -> None:
    with pytest.raises(ContractionError, match="no schedule supports products of i32 by i32 in i32"):
        schedule_contraction(gemm_kernel((), 4, 4, 4, DType.I32), HOST)


def test_a_schedule_of_another_contraction_is_refused() -> None:
    schedule = DepthwiseSchedule(lanes=8, columns=4, rows=1)
    with pytest.raises(ContractionError, match="DepthwiseSchedule does not fit a GemmShape"):
        emit_contraction(gemm_kernel((), 4, 4, 4), schedule, HOST, ModuleBuilder(HOST), "kernel")


@pytest.mark.parametrize("n", [2, 4, 5, 19])
@pytest.mark.parametrize("static", [True, False], ids=["static", "any extents"])
@pytest.mark.parametrize("rows", [(1,), (1, 1)], ids=["rows", "elements"])
def test_an_axis_of_the_result_that_no_operand_has(n: int, static: bool, rows: tuple[int, ...]) -> None:
    """An axis of the result that neither operand has was used as row and as column: stores exceeded the result."""
    b = CoreBuilder()
    x = b.input(tensor(*rows, *(n for _ in range(2 - len(rows)))))
    y = b.broadcast_to(x, (n, n))
    graph = b.build([b.dot(y, y, [], [], [1], [1]), b.dot(y, y, [], [], [0], [0]), b.dot(y, y, [], [], [1], [0])])
    check(graph, *random_inputs(graph), options=Options(static_shape=static))


@pytest.mark.parametrize("rows", [17, 24, 37])
@pytest.mark.parametrize("form", ["matrix", "two reduced axes", "batches", "two axes of rows"])
def test_a_transposed_left_operand_is_packed_in_blocks_of_rows(form: str, rows: int) -> None:
    """Weight gradients: the rows of the left operand are contiguous, steps of the reduction are apart."""
    b = CoreBuilder("transposed")
    x_shape, y_shape, batch, contract = {
        "matrix": ((40, rows), (40, 200), (), (0,)),
        "two reduced axes": ((5, 9, rows), (5, 9, 200), (), (0, 1)),
        "batches": ((3, 40, rows), (3, 40, 200), (0,), (1,)),
        "two axes of rows": ((40, rows, 8), (40, 200), (), (0,)),
    }[form]
    x, y = b.input(TensorType(x_shape, DType.F32)), b.input(TensorType(y_shape, DType.F32))
    product = b.dot(x, y, batch, batch, contract, contract)
    rng = np.random.default_rng(0)
    operands = [rng.standard_normal(s).astype(np.float32) for s in (x_shape, y_shape)]
    program = check(b.build([b.maximum(product, b.full(product.type.shape, 0.0, DType.F32))]), *operands)
    assert [launch.kind for launch in program.launches].count("pack") == 2


@pytest.mark.parametrize("dtype", [DType.F32, DType.F16, DType.I32], ids=str)
@pytest.mark.parametrize(("x_shape", "y_shape"), [((), ()), ((), (5,)), ((5,), ()), ((), (3, 5))])
@pytest.mark.parametrize("static", [True, False], ids=["static", "any extents"])
def test_a_product_with_a_scalar(
    x_shape: tuple[int, ...], y_shape: tuple[int, ...], dtype: DType, static: bool
) -> None:
    """The gradient of a product of vectors. A scalar has no axis along which it is converted to the sums' dtype."""
    b = CoreBuilder()
    x, y = b.input(TensorType(x_shape, dtype)), b.input(TensorType(y_shape, dtype))
    graph = b.build([b.dot(x, y, [], [], [], [])])
    check(graph, *random_inputs(graph), options=Options(static_shape=static))
