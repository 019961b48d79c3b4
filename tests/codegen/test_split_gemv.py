"""Dot products of several rows with large weights in place, whose reduction is divided into parts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from contraction_kernels import Extras, gemm_kernel
from contractions import HOST, Runner
from mxforge.codegen.llvm.contract.emit import schedule_contraction
from mxforge.codegen.llvm.schedule.kinds import GemvSchedule, TileSchedule
from mxforge.codegen.llvm.schedule.registers import widest_of
from mxforge.codegen.llvm.schedule.spaces import spaces
from mxforge.codegen.llvm.target import AVX2, AVX512
from mxforge.ir.kernel import Buffer, Const, Expr, Index, Kernel, Load, Scalar
from mxforge.ir.scalar import ScalarOp
from mxforge.ir.types import DType

RNG = np.random.default_rng(23)
AS_STORED = (False, True)


def schedule(rows: int, part: int, dtype: DType = DType.F32, channels: int = 0) -> GemvSchedule:
    return GemvSchedule(
        lanes=HOST.lanes(8 * dtype.itemsize),
        rows=rows,
        channels=channels or widest_of(rows, HOST),
        part=part * HOST.lanes(8 * dtype.itemsize),
        ahead=2048,
    )


def operands(kernel: Kernel) -> dict[str, np.ndarray]:
    return {b.name: RNG.standard_normal([int(n) for n in b.shape]).astype(b.dtype.numpy) for b in kernel.buffers[:-1]}


def expected(values: dict[str, np.ndarray]) -> Any:
    return values["a"].astype(np.float64) @ values["b"].astype(np.float64).swapaxes(-1, -2)


@pytest.mark.parametrize(
    ("batch", "rows", "columns", "inner", "part", "dtype"),
    [
        ((), 8, 96, 256, 4, DType.F32),
        ((), 8, 100, 259, 3, DType.F32),
        ((), 7, 49, 64, 99, DType.F32),
        ((), 5, 1, 40, 1, DType.F32),
        ((), 8, 47, 5, 2, DType.F32),
        ((2, 3), 7, 50, 70, 2, DType.F32),
        ((), 8, 61, 131, 3, DType.F64),
    ],
)
def test_product(batch: tuple[int, ...], rows: int, columns: int, inner: int, part: int, dtype: DType) -> None:
    kernel = gemm_kernel(batch, rows, columns, inner, dtype=dtype, transposed=AS_STORED)
    values = operands(kernel)
    runner = Runner(kernel, schedule=schedule(rows, part, dtype), values=values)
    assert not runner.emission.packings
    np.testing.assert_allclose(runner.run(), expected(values), rtol=0, atol=1e-4 if dtype is DType.F32 else 1e-12)


def test_epilogue_with_a_bias_and_relu() -> None:
    def epilogue(total: Expr, index: Index) -> Expr:
        biased = Scalar(ScalarOp.ADD, (total, Load("bias", (index[-1],))))
        return Scalar(ScalarOp.MAX, (biased, Const(0.0, DType.F32)))

    extras = Extras(buffers=(Buffer("bias", DType.F32, (55,)),), epilogue=epilogue)
    kernel = gemm_kernel((), 8, 55, 90, transposed=AS_STORED, extras=extras)
    values = operands(kernel)
    got = Runner(kernel, schedule=schedule(8, 2), values=values).run()
    np.testing.assert_allclose(got, np.maximum(expected(values) + values["bias"], 0), rtol=0, atol=1e-4)


def test_parts_do_not_change_the_order_of_additions() -> None:
    kernel = gemm_kernel((), 8, 70, 203, transposed=AS_STORED)
    values = operands(kernel)
    first, *others = (
        Runner(kernel, schedule=schedule(8, part, channels=channels), values=values).run()
        for part, channels in ((1, 1), (3, 2), (99, 3))
    )
    for other in others:
        np.testing.assert_array_equal(other, first)


def large(rows: int, columns: int = 8192) -> Kernel:
    return gemm_kernel((), rows, columns, 8192, transposed=AS_STORED)


def test_very_large_weights_of_few_rows_are_read_in_place() -> None:
    found = {rows: schedule_contraction(large(rows), AVX512, frozenset("b")) for rows in range(4, 10)}
    parts = {rows: s.part for rows, s in found.items() if isinstance(s, GemvSchedule)}
    assert parts == {4: 0, 5: 816, 6: 672, 7: 576, 8: 512}
    assert isinstance(found[8], GemvSchedule) and found[8].channels == 3


def test_smaller_weights_of_more_than_four_rows_are_packed() -> None:
    for rows in (5, 8):
        assert isinstance(schedule_contraction(large(rows, 4096), AVX512, frozenset("b")), TileSchedule)


def test_weights_are_packed_where_eight_rows_leave_registers_for_one_column() -> None:
    assert isinstance(schedule_contraction(large(8), AVX2, frozenset("b")), TileSchedule)


@pytest.mark.parametrize(("rows", "columns", "ahead"), [(1, 4096, 0), (2, 4096, 2048), (4, 4096, 2048), (4, 512, 0)])
def test_large_weights_of_two_to_four_rows_are_prefetched(rows: int, columns: int, ahead: int) -> None:
    found = schedule_contraction(large(rows, columns), AVX512)
    assert isinstance(found, GemvSchedule) and (found.part, found.ahead) == (0, ahead)


def test_prefetching_does_not_change_results() -> None:
    kernel = gemm_kernel((), 3, 21, 77, transposed=AS_STORED)
    values = operands(kernel)
    default = schedule_contraction(kernel, HOST)
    assert isinstance(default, GemvSchedule)
    first, second = (Runner(kernel, schedule=replace(default, ahead=n), values=values).run() for n in (0, 2048))
    np.testing.assert_array_equal(first, second)


def test_a_search_keeps_the_part_and_whole_units() -> None:
    kernel = large(8)
    default = schedule_contraction(kernel, AVX512)
    assert isinstance(default, GemvSchedule)
    space = spaces(kernel, AVX512, frozenset())[GemvSchedule]
    assert space.contains(default) and space.contains(replace(default, channels=1, ahead=0))
    for wrong in (replace(default, part=0), replace(default, channels=5), replace(default, ahead=3)):
        assert not space.contains(wrong)


@pytest.mark.parametrize(
    ("rows", "columns", "inner", "dots"),
    [(8, 16, 512, True), (5, 2, 4096, True), (8, 17, 4096, False), (8, 16, 500, False), (9, 10, 4096, False)],
)
def test_deep_products_with_few_columns_are_dot_products(rows: int, columns: int, inner: int, dots: bool) -> None:
    """A panel would mostly be padding, and its sums add up each product in turn."""
    kernel = gemm_kernel((), rows, columns, inner, transposed=AS_STORED)
    for parameters in (frozenset[str](), frozenset("b")):
        assert isinstance(schedule_contraction(kernel, AVX512, parameters), GemvSchedule) == dots
