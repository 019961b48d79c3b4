"""The emitted Triton source, and the kernels that the emitter refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from contraction_kernels import ConvSpec, Extras, conv_kernel, gemm_kernel
from mxforge.codegen.triton.emit import emit_launches, emit_triton
from mxforge.codegen.triton.schedule import TileDim, longest_row, schedule_triton
from mxforge.codegen.triton.sizes import product, size
from mxforge.codegen.triton.target import SM90
from mxforge.ir.kernel import (
    Affine,
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
from mxforge.ir.types import DType, Layout

GOLDEN = Path(__file__).parent / "golden"
F32, BF16 = DType.F32, DType.BF16


def load(buffer: str, *axes: str) -> Load:
    return Load(buffer, tuple(affine((a, 1)) for a in axes))


def store(buffer: str, value, *axes: str) -> Store:
    return Store(buffer, tuple(affine((a, 1)) for a in axes), value)


def add_kernel(rows: int | str = 1000, columns: int | str = 300) -> Kernel:
    """x0[i0, i1] + x1[i1], rounded to the dtype of the result."""
    buffers = (
        Buffer("x0", BF16, (rows, columns)),
        Buffer("x1", BF16, (columns,)),
        Buffer("y0", BF16, (rows, columns), written=True),
    )
    total = Scalar(ScalarOp.ADD, (load("x0", "i0", "i1"), load("x1", "i1")))
    extents = tuple(n for n in (rows, columns) if isinstance(n, str))
    return Kernel("add", buffers, extents, (Axis("i0", rows), Axis("i1", columns)), (store("y0", total, "i0", "i1"),))


def transpose_kernel(rows: int = 300, columns: int = 200) -> Kernel:
    buffers = (Buffer("x0", F32, (columns, rows)), Buffer("y0", F32, (rows, columns), written=True))
    return Kernel(
        "transpose",
        buffers,
        (),
        (Axis("i0", rows), Axis("i1", columns)),
        (store("y0", load("x0", "i1", "i0"), "i0", "i1"),),
    )


def softmax_kernel(rows: int | str, columns: int | str, dtype: DType = F32) -> Kernel:
    x = load("x0", "i0", "r1")
    e = Scalar(ScalarOp.EXP, (Scalar(ScalarOp.SUB, (x, Ref("high"))),))
    stages = (
        Local("high", ("i0",), Reduce(ReduceOp.MAX, ("r1",), x)),
        Local("e", ("i0", "r1"), e),
        Local("total", ("i0",), Reduce(ReduceOp.ADD, ("r1",), Ref("e"))),
        store("y0", Scalar(ScalarOp.DIV, (Ref("e"), Ref("total"))), "i0", "r1"),
    )
    buffers = (Buffer("x0", dtype, (rows, columns)), Buffer("y0", dtype, (rows, columns), written=True))
    extents = tuple(n for n in (rows, columns) if isinstance(n, str))
    return Kernel("softmax", buffers, extents, (Axis("i0", rows), Axis("r1", columns, AxisKind.REDUCE)), stages)


def dense_kernel(rows: int, columns: int, inner: int, dtype: DType = F32) -> Kernel:
    """relu(a b^T + bias) + residual, with weights in MXNet's order."""
    extra = (Buffer("bias", dtype, (columns,)), Buffer("residual", dtype, (rows, columns)))

    def epilogue(total, index):
        shifted = Scalar(ScalarOp.ADD, (total, Load("bias", index[-1:])))
        return Scalar(ScalarOp.ADD, (Scalar(ScalarOp.MAX, (shifted, Const(0.0, dtype))), Load("residual", index)))

    return gemm_kernel((), rows, columns, inner, dtype, (False, True), extras=Extras(extra, epilogue), name="dense")


GOLDEN_KERNELS = {
    "add": add_kernel(),
    "add_dynamic": add_kernel("rows", "columns"),
    "transpose": transpose_kernel(),
    "softmax": softmax_kernel(64, 1000),
    "softmax_short_rows": softmax_kernel(100, 30, BF16),
    "softmax_long_rows": softmax_kernel(4, 40000),
    "dense": dense_kernel(256, 384, 100),
    "batched_gemm": gemm_kernel((4, 3), 70, 50, 90, DType.F16, name="batched_gemm"),
}


@pytest.mark.parametrize("name", GOLDEN_KERNELS)
def test_golden_source(name: str, request: pytest.FixtureRequest) -> None:
    launches = emit_launches(kernel := GOLDEN_KERNELS[name], schedule_triton(kernel, SM90))
    text = "\n\n".join(source.text for source in launches)
    file = GOLDEN / f"{name}.py.txt"
    if request.config.getoption("--update-golden"):
        file.write_text(text)
    assert text == file.read_text(), f"{file.name} differs; look at it after pytest --update-golden"


def test_every_golden_text_has_a_kernel() -> None:
    assert {f.name.removesuffix(".py.txt") for f in GOLDEN.iterdir()} == set(GOLDEN_KERNELS)


def test_arguments_follow_the_kernel() -> None:
    kernel = add_kernel("rows", "columns")
    source = emit_triton(kernel, replace(schedule_triton(kernel, SM90), divisible=frozenset(("columns",))))
    assert source.signature == (
        ("x0_ptr", "*bf16"),
        ("x1_ptr", "*bf16"),
        ("y0_ptr", "*bf16"),
        ("rows", "i64"),
        ("columns", "i64"),
    )
    assert source.divisible == {"x0_ptr", "x1_ptr", "y0_ptr", "columns"}
    block = int(dict(source.constants)["X_BLOCK"])
    assert source.programs({"rows": 7, "columns": 1000}) == -(-7000 // block)
    assert source.programs({"rows": 0, "columns": 1000}) == 0


def test_unaligned_pointers_have_no_divisibility() -> None:
    kernel = add_kernel()
    assert emit_triton(kernel, replace(schedule_triton(kernel, SM90), aligned=False)).divisible == frozenset()


def test_large_buffers_have_wide_indices() -> None:
    assert not schedule_triton(add_kernel(1 << 10, 1 << 20), SM90).wide
    assert schedule_triton(add_kernel(1 << 11, 1 << 20), SM90).wide
    assert schedule_triton(gemm_kernel((), 16, 1 << 20, 1 << 12, BF16), SM90).wide
    assert schedule_triton(add_kernel("rows", 3), SM90).wide  # run-time extents are unknown


def test_schedule_follows_the_target() -> None:
    kernel = softmax_kernel(4, longest_row(SM90))
    small = replace(SM90, shared_bytes=SM90.shared_bytes // 2)
    assert schedule_triton(kernel, SM90).dim("r") == TileDim("r", ("r1",), longest_row(SM90))
    assert schedule_triton(kernel, small).dim("r").block < longest_row(small)
    wide, narrow = (schedule_triton(gemm_kernel((), n, n, n, BF16), SM90) for n in (8192, 512))
    assert (wide.dim("m").block, wide.dim("n").block, wide.num_warps, wide.split) == (128, 256, 8, 1)
    assert (narrow.dim("m").block, narrow.dim("n").block, narrow.split) == (64, 64, 1)


def test_programs_share_long_sums_of_few_tiles() -> None:
    gradient = schedule_triton(gemm_kernel((), 64, 576, 1 << 17, BF16), SM90)
    assert 2 * SM90.multiprocessors <= 9 * gradient.split <= 4 * SM90.multiprocessors
    assert schedule_triton(gemm_kernel((), 8192, 8192, 8192, BF16), SM90).split == 1
    unknown = replace(gemm_kernel((), "n", 64, 1 << 14, BF16), extents=("n",))  # type: ignore[arg-type]
    assert schedule_triton(unknown, SM90).split == 1  # its tiles have no bound, and the counters have
    assert schedule_triton(unknown, SM90, {"n": 64}).split > 1


def test_float32_products_are_float32() -> None:
    assert schedule_triton(gemm_kernel((), 512, 512, 512), SM90).precision == "float32"
    assert schedule_triton(gemm_kernel((), 16, 16, 16), SM90).precision == "exact"


def test_sizes_print_as_expressions() -> None:
    n, m = size("n"), size("m")
    assert str(size(6) * size(7)) == "42"
    assert str(product((n, m, size(4)))) == "(m * n * 4)"
    assert str(n + n + size(3)) == "(3 + n * 2)"
    assert (n * m + size(2)).value({"n": 5, "m": 3}) == 17
    assert (n + size(-1) * n) == size(0)
    assert (n * size(32)).divisible_by(1) is False
    assert size(64).divisible_by(32)


def test_names_are_identifiers() -> None:
    kernel = replace(add_kernel(), name="add-1")
    with pytest.raises(ValueError, match="'add-1': the name of a Triton function"):
        emit_triton(kernel, schedule_triton(kernel, SM90))


def test_a_convolution_is_an_implicit_product() -> None:
    kernel = conv_kernel((2, 8, 9, 9), (12, 8, 3, 3), ConvSpec((1, 1), (1, 1), (1, 1)), name="stem")
    schedule = schedule_triton(kernel, SM90)
    assert [d.axes for d in schedule.dims] == [(), ("i0", "i2", "i3"), ("i1",), ("r0", "r1", "r2")]
    assert "tl.dot(" in emit_triton(kernel, schedule).text


def test_doubles_are_summed_without_tensor_cores() -> None:
    kernel = gemm_kernel((), 16, 16, 16, DType.F64)
    schedule = schedule_triton(kernel, SM90)
    assert schedule.fallback == "kernel gemm: tensor cores cannot sum products of f64 in f64"
    assert "tl.dot(" not in emit_triton(kernel, schedule).text


def test_blocked_layouts_are_refused_by_name() -> None:
    buffers = (Buffer("x", F32, (1, 16, 4), Layout(8, ((0, 0),))), Buffer("y", F32, (1, 16, 4), written=True))
    axes = tuple(Axis(f"i{k}", n) for k, n in enumerate((1, 16, 4)))
    kernel = Kernel("blocked", buffers, (), axes, (store("y", load("x", "i0", "i1", "i2"), "i0", "i1", "i2"),))
    with pytest.raises(ValueError, match="blocked: buffer x is neither row-major nor channels-last"):
        schedule_triton(kernel, SM90)


def test_several_contractions_are_summed_without_tensor_cores() -> None:
    kernel = gemm_kernel((), 16, 16, 16)
    (stage,) = kernel.stages
    assert isinstance(stage, Store) and isinstance(stage.value, Contract)
    twice = Scalar(ScalarOp.ADD, (stage.value, replace(stage.value, lhs=Cast(F32, stage.value.lhs))))
    schedule = schedule_triton(replace(kernel, stages=(replace(stage, value=twice),)), SM90)
    assert schedule.fallback == "kernel gemm has 2 contractions"


def test_reductions_beside_a_contraction_are_refused_by_name() -> None:
    kernel = gemm_kernel((), 16, 16, 16)
    (stage,) = kernel.stages
    assert isinstance(stage, Store)
    total = Reduce(ReduceOp.ADD, ("k",), load("a", "m", "k"))
    kernel = replace(kernel, stages=(replace(stage, value=Scalar(ScalarOp.ADD, (stage.value, total))),))
    with pytest.raises(NotImplementedError, match="gemm: reductions beside a contraction"):
        emit_triton(kernel, schedule_triton(kernel, SM90))


def test_reductions_over_different_axes_are_refused_by_name() -> None:
    axes = (Axis("r0", 4, AxisKind.REDUCE), Axis("r1", 5, AxisKind.REDUCE))
    sums = tuple(Reduce(ReduceOp.ADD, (a,), Load("x", (affine((a, 1)),))) for a in ("r0", "r1"))
    buffers = (Buffer("x", F32, (5,)), Buffer("y", F32, (1,), written=True))
    kernel = Kernel("mixed", buffers, (), axes, (Store("y", (Affine(),), Scalar(ScalarOp.ADD, sums)),))
    with pytest.raises(NotImplementedError, match="mixed: reductions over different axes"):
        emit_triton(kernel, schedule_triton(kernel, SM90))
