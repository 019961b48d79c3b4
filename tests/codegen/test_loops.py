"""Loop kernels for AVX-512, AVX2 and AArch64: they compile, and the assembly uses each target's registers."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from compiled import check
from loop_graphs import softmax, summed
from mxforge.codegen.generalize import generalize
from mxforge.codegen.hoist import hoist_stages
from mxforge.codegen.llvm.compile import CompileError, check_masked_stores, emit_assembly
from mxforge.codegen.llvm.emitter import ModuleBuilder
from mxforge.codegen.llvm.loops.emit import emit_loops
from mxforge.codegen.llvm.schedule.loops import schedule_nest
from mxforge.codegen.llvm.schedule.vector_axis import SHUFFLED
from mxforge.codegen.llvm.target import AVX2, AVX512, NEON, CpuTarget
from mxforge.codegen.lower import lower_region
from mxforge.codegen.nest import build_nest
from mxforge.ir.dialects.core import CoreBuilder, Fused, Pointwise
from mxforge.ir.graph import Graph, Value
from mxforge.ir.kernel import AxisKind, Kernel, ReduceOp
from mxforge.ir.kernel_printer import print_kernel
from mxforge.ir.kernel_verifier import verify_kernel
from mxforge.ir.scalar import ScalarOp
from mxforge.ir.types import DType, Layout
from mxforge.passes.manager import Options
from rewriting import in_layout, random_inputs, tensor

pytest.importorskip("llvmlite.binding")
F32 = DType.F32
Body = Callable[[CoreBuilder], Value]
TARGETS = [AVX512, AVX2, NEON]
REGISTERS = {AVX512: r"\bzmm\d+", AVX2: r"\bymm\d+", NEON: r"\bv\d+\.4s"}


def relu(b: CoreBuilder) -> Value:
    return b.maximum(b.input(tensor(64, 100)), 0.0)


def masked(b: CoreBuilder) -> Value:
    return b.add(b.input(tensor(3, 37)), 1.0)


def transposed(b: CoreBuilder) -> Value:
    return b.add(b.transpose(b.input(tensor(33, 50))), 1.0)


def gathered(b: CoreBuilder) -> Value:
    return b.gather(b.input(tensor(40, 20)), b.input(tensor(7, 1, dtype=DType.I32)), (0,))


def gathered_along_the_vector(b: CoreBuilder) -> Value:
    return b.gather(b.input(tensor(400)), b.input(tensor(70, 1, dtype=DType.I32)), (0,))


def padded(b: CoreBuilder) -> Value:
    return b.pad(b.input(tensor(5, 37)), b.constant(2.0, F32), (1, 2), (1, 3))


def reversed_rows(b: CoreBuilder) -> Value:
    return b.reverse(b.input(tensor(5, 37)), (1,))


def strided(b: CoreBuilder) -> Value:
    return b.slice(b.input(tensor(5, 64)), (0, 1), (5, 64), (1, 2))


def summed_over_rows(b: CoreBuilder) -> Value:
    return b.sum(b.input(tensor(50, 37)), (0,))


def summed_over_wide_rows(b: CoreBuilder) -> Value:
    return b.sum(b.input(tensor(20, 1000)), (0,))


def pooled(b: CoreBuilder) -> Value:
    window = ((1, 1, 3, 3), (1, 1, 2, 2), ((0, 0), (0, 0), (1, 1), (1, 1)))
    return b.reduce_window(ReduceOp.MAX, b.input(tensor(1, 8, 15, 15)), *window)


def wide(b: CoreBuilder) -> Value:
    return b.mul(b.input(tensor(37, dtype=DType.F64)), b.cast(b.iota((37,), DType.I64, 0), DType.F64))


def halves(b: CoreBuilder) -> Value:
    return b.add(b.input(tensor(37, dtype=DType.F16)), b.input(tensor(37, dtype=DType.F16)))


def by_a_number(b: CoreBuilder) -> Value:
    """x * (1 - rate) * rate: a number that all points read."""
    x, rate = b.input(tensor(3, 37)), b.input(tensor())
    return b.mul(b.mul(x, b.broadcast_to(b.sub(1, rate), (3, 37))), b.broadcast_to(rate, (3, 37)))


BODIES: dict[Body, str] = {
    by_a_number: "pointwise",
    relu: "pointwise",
    masked: "pointwise",
    transposed: "pointwise",
    gathered: "move",
    gathered_along_the_vector: "move",
    padded: "move",
    reversed_rows: "move",
    strided: "move",
    summed: "row",
    summed_over_rows: "row",
    summed_over_wide_rows: "row",
    softmax: "row",
    pooled: "window",
    wide: "pointwise",
    halves: "pointwise",
}


def lowered(body: Body) -> Kernel:
    b = CoreBuilder("region")
    return lower_region(Fused(b.build([body(b)]), BODIES[body]))


def module_of(kernel: Kernel, target: CpuTarget) -> str:
    module = ModuleBuilder(target)
    emit_loops(kernel, target, module, "kernel")
    return module.text()


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.cpu)
@pytest.mark.parametrize("body", BODIES, ids=lambda f: f.__name__)
def test_every_kernel_compiles_for_every_target(body: Body, target: CpuTarget) -> None:
    assembly = emit_assembly(module_of(lowered(body), target), target)
    assert "kernel:" in assembly


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.cpu)
@pytest.mark.parametrize("body", [relu, summed, summed_over_rows, softmax, pooled], ids=lambda f: f.__name__)
def test_vectors_have_the_width_of_the_targets_registers(body: Body, target: CpuTarget) -> None:
    assembly = emit_assembly(module_of(lowered(body), target), target)
    assert re.search(REGISTERS[target], assembly)


def test_only_the_ragged_end_is_masked() -> None:
    assert "llvm.masked" in module_of(lowered(masked), AVX512)
    assert "llvm.masked" not in module_of(lowered(relu), AVX512)


@pytest.mark.parametrize("general", [False, True])
def test_what_all_points_have_in_common_is_computed_before_the_loops(general: bool) -> None:
    kernel, extents = lowered(by_a_number), ()
    if general:
        found = generalize(kernel, SHUFFLED)
        assert found is not None
        kernel, extents = found.kernel, found.extents
    module = ModuleBuilder(AVX2)
    emit_loops(kernel, AVX2, module, "kernel", extents)
    before, _, loops = module.text().partition("phi ")
    assert before.count(" = load float, ptr") == 1 and " = load float, ptr" not in loops
    assert before.count("fsub") == 1 and "fsub" not in loops


@pytest.mark.parametrize("body", BODIES, ids=lambda f: f.__name__)
def test_every_kernel_agrees_with_the_interpreter(body: Body) -> None:
    b = CoreBuilder()
    graph = b.build([body(b)])
    check(graph, *random_inputs(graph), tolerance=1e-3 if body is halves else 1e-5)


@pytest.mark.parametrize("channels", [3, 8, 12, 20])
@pytest.mark.parametrize("halo", [(0, 0), (1, 2)])
def test_blocks_that_channels_do_not_fill(channels: int, halo: tuple[int, int]) -> None:
    """A relayout to blocks, pointwise work, a sum over space, and back; padding channels remain zero."""
    layout = Layout(8, (halo, halo))
    b = CoreBuilder()
    x = b.relayout(b.input(tensor(2, channels, 5, 6)), layout)
    y = in_layout(b, Pointwise(ScalarOp.EXP), layout, x)
    graph = b.build([b.relayout(y, None), b.sum(y, (2, 3))])
    check(graph, *random_inputs(graph))


def test_contiguous_axes_are_merged() -> None:
    b = CoreBuilder("region")
    x, y = b.input(tensor(4, 5, 6)), b.input(tensor(6))
    kernel = lower_region(Fused(b.build([b.add(b.exp(x), b.broadcast_to(y, (4, 5, 6)))]), "pointwise"))
    assert [a.extent for a in build_nest(kernel).axes] == [20, 6]
    plain = lower_region(Fused(_same_shape(), "pointwise"))
    assert [a.extent for a in build_nest(plain).axes] == [120]


def _same_shape() -> Graph:
    b = CoreBuilder("region")
    return b.build([b.exp(b.input(tensor(4, 5, 6)))])


def test_a_reduction_of_one_element_has_no_loop() -> None:
    b = CoreBuilder("region")
    nest = build_nest(lower_region(Fused(b.build([b.sum(b.input(tensor(7, 1)), (1,))]), "row")))
    assert nest.names(AxisKind.REDUCE) == []


def test_scratch_rows_of_two_axes_do_not_overlap() -> None:
    """The padding keeps the axes apart, and the vectors of the last one are longer than it is."""
    b = CoreBuilder("rows")
    x, y = b.input(tensor(2, 3, 4, 4)), b.input(tensor(2, 3, 2, 4))
    first = b.sinh(x)
    second = b.add(first, b.pad(y, b.full((), 0, DType.F32), (0, 0, 2, 0), (0, 0, 0, 0)))
    total = b.broadcast(b.sum(b.mul(second, x), (2, 3)), (2, 3, 4, 4), (0, 1))
    graph = b.build([b.add(b.mul(second, total), first)])
    check(graph, *random_inputs(graph))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_softmax_over_one_element_is_one(axis: int) -> None:
    shape = [5, 4, 3]
    shape[axis] = 1
    b = CoreBuilder()
    x = b.input(tensor(*shape))
    e = b.exp(b.sub(x, b.broadcast_to(b.max(x, axis, keepdims=True), shape)))
    graph = b.build([b.div(e, b.broadcast_to(b.sum(e, axis, keepdims=True), shape)), b.mean(x, axis)])
    check(graph, *random_inputs(graph))


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.cpu)
def test_dynamic_kernels_are_equal_for_all_shapes(target: CpuTarget) -> None:
    texts: set[str] = set()
    for shape in ((3, 5), (70, 9), (2, 10000)):
        b = CoreBuilder("region")
        y = b.add(b.input(tensor(*shape)), b.broadcast_to(b.input(tensor(shape[1])), shape))
        general = generalize(lower_region(Fused(b.build([y]), "pointwise")), SHUFFLED)
        assert general is not None
        module = ModuleBuilder(target)
        emit_loops(general.kernel, target, module, "kernel", general.extents)
        texts.add(module.text())
    (text,) = texts
    assert re.search(REGISTERS[target], emit_assembly(text, target))


@pytest.mark.parametrize("body", [padded, pooled], ids=lambda f: f.__name__)
def test_kernels_that_depend_on_their_shape_have_no_dynamic_form(body: Body) -> None:
    assert generalize(lowered(body), SHUFFLED) is None


GENERAL = [body for body in BODIES if body not in (padded, pooled)]


@pytest.mark.parametrize("static", [True, False], ids=["static", "any-extents"])
@pytest.mark.parametrize("body", GENERAL, ids=lambda f: f.__name__)
def test_every_form_computes_the_same(body: Body, static: bool) -> None:
    b = CoreBuilder()
    graph = b.build([body(b)])
    check(graph, *random_inputs(graph), options=Options(static_shape=static))


def mean(b: CoreBuilder, shape: tuple[int, ...]) -> Value:
    return b.mean(b.input(tensor(*shape)), 1)


def largest(b: CoreBuilder, shape: tuple[int, ...]) -> Value:
    return b.max(b.input(tensor(*shape)), 0)


def tail(b: CoreBuilder, shape: tuple[int, ...]) -> Value:
    return b.slice(b.input(tensor(*shape)), (0, shape[1] // 3), shape, (1, 1))


def scaled(b: CoreBuilder, shape: tuple[int, ...]) -> Value:
    return b.mul(b.input(tensor(*shape)), float(shape[0]) / 7)


@pytest.mark.parametrize(("body", "kind"), [(mean, "row"), (largest, "row"), (tail, "move"), (scaled, "pointwise")])
def test_numbers_that_depend_on_the_shape_are_run_time_arguments(
    body: Callable[[CoreBuilder, tuple[int, ...]], Value], kind: str
) -> None:
    kernels: set[Kernel] = set()
    for shape in ((3, 5), (70, 9), (2, 10000)):
        b = CoreBuilder("region")
        general = generalize(lower_region(Fused(b.build([body(b, shape)]), kind)), SHUFFLED)
        assert general is not None
        verify_kernel(general.kernel)
        kernels.add(general.kernel)
    assert len(kernels) == 1
    assert "kernel.extent" in print_kernel(kernels.pop())


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64, DType.F16, DType.I8, DType.BOOL], ids=lambda d: d.value)
@pytest.mark.parametrize("shape", [(70, 45), (4, 100), (100, 3), (16, 32), (1, 9), (17, 5000)], ids=str)
def test_transposes_by_tiles(shape: tuple[int, int], dtype: DType) -> None:
    b = CoreBuilder()
    x, y = b.input(tensor(*shape, dtype=dtype)), b.input(tensor(*shape[::-1], dtype=dtype))
    transposed = b.transpose(x)
    both = b.logical_and(transposed, y) if dtype is DType.BOOL else b.add(transposed, y)
    graph = b.build([both])
    check(graph, *random_inputs(graph), tolerance=1e-3, options=Options(static_shape=False))


@pytest.mark.parametrize("order", [(0, 2, 1), (2, 1, 0), (2, 0, 1), (1, 2, 0)], ids=str)
def test_transposes_of_three_axes(order: tuple[int, ...]) -> None:
    b = CoreBuilder()
    x = b.input(tensor(19, 33, 21))
    graph = b.build([b.transpose(x, order)])
    program = check(graph, *random_inputs(graph), options=Options(static_shape=False))
    assert all(launch.symbol.startswith("g_") for launch in program.launches)


@pytest.mark.parametrize(("source", "narrow"), [("i32", "ui8"), ("i32", "i16"), ("i64", "i32"), ("f32", "ui8")])
@pytest.mark.parametrize("extent", [1, 9, 17, 33])
def test_a_last_vector_of_one_narrow_element_stores_that_element(source: str, narrow: str, extent: int) -> None:
    """LLVM compiles a store of a truncated vector under a constant mask of one lane to a wide scalar store."""
    b = CoreBuilder()
    x = b.input(tensor(extent, dtype=DType(source)))
    graph = b.build([b.cast(b.maximum(x, b.full_like(x, 2)), DType(narrow))])
    check(graph, (np.arange(extent) % 50).astype(DType(source).numpy))


def test_masks_of_one_lane_over_truncated_vectors_are_found() -> None:
    wide = "%2 = load <8 x i32>, ptr %0, align 4"
    call = "call void @llvm.masked.store.v8i8.p0(<8 x i8> {}, ptr align 1 %1, <8 x i1> <i1 true{}>)"
    truncated = f"  {wide}\n  %3 = trunc <8 x i32> %2 to <8 x i8>\n"
    with pytest.raises(CompileError, match="more than one lane"):
        check_masked_stores(f"{truncated}  {call.format('%3', ', i1 false' * 7)}\n")
    check_masked_stores(f"{truncated}  {call.format('%3', ', i1 true' + ', i1 false' * 6)}\n")
    check_masked_stores(f"{truncated}  {call.format('%1', ', i1 false' * 7)}\n")


def test_what_is_read_once_for_each_row_does_not_choose_the_vector_axis() -> None:
    """Rows of a matrix with a label each: vectors along the labels would gather the matrix."""
    b = CoreBuilder()
    x, label = b.input(tensor(6, 40)), b.input(tensor(6))
    shifted = b.mul(x, b.broadcast_along(label, (6, 40), 0))
    kernel = lower_region(Fused(b.build([b.sum(shifted, (1,))]), "row"))
    schedule = schedule_nest(build_nest(hoist_stages(kernel)), {v.name: v.dtype for v in kernel.buffers}, AVX2)
    assert schedule.vector in schedule.reductions
