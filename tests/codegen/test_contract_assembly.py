"""The machine code of micro-kernels on every target: full-width multiply-adds, and no vector spills in the loop."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from contraction_kernels import ConvSpec, conv_kernel, gemm_kernel, weight_gradient_kernel
from mxforge.codegen.llvm.compile import emit_assembly
from mxforge.codegen.llvm.contract.emit import emit_contraction, schedule_contraction
from mxforge.codegen.llvm.emitter import ModuleBuilder
from mxforge.codegen.llvm.schedule.kinds import TileSchedule, WeightGradientSchedule
from mxforge.codegen.llvm.target import AVX2, AVX512, NEON, CpuTarget
from mxforge.ir.kernel import Kernel
from mxforge.ir.types import Layout

pytest.importorskip("llvmlite.binding")

AVX512_NARROW = replace(AVX512, vector_bits=256)
"""AVX-512 with 32 registers of 256 bits."""

MULTIPLY_ADD = {
    AVX2: r"vfmadd\w+ps.*%ymm",
    AVX512: r"vfmadd\w+ps.*%zmm",
    AVX512_NARROW: r"vfmadd\w+ps.*%ymm",
    NEON: r"fmla\s+v\d+\.4s",
}
SPILL = {AVX2: r"\(%rsp\).*%[yx]mm|%[yx]mm.*\(%rsp\)", NEON: r"[qv]\d+.*\[sp"}
SPILL |= dict.fromkeys((AVX512, AVX512_NARROW), r"\(%rsp\).*%[zyx]mm|%[zyx]mm.*\(%rsp\)")
NAMES = {AVX2: "avx2", AVX512: "avx512", AVX512_NARROW: "avx512 at 256 bits", NEON: "neon"}


def assembly(kernel: Kernel, target: CpuTarget) -> tuple[TileSchedule | WeightGradientSchedule, str]:
    schedule = schedule_contraction(kernel, target, frozenset("b"))
    assert isinstance(schedule, TileSchedule | WeightGradientSchedule)
    module = ModuleBuilder(target)
    emit_contraction(kernel, schedule, target, module, "kernel")
    return schedule, emit_assembly(module.text(), target)


def inner_loop(text: str, tile: str, pattern: str) -> list[str]:
    """The basic block of micro-kernel `tile` with the most multiply-adds."""
    body = re.search(rf"^{tile}\.\w+:$(.*?)^\.Lfunc_end", text, re.MULTILINE | re.DOTALL)
    assert body is not None
    blocks = re.split(r"^\.\w+:.*$", body[1], flags=re.MULTILINE)
    return max(blocks, key=lambda b: len(re.findall(pattern, b))).splitlines()


def direct(block: int) -> Kernel:
    """A 1x1 convolution, which is a direct convolution on every target."""
    around = Layout(block, ((0, 0), (0, 0)))
    return conv_kernel(
        (1, 64, 28, 28), (128, 64, 1, 1), ConvSpec((1, 1), (0, 0), (0, 0)), x_layout=around, out_layout=around
    )


def gradient(block: int, taps: int) -> Kernel:
    pad = (taps // 2, taps // 2)
    around, spec = Layout(block, (pad, pad)), ConvSpec((1, 1), pad, pad)
    channels = 64 if taps == 1 else 8  # Winograd needs more
    return weight_gradient_kernel((2, channels, 16, 16), 96, (taps, taps), spec, x_layout=around, layout=around)


@pytest.mark.parametrize("target", MULTIPLY_ADD, ids=NAMES.get)
@pytest.mark.parametrize("kind", ["convolution", "product", "weight gradient", "weight gradient of 1x1"])
def test_micro_kernel(kind: str, target: CpuTarget) -> None:
    block = target.channel_block
    kernels = {
        "convolution": lambda: direct(block),
        "product": lambda: gemm_kernel((), 96, 256, 64),
        "weight gradient": lambda: gradient(block, 3),
        "weight gradient of 1x1": lambda: gradient(block, 1),
    }
    schedule, text = assembly(kernels[kind](), target)
    tile = schedule.main
    name, unroll = ("gradient", 8) if isinstance(schedule, WeightGradientSchedule) else ("tile", 4)
    loop = inner_loop(text, f"{name}.{tile.rows}x{tile.vectors}", MULTIPLY_ADD[target])
    found = [line for line in loop if re.search(MULTIPLY_ADD[target], line)]
    assert len(found) == tile.rows * tile.vectors * unroll
    assert not [line for line in loop if re.search(SPILL[target], line)]
    assert tile.rows * tile.vectors >= target.fma_latency * target.fma_per_cycle
