"""Convolutions on the CPU against float64 NumPy: shapes, layouts, groups, schedules and epilogues, each launched in two
chunks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from contraction_kernels import ConvSpec, Extras, conv_kernel
from contractions import HOST, Runner, conv_reference
from mxforge.codegen.llvm.contract.emit import emit_contraction, schedule_contraction
from mxforge.codegen.llvm.contract.line_taps import line_taps
from mxforge.codegen.llvm.cpu import Cpu
from mxforge.codegen.llvm.emitter import ModuleBuilder
from mxforge.codegen.llvm.schedule.contract import conv_sizes, direct_blocks, winograd_blocks, winograd_tiles
from mxforge.codegen.llvm.schedule.describe import ContractionError, ConvShape, describe_contraction
from mxforge.codegen.llvm.schedule.kinds import DepthwiseSchedule, RegisterTile, TileSchedule, WinogradSchedule
from mxforge.codegen.llvm.target import AVX2, AVX512
from mxforge.codegen.llvm.winograd_tiles import usable_tiles
from mxforge.ir.kernel import Buffer, Cast, Const, Expr, Index, Load, Scalar, affine
from mxforge.ir.scalar import ScalarOp
from mxforge.ir.types import DType, Layout

pytest.importorskip("llvmlite.binding")
RNG = np.random.default_rng(7)


def halo(rank: int, low: int, high: int | None = None) -> tuple[tuple[int, int], ...]:
    return ((low, low if high is None else high),) * rank


@dataclass(frozen=True)
class Case:
    x: tuple[int, ...]
    w: tuple[int, ...]
    spec: ConvSpec
    x_layout: Layout | None = None
    out_layout: Layout | None = None
    dtype: DType = DType.F32
    schedule: type | None = None
    name: str = field(default="", compare=False)


def same(pad: int, rank: int = 2, stride: int = 1, **more: object) -> ConvSpec:
    return ConvSpec((stride,) * rank, (pad,) * rank, (pad,) * rank, **more)  # type: ignore[arg-type]


B8 = Layout(8, halo(2, 1))
CASES = [
    Case((1, 16, 9, 9), (24, 16, 3, 3), same(1, stride=2), B8, B8, name="blocked"),
    Case((2, 12, 7, 7), (20, 12, 3, 3), same(1), B8, B8, name="ragged channels, batch"),
    Case((2, 8, 8, 8), (8, 8, 1, 1), same(0), B8, Layout(8, halo(2, 0)), name="1x1 inside a halo"),
    Case((1, 40, 3, 3), (7, 40, 3, 3), same(1), Layout(8, halo(2, 3)), None, name="row-major result"),
    Case(
        (1, 16, 1, 1), (33, 16, 1, 1), same(0), Layout(8, halo(2, 0)), None, name="a single position, row-major result"
    ),
    Case((2, 3, 11, 13), (10, 3, 3, 3), ConvSpec((2, 2), (0, 1), (1, 2)), None, B8, name="image, asymmetric padding"),
    Case((1, 3, 12, 12), (8, 3, 11, 11), ConvSpec((1, 1), (2, 2), (2, 2)), None, B8, name="long rows of taps"),
    Case((1, 20, 6, 6), (16, 20, 1, 1), same(0), None, B8, name="row-major input, many channels, in place"),
    Case((1, 20, 6, 6), (16, 20, 3, 3), same(1), None, B8, name="row-major input, copied into blocks"),
    Case((1, 16, 9, 9), (16, 16, 3, 3), same(1), Layout(8, halo(2, 0)), B8, name="halo too small"),
    Case(
        (1, 16, 9, 8),
        (16, 16, 3, 3),
        ConvSpec((1, 2), (2, 0), (2, 0), (2, 1)),
        Layout(8, halo(2, 2)),
        B8,
        name="dilation",
    ),
    Case((1, 8, 10, 10), (8, 8, 3, 3), ConvSpec((1, 1), (-1, -2), (-1, 0)), B8, B8, name="cropping"),
    Case((1, 8, 5, 5), (16, 8, 4, 4), ConvSpec((1, 1), (2, 2), (2, 2), interior=(2, 2)), B8, B8, name="transposed"),
    Case(
        (1, 8, 5, 4),
        (16, 8, 3, 3),
        ConvSpec((1, 1), (2, 1), (1, 2), interior=(3, 2)),
        None,
        B8,
        name="transposed, row-major",
    ),
    Case((2, 16, 5, 6), (20, 16, 5, 5), same(4), Layout(8, halo(2, 4)), B8, name="lines that meet few taps"),
    Case((2, 12, 4, 3), (24, 12, 5, 5), same(2, stride=2), Layout(8, halo(2, 2)), B8, name="strided lines, few taps"),
    Case(
        (3, 16, 6, 1),
        (8, 16, 3, 1),
        ConvSpec((1, 1), (2, 0), (2, 0), (2, 1)),
        Layout(8, halo(2, 2)),
        B8,
        name="lines of one point",
    ),
    Case((4, 8, 2, 2), (8, 8, 7, 7), same(5), Layout(8, halo(2, 5)), B8, name="lines that meet no tap"),
    Case((1, 8, 9), (16, 8, 3), same(1, 1), Layout(8, halo(1, 1)), Layout(8, halo(1, 2)), name="one axis"),
    Case(
        (1, 8, 4, 5, 6), (16, 8, 3, 3, 3), same(1, 3), Layout(8, halo(3, 1)), Layout(8, halo(3, 0)), name="three axes"
    ),
    Case(
        (1, 4, 4, 5, 6),
        (9, 4, 2, 3, 1),
        ConvSpec((2, 1, 1), (0, 1, 0), (0, 1, 0)),
        None,
        None,
        name="three axes, row-major",
    ),
    Case((1, 16, 5, 5), (32, 8, 3, 3), same(1, groups=2), B8, B8, name="groups of whole blocks"),
    Case((1, 16, 5, 5), (16, 4, 3, 3), same(1, groups=4), B8, B8, name="two groups in a block"),
    Case((1, 9, 5, 5), (15, 3, 3, 3), same(1, groups=3), B8, B8, name="groups across blocks"),
    Case((2, 9, 5, 5), (15, 3, 3, 3), same(1, groups=3), None, None, name="groups, row-major"),
    Case((1, 8, 5, 5), (16, 1, 3, 3), same(1, groups=8), B8, B8, name="depthwise with a multiplier"),
    Case(
        (2, 20, 9, 13),
        (20, 1, 5, 5),
        same(2, groups=20),
        Layout(8, halo(2, 2)),
        B8,
        schedule=DepthwiseSchedule,
        name="depthwise",
    ),
    Case(
        (1, 16, 9, 9),
        (16, 1, 3, 3),
        same(1, stride=2, groups=16),
        None,
        None,
        schedule=DepthwiseSchedule,
        name="depthwise, row-major",
    ),
    Case(
        (1, 16, 9),
        (16, 1, 3),
        same(1, 1, groups=16),
        Layout(8, halo(1, 1)),
        Layout(8, halo(1, 0)),
        schedule=DepthwiseSchedule,
        name="depthwise, one axis",
    ),
    Case(
        (1, 12, 3, 4, 5),
        (12, 1, 3, 3, 3),
        same(1, 3, groups=12),
        Layout(8, halo(3, 1)),
        Layout(8, halo(3, 1)),
        schedule=DepthwiseSchedule,
        name="depthwise, three axes",
    ),
    Case(
        (1, 16, 6, 7),
        (16, 1, 3, 3),
        ConvSpec((1, 1), (2, 2), (2, 2), (2, 2), groups=16),
        Layout(8, halo(2, 2)),
        B8,
        name="depthwise, dilated",
    ),
    Case((1, 32, 8, 8), (24, 32, 3, 3), same(1), B8, B8, schedule=WinogradSchedule, name="Winograd"),
    Case(
        (2, 24, 9, 10),
        (20, 24, 3, 3),
        same(1),
        Layout(8, halo(2, 1, 4)),
        B8,
        schedule=WinogradSchedule,
        name="Winograd, ragged",
    ),
    Case((1, 32, 9, 9), (32, 32, 3, 3), same(1), B8, B8, name="no room for Winograd"),
    Case((1, 32, 12, 12), (32, 32, 3, 3), same(1), None, None, schedule=WinogradSchedule, name="Winograd, row-major"),
    Case((1, 16, 6, 6), (16, 16, 3, 3), same(1), Layout(16, halo(2, 1)), Layout(16, halo(2, 0)), name="blocks of 16"),
    Case((1, 16, 6, 6), (24, 16, 3, 3), same(1), B8, B8, dtype=DType.F64, name="float64"),
    Case((1, 3, 6, 6), (5, 3, 3, 3), same(1), None, None, dtype=DType.F64, name="float64, row-major"),
    Case((1, 16, 6, 6), (24, 16, 3, 3), same(1), B8, B8, dtype=DType.F16, name="float16"),
    Case((2, 3, 6, 6), (5, 3, 3, 3), same(1), None, None, dtype=DType.F16, name="float16, row-major"),
]
TOLERANCE = {DType.F32: 2e-6, DType.F64: 1e-13, DType.F16: 1e-3}


def make(case: Case) -> tuple[np.ndarray, np.ndarray]:
    numpy, rng = case.dtype.numpy, np.random.default_rng(7)
    x = rng.standard_normal(case.x).astype(numpy)
    return x, (rng.standard_normal(case.w) / np.sqrt(np.prod(case.w[1:]))).astype(numpy)


def round_to(dtype: DType):
    """Rounds results: 16-bit sums are accumulated in float32 and rounded once."""
    return (lambda total, index: Cast(dtype, total)) if dtype is DType.F16 else (lambda total, index: total)


def close(y: np.ndarray, expected: np.ndarray, dtype: DType = DType.F32, growth: float = 1) -> None:
    """`growth`: the factor by which transforms increase the rounding errors of sums."""
    assert y.shape == expected.shape
    assert np.abs(y - expected).max() <= growth * TOLERANCE[dtype] * max(1.0, float(np.abs(expected).max()))


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_convolution(case: Case) -> None:
    x, w = make(case)
    kernel = conv_kernel(
        case.x, case.w, case.spec, case.dtype, case.x_layout, case.out_layout, Extras(epilogue=round_to(case.dtype))
    )
    runner = Runner(kernel, values={"x": x, "w": w})
    if case.schedule is not None:
        assert isinstance(schedule_contraction(kernel, AVX2), case.schedule)  # on any machine
    close(runner.run(), conv_reference(x, w, case.spec), case.dtype)


def shape_of(case: Case) -> ConvShape:
    shape = describe_contraction(conv_kernel(case.x, case.w, case.spec, case.dtype, case.x_layout, case.out_layout))
    assert isinstance(shape, ConvShape)
    return shape


SCHEDULES = {
    "tiles of 4x3, the reduction in parts": TileSchedule(
        lanes=8, main=RegisterTile(4, 3), last=RegisterTile(4, 2), points=20, panels=1, steps=5, prefetch=1
    ),
    "the reduction outside the panels": TileSchedule(
        lanes=8,
        main=RegisterTile(5, 2),
        last=RegisterTile(5, 1),
        points=18,
        panels=2,
        steps=4,
        reduction_outside=True,
    ),
    "4 lanes": TileSchedule(lanes=4, main=RegisterTile(4, 2), last=None, points=49, panels=3),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_all_schedules_give_the_same_result(name: str) -> None:
    case = Case((1, 24, 7, 7), (40, 24, 3, 3), same(1), B8, B8)
    x, w = make(case)
    kernel = conv_kernel(case.x, case.w, case.spec, x_layout=B8, out_layout=B8)
    close(Runner(kernel, schedule=SCHEDULES[name], values={"x": x, "w": w}).run(), conv_reference(x, w, case.spec))


Way = Callable[[WinogradSchedule, int], WinogradSchedule]
"""A function of the schedule that the formulas choose and the number of all tiles."""
WAYS: dict[str, Way] = {
    "blocks of tiles": lambda s, tiles: replace(s, tiles=tiles // 2 + 1, fused=True),
    "all tiles": lambda s, tiles: replace(s, tiles=tiles, fused=False),
    "weights as taps": lambda s, tiles: replace(s, tiles=tiles, fused=False, expand=16, prefetch=2),
}


@pytest.mark.parametrize("output", [2, 4])
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_winograd(output: int, way: Way) -> None:
    case = Case((1, 40, 11, 13), (40, 40, 3, 3), same(1), Layout(8, ((1, 3), (2, 5))), B8)
    x, w = make(case)
    kernel = conv_kernel(case.x, case.w, case.spec, x_layout=case.x_layout, out_layout=B8)
    schedule = way(winograd_blocks(shape_of(case), output, HOST), -(-11 // output) * -(-13 // output))
    close(Runner(kernel, schedule=schedule, values={"x": x, "w": w}).run(), conv_reference(x, w, case.spec))


@pytest.mark.parametrize("taps", [(1, 7), (7, 1), (5, 5), (5, 1), (1, 3)], ids=str)
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_winograd_of_other_windows(taps: tuple[int, int], way: Way) -> None:
    """The points of transforms for more than three taps are larger, and so are rounding errors."""
    pad = (taps[0] // 2, taps[1] // 2)
    spec = ConvSpec((1, 1), pad, pad)
    case = Case((2, 24, 8, 10), (40, 24, *taps), spec, Layout(8, ((3, 6), (3, 6))), B8)
    x, w = make(case)
    kernel = conv_kernel(case.x, case.w, spec, x_layout=case.x_layout, out_layout=B8)
    shape = shape_of(case)
    for output in usable_tiles(conv_sizes(shape)):
        schedule = way(winograd_blocks(shape, output, HOST), winograd_tiles(shape, output))
        runner = Runner(kernel, schedule=schedule, values={"x": x, "w": w})
        close(runner.run(), conv_reference(x, w, spec), growth=2 if max(taps) > 3 else 1)


IMAGES = {
    "7x7": Case((2, 3, 23, 20), (24, 3, 7, 7), ConvSpec((2, 2), (3, 3), (3, 3)), None, B8),
    "without padding": Case((1, 3, 31, 28), (40, 3, 7, 7), ConvSpec((2, 2), (0, 0), (0, 0)), None, B8),
    "stride 4": Case((1, 3, 43, 47), (16, 3, 11, 11), ConvSpec((4, 4), (2, 2), (2, 2)), None, B8),
    "windows that are not square": Case((1, 4, 20, 21), (16, 4, 6, 5), ConvSpec((2, 2), (3, 0), (1, 2)), None, B8),
}


@pytest.mark.parametrize("case", IMAGES.values(), ids=IMAGES)
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_winograd_of_the_phases_of_an_image(case: Case, way: Way) -> None:
    """Positions of the input that are a stride apart are channels."""
    x, w = make(case)
    shape = shape_of(case)
    assert isinstance(schedule_contraction(shape.kernel, HOST), WinogradSchedule)
    for output in usable_tiles(conv_sizes(shape)):
        schedule = way(winograd_blocks(shape, output, HOST), winograd_tiles(shape, output))
        close(Runner(shape.kernel, schedule=schedule, values={"x": x, "w": w}).run(), conv_reference(x, w, case.spec))


def test_large_weights_of_winograd_are_stored_as_taps() -> None:
    """Transformed, those of 512 channels on 8 images take 36 MiB, 4 times the memory of the taps."""
    few, many = (
        Case((8, channels, 7, 7), (512, channels, 3, 3), same(1), Layout(16, ((1, 2), (1, 2))), Layout(16, halo(2, 0)))
        for channels in (256, 512)
    )
    target = replace(AVX512, threads=2, l1_bytes=48 << 10, l2_bytes=1 << 20)
    stored, expanded = (winograd_blocks(shape_of(case), 4, target) for case in (few, many))
    assert (stored.expand, stored.fused, expanded.expand, expanded.fused) == (0, False, 48, False)
    assert _packed_bytes(many, expanded, target) == 4 * 512 * 512 * 9
    assert _packed_bytes(few, stored, target) == 4 * 512 * 256 * 36


def _packed_bytes(case: Case, schedule: WinogradSchedule, target: Cpu) -> int:
    emission = emit_contraction(shape_of(case).kernel, schedule, target, ModuleBuilder(target), "k")
    ((_, packing),) = emission.packings
    return packing.nbytes


def load(buffer: str, index: Index) -> Load:
    return Load(buffer, index)


def op(name: str, *operands: Expr) -> Expr:
    return Scalar(ScalarOp(name), operands)


def number(value: float) -> Const:
    return Const(value, DType.F32)


def network_end(total: Expr, index: Index) -> Expr:
    """relu(sum * scale + bias + residual)"""
    scaled = op("add", op("mul", total, load("scale", ())), load("bias", (index[1],)))
    return op("max", op("add", scaled, load("residual", index)), number(0.0))


def gated_end(total: Expr, index: Index) -> Expr:
    """clip(sigmoid(sum) * gate[image, channel] + map[position]): padding channels are not zero by themselves."""
    gated = op("mul", op("sigmoid", total), load("gate", (index[0], index[1], affine(), affine())))
    return op("min", op("add", gated, load("map", (affine(), affine(), *index[2:]))), number(0.75))


@pytest.mark.parametrize("filters", [16, 20])
@pytest.mark.parametrize("kind", ["direct", "winograd", "depthwise", "row-major"])
@pytest.mark.parametrize("residual", ["same", "other halo", "row-major"])
def test_epilogues(kind: str, residual: str, filters: int) -> None:
    depthwise = kind == "depthwise"
    channels = filters if depthwise else 16
    case = Case(
        (2, channels, 6, 7), (filters, 1 if depthwise else channels, 3, 3), same(1, groups=filters if depthwise else 1)
    )
    out_layout = None if kind == "row-major" else B8
    room = Layout(8, halo(2, 1, 4 if kind == "winograd" else 1))
    r_layout = {"same": out_layout, "other halo": Layout(8, ((0, 2), (3, 1))), "row-major": None}[residual]
    shape = (2, filters, 6, 7)
    x, w = make(case)
    extra = {"scale": np.float32(0.5), "bias": RNG.standard_normal(filters), "residual": RNG.standard_normal(shape)}
    extra |= {"gate": RNG.standard_normal((2, filters, 1, 1)), "map": RNG.standard_normal((1, 1, 6, 7))}
    extra = {k: np.asarray(v, np.float32) for k, v in extra.items()}
    sums = conv_reference(x, w, case.spec)

    def run(epilogue, names: tuple[str, ...]) -> np.ndarray:
        buffers = tuple(Buffer(n, DType.F32, extra[n].shape, r_layout if n == "residual" else None) for n in names)
        kernel = conv_kernel(
            case.x, case.w, case.spec, x_layout=room, out_layout=out_layout, extras=Extras(buffers, epilogue)
        )
        return Runner(kernel, values={"x": x, "w": w, **extra}).run()

    expected = np.maximum(sums * 0.5 + extra["bias"][:, None, None] + extra["residual"], 0)
    close(run(network_end, ("scale", "bias", "residual")), expected)
    expected = np.minimum(extra["gate"] / (1 + np.exp(-sums)) + extra["map"], 0.75)
    close(run(gated_end, ("gate", "map")), expected)


def test_taps_that_meet_only_padding_are_skipped() -> None:
    shape = describe_contraction(conv_kernel((2, 16, 5, 6), (20, 16, 5, 5), same(4)))
    assert isinstance(shape, ConvShape)
    found = line_taps(shape)
    assert found is not None
    assert [found.range_of(line, line) for line in range(9)] == [
        *((4 - line, 5) for line in range(5)),
        *((0, 9 - line) for line in range(5, 9)),
    ]
    assert found.range_of(0, 1) == (3, 5)
    assert found.part == pytest.approx(25 / 45)


def test_strides_of_a_concatenation() -> None:
    """Operands and result are parts of larger buffers: the stride of images is larger than an image."""
    case = Case((3, 16, 5, 5), (8, 16, 3, 3), same(1), B8, B8)
    x, w = make(case)
    kernel = conv_kernel(case.x, case.w, case.spec, x_layout=B8, out_layout=B8)
    room = (49 * 8 * 7, 49 * 8, 7 * 8, 8, 1)
    kernel = conv_kernel(
        case.x, case.w, case.spec, x_layout=B8, out_layout=B8, extras=Extras(strides=(room, None, room))
    )
    close(Runner(kernel, values={"x": x, "w": w}).run(), conv_reference(x, w, case.spec))


def test_integers_are_refused() -> None:
    with pytest.raises(ContractionError, match="i32"):
        Runner(conv_kernel((1, 8, 4, 4), (8, 8, 1, 1), same(0), DType.I32))


def test_dynamic_shapes_are_refused() -> None:
    kernel = conv_kernel((1, 8, 4, 4), (8, 8, 1, 1), same(0))
    axes = tuple(replace(a, extent="n") if a.name == "i0" else a for a in kernel.axes)
    with pytest.raises(ContractionError, match="run-time"):
        Runner(replace(kernel, axes=axes))


@pytest.mark.parametrize("registers", [16, 32])
@pytest.mark.parametrize("filters", [24, 40])
def test_register_counts(registers: int, filters: int) -> None:
    """The tiles of machines with few and with many registers."""
    case = Case((1, 32, 12, 12), (filters, 32, 3, 3), same(1), Layout(8, halo(2, 2)), B8)
    x, w = make(case)
    kernel = conv_kernel(case.x, case.w, case.spec, x_layout=case.x_layout, out_layout=B8)
    target = replace(HOST, vector_registers=registers)
    for schedule in (direct_blocks(shape_of(case), target), winograd_blocks(shape_of(case), 4, target)):
        close(Runner(kernel, target, schedule, {"x": x, "w": w}).run(), conv_reference(x, w, case.spec))


def test_offsets_past_32_bits_are_refused() -> None:
    around = Layout(8, halo(2, 0))
    kernel = conv_kernel((70, 64, 1024, 1024), (8, 64, 1, 1), same(0), x_layout=around, out_layout=around)
    schedule = schedule_contraction(kernel, HOST)
    with pytest.raises(ContractionError, match="2\\^31"):
        emit_contraction(kernel, schedule, HOST, ModuleBuilder(HOST), "kernel")
