"""A kind of schedule is one module and a line of the registry: this file adds one, which nothing else knows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from compiled import check
from contraction_kernels import ConvSpec, conv_kernel, gemm_kernel
from contractions import Runner, conv_reference
from mxforge.codegen.emission import Emission
from mxforge.codegen.llvm.contract import emit, emit_contraction, schedule_contraction
from mxforge.codegen.llvm.contract.kind import ScheduleKind
from mxforge.codegen.llvm.emitter import ModuleBuilder
from mxforge.codegen.llvm.loops.emit import emit_loops
from mxforge.codegen.lower_contract import contract_as_sum
from mxforge.codegen.schedule.describe import ContractionError, ConvShape
from mxforge.ir.dialects.core import CoreBuilder
from mxforge.ir.schedule import ContractionSchedule, TileSchedule
from mxforge.ir.target import AVX2, CpuTarget
from mxforge.ir.types import DType
from mxforge.passes.manager import Options
from rewriting import random_inputs, tensor

POINT = ConvSpec((1, 1), (0, 0), (0, 0))
AROUND = ConvSpec((1, 1), (1, 1), (1, 1))
pytest.importorskip("llvmlite.binding")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScratchSchedule(ContractionSchedule):
    """1x1 convolutions one sum at a time."""

    taps: int


def choose(shape: ConvShape, target: CpuTarget, parameters: frozenset[str]) -> ScratchSchedule | None:
    return ScratchSchedule(taps=shape.taps) if shape.taps == 1 and shape.groups == 1 else None


def emit_scratch(
    shape: ConvShape, schedule: ScratchSchedule, target: CpuTarget, module: ModuleBuilder, symbol: str
) -> Emission:
    assert schedule.taps == 1
    return emit_loops(contract_as_sum(shape.kernel), target, module, f"{symbol}.scratch")


SCRATCH = ScheduleKind(contraction=ConvShape, schedule=ScratchSchedule, choose=choose, emit=emit_scratch)


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line of the registry."""
    monkeypatch.setattr(emit, "KINDS", (SCRATCH, *emit.KINDS))


def test_a_new_kind_runs_what_it_takes() -> None:
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 6, 5, 4)).astype(np.float32), rng.standard_normal((7, 6, 1, 1)).astype(np.float32)
    kernel = conv_kernel(x.shape, w.shape, POINT)
    runner = Runner(kernel, values={"x": x, "w": w})
    assert runner.schedule == ScratchSchedule(taps=1)
    assert [launch.symbol for launch in runner.emission.launches] == ["kernel.scratch"]
    np.testing.assert_allclose(runner.run(), conv_reference(x, w, POINT), rtol=1e-5, atol=1e-5)


def test_a_new_kind_is_part_of_compilations() -> None:
    b = CoreBuilder("net")
    x, w = b.input(tensor(1, 3, 5, 4)), b.input(tensor(4, 3, 1, 1))
    graph = b.build([b.maximum(b.conv(x, w, (1, 1), ((0, 0),) * 2), 0.0)])
    program = check(graph, *random_inputs(graph), options=Options(static_shape=True))
    assert any(launch.symbol.endswith(".scratch") for launch in program.launches)


def test_others_keep_their_kinds() -> None:
    assert isinstance(schedule_contraction(conv_kernel((1, 8, 5, 5), (8, 8, 3, 3), AROUND), AVX2), TileSchedule)
    assert isinstance(schedule_contraction(gemm_kernel((), 64, 64, 64), AVX2), TileSchedule)


def test_a_schedule_of_another_contraction_is_refused() -> None:
    with pytest.raises(ContractionError, match="ScratchSchedule does not fit a GemmShape"):
        emit_contraction(gemm_kernel((), 4, 4, 4), ScratchSchedule(taps=1), AVX2, ModuleBuilder(AVX2), "kernel")


def test_what_no_kind_takes_is_named() -> None:
    with pytest.raises(ContractionError, match="no schedule takes products of i32 by i32 in i32"):
        schedule_contraction(gemm_kernel((), 4, 4, 4, DType.I32), AVX2)
