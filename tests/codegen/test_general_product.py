"""Matrix products of run-time extents: sizes, axis orders and epilogues against the interpreter, one code per form."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from compiled import check, run_program
from contraction_kernels import gemm_kernel
from mxforge.codegen.driver import compile_graph
from mxforge.codegen.llvm.compile import emit_assembly
from mxforge.codegen.llvm.contract.general_form import general_product
from mxforge.codegen.llvm.contract.general_product import emit_general_product
from mxforge.codegen.llvm.emitter import ModuleBuilder
from mxforge.codegen.llvm.target import AVX2, AVX512, NEON, CpuTarget
from mxforge.ir.dialects.core import CoreBuilder
from mxforge.ir.graph import Graph
from mxforge.ir.types import DType
from mxforge.passes.manager import Options
from mxforge.runtime.host.machine import X86_LEVELS, host_target
from rewriting import random_inputs, tensor

pytest.importorskip("llvmlite.binding")
ANY_EXTENTS = Options(static_shape=False)
SIZES = [(1, 1, 1), (1, 33, 19), (2, 5, 70), (5, 7, 3), (9, 40, 65), (17, 50, 100), (33, 17, 129), (130, 70, 33)]
TRANSPOSED = [(False, False), (False, True), (True, False), (True, True)]


def product(
    m: int, k: int, n: int, transposed: tuple[bool, bool], dtype: DType = DType.F32, batch: tuple[int, ...] = ()
) -> Graph:
    b = CoreBuilder()
    x = b.input(tensor(*batch, *((k, m) if transposed[0] else (m, k)), dtype=dtype))
    y = b.input(tensor(*batch, *((n, k) if transposed[1] else (k, n)), dtype=dtype))
    r = len(batch)
    left, right = (r + (0 if transposed[0] else 1),), (r + (1 if transposed[1] else 0),)
    axes = tuple(range(r))
    return b.build([b.dot(x, y, axes, axes, left, right)])


@pytest.mark.parametrize("transposed", TRANSPOSED, ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_product(size: tuple[int, int, int], transposed: tuple[bool, bool]) -> None:
    graph = product(*size, transposed)
    program = check(graph, *random_inputs(graph), options=ANY_EXTENTS)
    assert any(launch.symbol.startswith("p_") for launch in program.launches) or 1 in (size[0], size[2])


@pytest.mark.parametrize("batch", [(3,), (2, 3)], ids=str)
@pytest.mark.parametrize("transposed", TRANSPOSED, ids=str)
@pytest.mark.parametrize("size", [(5, 7, 60), (20, 9, 40)], ids=str)
def test_batches(size: tuple[int, int, int], transposed: tuple[bool, bool], batch: tuple[int, ...]) -> None:
    graph = product(*size, transposed, batch=batch)
    check(graph, *random_inputs(graph), options=ANY_EXTENTS)


@pytest.mark.parametrize("transposed", TRANSPOSED[:2], ids=str)
def test_doubles(transposed: tuple[bool, bool]) -> None:
    graph = product(19, 23, 45, transposed, DType.F64)
    check(graph, *random_inputs(graph), tolerance=1e-13, options=ANY_EXTENTS)


@pytest.mark.parametrize("size", [(1, 8, 5), (4, 30, 50), (40, 30, 50)], ids=str)
@pytest.mark.parametrize("transposed", TRANSPOSED[:2], ids=str)
def test_epilogues_of_open_products(size: tuple[int, int, int], transposed: tuple[bool, bool]) -> None:
    """The epilogue has a bias per column, a scale per row, a residual, and a cast of the result."""
    m, k, n = size
    b = CoreBuilder()
    x = b.input(tensor(m, k))
    w = b.input(tensor(*((n, k) if transposed[1] else (k, n))))
    bias, scale, residual = b.input(tensor(n)), b.input(tensor(m, 1)), b.input(tensor(m, n))
    total = b.dot(x, w, (), (), (1,), (1 if transposed[1] else 0,))
    y = b.mul(b.add(total, b.broadcast_to(bias, (m, n))), b.broadcast_to(scale, (m, n)))
    graph = b.build([b.maximum(b.add(y, residual), 0.0)])
    check(graph, *random_inputs(graph), options=ANY_EXTENTS)


def test_a_product_of_a_value_with_itself() -> None:
    b = CoreBuilder()
    x = b.input(tensor(21, 34))
    graph = b.build([b.dot(x, x, (), (), (1,), (1,))])
    check(graph, *random_inputs(graph), options=ANY_EXTENTS)


@pytest.mark.parametrize("level", X86_LEVELS)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_product_on_an_older_processor(size: tuple[int, int, int], level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Narrow panels have fewer tile widths; every number of columns must be covered there too."""
    monkeypatch.setenv("MXFORGE_CPU", level)
    try:
        host_target()
    except (ValueError, RuntimeError) as error:
        pytest.skip(str(error))
    graph = product(*size, (False, False))
    check(graph, *random_inputs(graph), options=ANY_EXTENTS)


def forms(transposed: tuple[bool, bool], sizes: list[tuple[int, int, int]], target: CpuTarget) -> set[object]:
    found: set[object] = set()
    for m, k, n in sizes:
        made = general_product(gemm_kernel((), m, n, k, transposed=transposed), target)
        assert made is not None
        found.add(made.form)
    return found


@pytest.mark.parametrize("transposed", TRANSPOSED, ids=str)
def test_sizes_share_one_form(transposed: tuple[bool, bool]) -> None:
    assert len(forms(transposed, [(17, 5, 3), (40, 64, 48), (100, 300, 1000), (500, 7, 64)], host_target(2))) == 1
    assert len(forms(transposed, [(2, 5, 3), (7, 64, 48), (16, 300, 1000)], host_target(2))) == 1


@pytest.mark.parametrize("target", [AVX512, AVX2, NEON], ids=lambda t: t.cpu)
def test_no_sum_is_spilled_in_the_loop(target: CpuTarget) -> None:
    """The largest tile's loop stores nothing."""
    made = general_product(gemm_kernel((), 100, 100, 100), target)
    assert made is not None
    module = ModuleBuilder(target)
    emit_general_product(module, made.form, "p")
    tile = made.form.tile
    text = emit_assembly(module.text(), target)
    body = text[text.index(f"open.{tile.rows}x{tile.vectors}.") :]
    body = body[body.index("fma" if target is not NEON else "fmla") :]
    loop = body[: body.index("\n\tj" if target is not NEON else "\n\tb.")]
    assert loop.count("fm") >= tile.rows * tile.vectors
    assert "(%rsp)" not in loop
    assert "[sp" not in loop


def test_zero_sized_products() -> None:
    for size in ((0, 3, 4), (3, 0, 4), (3, 4, 0)):
        graph = product(*size, (False, False))
        check(graph, *random_inputs(graph), options=ANY_EXTENTS)


def test_threads_share_units() -> None:
    made = general_product(gemm_kernel((), 300, 1000, 700), replace(host_target(), threads=4))
    assert made is not None
    units = made.numbers["units"] * made.numbers["blocks"]
    assert units >= 16
    assert np.prod(made.groups) == 1


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64])
@pytest.mark.parametrize("size", [(19, 300, 130), (5, 257, 33), (40, 0, 50)], ids=str)
def test_passes_over_the_reduction_give_the_same_bits(size: tuple[int, int, int], dtype: DType) -> None:
    """A small L2 cache leads to many passes, which store partial sums in the result."""
    graph = product(*size, (False, False), dtype)
    arrays = [np.asarray(a) for a in random_inputs(graph)]
    target = host_target(2)
    results: list[np.ndarray] = []
    for l2_bytes in (1 << 24, 1 << 13):
        program = compile_graph(graph, replace(target, l2_bytes=l2_bytes), ANY_EXTENTS)
        results += run_program(program, arrays)
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_allclose(results[0], np.matmul(arrays[0], arrays[1]), 1e-4, 1e-4)


def test_only_bare_sums_are_continued() -> None:
    kernel = gemm_kernel((), 64, 64, 5000)
    small = replace(AVX512, l2_bytes=1 << 13)
    made = general_product(kernel, small)
    assert made is not None and made.form.resumes and made.numbers["pass"] < 100
    b = CoreBuilder()
    x, y = b.input(tensor(64, 5000)), b.input(tensor(5000, 64))
    graph = b.build([b.exp(b.mul(b.dot(x, y, [], [], [1], [0]), 0.001))])
    check(graph, *random_inputs(graph), options=ANY_EXTENTS, tolerance=1e-4)
