"""Weight gradients of convolutions on the CPU against the primitive in float64: shapes, layouts, groups and schedules,
each launched in two chunks.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from contraction_kernels import ConvSpec, Extras, weight_gradient_kernel
from contractions import HOST, Runner
from mxforge.codegen.llvm.contract.emit import schedule_contraction
from mxforge.codegen.llvm.schedule.describe import WeightGradientShape, describe_contraction
from mxforge.codegen.llvm.schedule.kinds import (
    ContractionSchedule,
    DepthwiseGradientSchedule,
    RegisterTile,
    WeightGradientSchedule,
    WinogradGradientSchedule,
)
from mxforge.codegen.llvm.schedule.weight_gradient import schedule_weight_gradient, winograd_gradient_forms
from mxforge.codegen.llvm.target import AVX2
from mxforge.ir.dialects.core import ConvWeightGradient
from mxforge.ir.kernel import Buffer, Cast, Expr, Index, Kernel, Load, Scalar
from mxforge.ir.scalar import ScalarOp
from mxforge.ir.types import DType, Layout
from mxforge.ir.verifier import verify_kernel

pytest.importorskip("llvmlite.binding")


def halo(rank: int, low: int, high: int | None = None) -> tuple[tuple[int, int], ...]:
    return ((low, low if high is None else high),) * rank


@dataclass(frozen=True)
class Case:
    x: tuple[int, ...]
    filters: int
    taps: tuple[int, ...]
    spec: ConvSpec
    x_layout: Layout | None = None
    layout: Layout | None = None
    dtype: DType = DType.F32
    schedule: type[ContractionSchedule] = WeightGradientSchedule
    name: str = field(default="", compare=False)

    def kernel(self, extras: Extras | None = None) -> Kernel:
        kernel = weight_gradient_kernel(
            self.x, self.filters, self.taps, self.spec, self.dtype, self.x_layout, self.layout, extras
        )
        verify_kernel(kernel)
        return kernel

    def values(self) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(sum(self.x))
        size = self.spec.out_size(self.x[2:], self.taps)
        shapes = {"x": self.x, "dy": (self.x[0], self.filters, *size)}
        return {name: rng.standard_normal(shape).astype(self.dtype.numpy) for name, shape in shapes.items()}

    def expected(self, values: dict[str, np.ndarray]) -> np.ndarray:
        spec = self.spec
        padding = tuple(zip(spec.low, spec.high, strict=True))
        op = ConvWeightGradient(self.taps, spec.stride, padding, spec.dilations(), spec.groups)
        return op.evaluate(*(v.astype(np.float64) for v in values.values()))[0]


def same(pad: int, rank: int = 2, stride: int = 1, **more: object) -> ConvSpec:
    return ConvSpec((stride,) * rank, (pad,) * rank, (pad,) * rank, **more)  # type: ignore[arg-type]


B8, B0 = Layout(8, halo(2, 1)), Layout(8, halo(2, 0))
DEPTHWISE, WINOGRAD = DepthwiseGradientSchedule, WinogradGradientSchedule
CASES = [
    Case((2, 16, 9, 9), 24, (3, 3), same(1), B8, B8, name="blocked"),
    Case((2, 16, 9, 9), 24, (3, 3), same(1, stride=2), B8, B0, name="strides"),
    Case((1, 8, 7, 50), 8, (3, 3), same(1), B8, B8, name="rows that no step divides"),
    Case((2, 12, 7, 7), 20, (3, 3), same(1), B8, B8, name="ragged channels and filters"),
    Case((2, 24, 6, 6), 40, (1, 1), same(0), B0, B0, name="1x1"),
    Case((2, 24, 7, 7), 16, (1, 1), same(0, stride=2), B8, B8, name="1x1 with strides, inside a halo"),
    Case((9, 16, 3, 3), 16, (3, 3), same(0), B0, B0, name="one position"),
    Case((2, 3, 15, 13), 16, (7, 7), same(3, stride=2), None, B8, name="image"),
    Case((2, 1, 8, 8), 20, (5, 5), same(0), None, B0, name="image without padding, in place"),
    Case((2, 3, 9, 11), 10, (3, 3), ConvSpec((2, 2), (0, 1), (1, 2)), None, B8, name="asymmetric padding"),
    Case(
        (1, 16, 9, 8), 16, (3, 3), ConvSpec((1, 2), (2, 0), (2, 0), (2, 1)), Layout(8, halo(2, 2)), B8, name="dilation"
    ),
    Case((1, 8, 10, 10), 8, (3, 3), ConvSpec((1, 1), (-1, -2), (-1, 0)), B8, B8, name="cropping"),
    Case((1, 16, 6, 6), 16, (3, 3), same(1), B0, B8, name="halo too small"),
    Case((2, 20, 6, 6), 12, (3, 3), same(1), None, None, name="row-major"),
    Case((2, 16, 9), 16, (3,), same(1, 1), Layout(8, halo(1, 1)), Layout(8, halo(1, 2)), name="one axis"),
    Case((1, 8, 4, 5, 6), 16, (3, 2, 3), same(1, 3), Layout(8, halo(3, 1)), Layout(8, halo(3, 0)), name="three axes"),
    Case((2, 16, 5, 5), 32, (3, 3), same(1, groups=2), B8, B8, name="groups of whole blocks"),
    Case((2, 16, 5, 5), 16, (3, 3), same(1, groups=4), B8, B8, name="two groups in a block"),
    Case((1, 9, 5, 5), 15, (3, 3), same(1, groups=3), B8, B8, name="groups across blocks"),
    Case((2, 9, 5, 5), 15, (3, 3), same(1, groups=3), None, None, name="groups, row-major"),
    Case((1, 8, 5, 5), 16, (3, 3), same(1, groups=8), B8, B8, name="depthwise with a multiplier"),
    Case(
        (2, 20, 9, 13),
        20,
        (5, 5),
        same(2, groups=20),
        Layout(8, halo(2, 2)),
        B8,
        schedule=DEPTHWISE,
        name="depthwise",
    ),
    Case(
        (2, 16, 9, 9),
        16,
        (3, 3),
        same(1, stride=2, groups=16),
        B8,
        B0,
        schedule=DEPTHWISE,
        name="depthwise, strides",
    ),
    Case(
        (3, 16, 9, 9),
        16,
        (3, 3),
        same(1, stride=2, groups=16),
        None,
        None,
        schedule=DEPTHWISE,
        name="depthwise, row-major",
    ),
    Case(
        (2, 5, 6, 3),
        5,
        (3, 3),
        same(1, groups=5),
        None,
        None,
        schedule=DEPTHWISE,
        name="depthwise, few channels",
    ),
    Case(
        (2, 16, 9),
        16,
        (3,),
        same(1, 1, groups=16),
        Layout(8, halo(1, 1)),
        Layout(8, halo(1, 0)),
        schedule=DEPTHWISE,
        name="depthwise, one axis",
    ),
    Case(
        (2, 12, 3, 4, 5),
        12,
        (3, 3, 3),
        same(1, 3, groups=12),
        Layout(8, halo(3, 1)),
        Layout(8, halo(3, 1)),
        schedule=DEPTHWISE,
        name="depthwise, three axes",
    ),
    Case(
        (1, 16, 6, 7),
        16,
        (3, 3),
        ConvSpec((1, 1), (2, 2), (2, 2), (2, 2), groups=16),
        Layout(8, halo(2, 2)),
        B8,
        schedule=DEPTHWISE,
        name="depthwise, dilated",
    ),
    Case(
        (2, 9, 6, 6),
        9,
        (3, 3),
        same(1, groups=9),
        None,
        None,
        dtype=DType.F64,
        schedule=DEPTHWISE,
        name="depthwise, float64",
    ),
    Case((2, 24, 8, 8), 40, (3, 3), same(1), B8, B8, schedule=WINOGRAD, name="Winograd"),
    Case(
        (3, 20, 9, 10),
        20,
        (3, 3),
        ConvSpec((1, 1), (1, 0), (1, 2)),
        Layout(8, halo(2, 1, 4)),
        Layout(8, halo(2, 0, 3)),
        schedule=WINOGRAD,
        name="Winograd, ragged",
    ),
    Case((2, 16, 12, 12), 16, (3, 3), same(1), None, None, schedule=WINOGRAD, name="Winograd, row-major"),
    Case((2, 24, 9, 9), 40, (3, 3), same(1), B8, B8, name="no room for Winograd"),
    Case((2, 16, 6, 6), 16, (3, 3), same(1), Layout(16, halo(2, 1)), Layout(16, halo(2, 0)), name="blocks of 16"),
    Case((1, 16, 6, 6), 24, (3, 3), same(1), None, None, dtype=DType.F64, name="float64"),
    Case((1, 3, 6, 6), 5, (3, 3), same(1), None, None, dtype=DType.F64, name="float64, few channels"),
    Case((2, 16, 6, 6), 24, (3, 3), same(1), None, None, dtype=DType.F16, name="float16"),
    Case((2, 3, 6, 6), 5, (3, 3), same(1), None, None, dtype=DType.F16, name="float16, few channels"),
]
TOLERANCE = {DType.F32: 1e-6, DType.F64: 1e-14, DType.F16: 1e-3}


def check(case: Case, schedule: ContractionSchedule | None = None, extras: Extras | None = None) -> None:
    values = case.values()
    if case.dtype is DType.F16:  # rounded once, when the sums are stored
        extras = Extras(epilogue=lambda total, index: Cast(DType.F16, total))
    y = Runner(case.kernel(extras), schedule=schedule, values=values).run()
    expected = case.expected(values)
    assert y.shape == expected.shape
    assert np.abs(y - expected).max() <= TOLERANCE[case.dtype] * np.abs(expected).max()


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_weight_gradient(case: Case) -> None:
    assert isinstance(schedule_contraction(case.kernel(), AVX2), case.schedule)  # on any machine
    check(case)


def schedule_of(case: Case) -> WeightGradientSchedule:
    shape = describe_contraction(case.kernel())
    assert isinstance(shape, WeightGradientShape)
    schedule = schedule_weight_gradient(shape, HOST)
    assert schedule is not None
    return schedule


SCHEDULES = {
    "short parts of the reduction": {"positions": 10},
    "many units": {"weights": 24, "panels": 1},
    "one unit": {"weights": 1 << 20, "panels": 5},
    "ragged units": {"weights": 66, "panels": 2, "positions": 20},
    "tiles of 4x3": {"main": RegisterTile(4, 3), "last": RegisterTile(5, 2), "weights": 40, "panels": 1},
    "4 lanes": {"lanes": 4, "main": RegisterTile(6, 2), "last": None, "panels": 2},
    "single positions": {"steps": 1},
}


@pytest.mark.parametrize("changes", SCHEDULES.values(), ids=SCHEDULES)
def test_all_schedules_give_the_same_result(changes: dict[str, object]) -> None:
    case = Case((2, 20, 7, 9), 37, (3, 3), same(1), B8, B8)
    schedule = replace(schedule_of(case), **changes)
    weights = min(schedule.weights, 180)
    check(case, replace(schedule, weights=weights))


@pytest.mark.parametrize("weights", [9, 27, 144])
def test_units_of_merged_groups(weights: int) -> None:
    case = Case((2, 32, 5, 5), 32, (3, 3), same(1, groups=8), B8, B8)
    check(case, replace(schedule_of(case), weights=weights))


@pytest.mark.parametrize("threads", [1, 2, 7, 64])
def test_sums_do_not_depend_on_the_number_of_threads(threads: int) -> None:
    case = Case((2, 16, 9, 9), 24, (3, 3), same(1), B8, B8)
    values = case.values()
    found = Runner(case.kernel(), replace(HOST, threads=threads), values=values).run()
    assert np.array_equal(found, Runner(case.kernel(), values=values).run())


WINOGRAD_SCHEDULES: dict[str, dict[str, object]] = {
    "few tiles": {"fused": False, "parts": 1, "tiles": 20, "channels": 20},
    "few channels": {"fused": False, "parts": 1, "tiles": 20, "channels": 7},
    "one part": {"fused": True, "parts": 1, "tiles": 8, "channels": 9},
    "three parts": {"fused": True, "parts": 3, "tiles": 4, "channels": 20},
    "tiles of 4x3": {"fused": True, "parts": 2, "tiles": 12, "channels": 8, "main": RegisterTile(4, 3)},
}


@pytest.mark.parametrize("changes", WINOGRAD_SCHEDULES.values(), ids=WINOGRAD_SCHEDULES)
@pytest.mark.parametrize("filters", [24, 37])
def test_winograd(changes: dict[str, object], filters: int) -> None:
    case = Case((3, 20, 7, 9), filters, (3, 3), same(1), Layout(8, halo(2, 1, 5)), Layout(8, halo(2, 0, 3)))
    shape = describe_contraction(case.kernel())
    assert isinstance(shape, WeightGradientShape)
    schedule = winograd_gradient_forms(shape, HOST)[0]
    if "main" in changes:
        changes = {**changes, "last": RegisterTile(6, -(-filters // 8) % 3) if -(-filters // 8) % 3 else None}
    check(case, replace(schedule, **changes))


def ended(total: Expr, index: Index) -> Expr:
    return Scalar(ScalarOp.ADD, (Load("before", index), total))


@pytest.mark.parametrize("groups", [1, 2])
def test_an_epilogue_and_strides_of_the_result(groups: int) -> None:
    """The result is a part of a larger buffer, and sums are added to other numbers."""
    case = Case((1, 16, 6, 6), 16, (3, 3), same(1, groups=groups), B8, B8)
    values = case.values()
    shape = (16, 16 // groups, 3, 3)
    values["before"] = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    extras = Extras((Buffer("before", DType.F32, shape),), ended, strides=(None, None, (400, 20, 6, 2)))
    y = Runner(case.kernel(extras), values=values).run()
    expected = case.expected({name: values[name] for name in ("x", "dy")}) + values["before"]
    assert np.abs(y - expected).max() <= 1e-6 * np.abs(expected).max()
