"""Schedules for 8 to 64 threads: large layers have units for all threads, and those for one and two threads are as
they were before larger numbers had formulas of their own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from contraction_kernels import ConvSpec, conv_kernel, gemm_kernel
from contractions import Runner
from mxforge.codegen.llvm.contract.emit import emit_contraction, schedule_contraction
from mxforge.codegen.llvm.contract.tiles import grain_of
from mxforge.codegen.llvm.cpu import Cpu
from mxforge.codegen.llvm.emitter import ModuleBuilder
from mxforge.codegen.llvm.schedule.contract import Extent, block_points, even_units, large_product
from mxforge.codegen.llvm.schedule.kinds import TileSchedule, WinogradSchedule
from mxforge.codegen.llvm.schedule.registers import choose_tiles
from mxforge.codegen.llvm.target import AVX512, CpuTarget
from mxforge.ir.kernel import Kernel
from mxforge.ir.types import Layout
from mxforge.runtime.host.machine import host_target

THREADS = (8, 16, 32, 64)


def same(taps: int, stride: int = 1, groups: int = 1) -> ConvSpec:
    pad = taps // 2
    return ConvSpec((stride, stride), (pad, pad), (pad, pad), groups=groups)


def conv(channels: int, filters: int, size: int, taps: int = 1, stride: int = 1, groups: int = 1) -> Kernel:
    """A convolution of one image between blocked layouts, with room for tiles of Winograd."""
    block = 16
    room = Layout(block, ((taps // 2, taps // 2 + 4),) * 2) if channels >= block else None
    out = Layout(block, ((0, 0), (0, 0)))
    shape = (filters, channels // groups, taps, taps)
    return conv_kernel((1, channels, size, size), shape, same(taps, stride, groups), x_layout=room, out_layout=out)


LAYERS = {
    "resnet50 first": lambda: conv(3, 64, 224, 7, 2),
    "resnet50 56, 3x3": lambda: conv(64, 64, 56, 3),
    "resnet50 56, expand": lambda: conv(64, 256, 56),
    "resnet50 28, 3x3": lambda: conv(128, 128, 28, 3),
    "resnet50 28, reduce": lambda: conv(512, 128, 28),
    "resnet50 14, 3x3": lambda: conv(256, 256, 14, 3),
    "resnet50 14, reduce": lambda: conv(1024, 256, 14),
    "resnet50 7, 3x3": lambda: conv(512, 512, 7, 3),
    "resnet50 7, expand": lambda: conv(512, 2048, 7),
    "mobilenet 112, depthwise": lambda: conv(96, 96, 112, 3, 2, 96),
    "mobilenet 14, depthwise": lambda: conv(384, 384, 14, 3, 1, 384),
    "mobilenet 112, expand": lambda: conv(16, 96, 112),
    "mobilenet 14, expand": lambda: conv(64, 384, 14),
    "mobilenet 7, last": lambda: conv(320, 1280, 7),
    "vgg16 224, 3x3": lambda: conv(64, 64, 224, 3),
    "vgg16 28, 3x3": lambda: conv(512, 512, 28, 3),
    "bert project": lambda: gemm_kernel((), 128, 2304, 768, transposed=(False, True)),
    "bert join": lambda: gemm_kernel((), 128, 768, 768, transposed=(False, True)),
    "bert wide": lambda: gemm_kernel((), 128, 3072, 768, transposed=(False, True)),
    "bert narrow": lambda: gemm_kernel((), 128, 768, 3072, transposed=(False, True)),
    "lstm step": lambda: gemm_kernel((), 32, 2600, 650, transposed=(False, True)),
}


def shares(kernel: Kernel, target: CpuTarget) -> list[float]:
    """For each launch, the work of a thread on average by that of the busiest thread."""
    schedule = schedule_contraction(kernel, target, frozenset(("w", "b")))
    launches = emit_contraction(kernel, schedule, target, ModuleBuilder(target), "kernel").launches
    return [x.count / (-(-x.count // target.threads) * target.threads) for x in launches if x.kind != "layout"]


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("name", LAYERS)
def test_large_layers_keep_threads_busy(name: str, threads: int) -> None:
    kernel, target = LAYERS[name](), replace(AVX512, threads=threads)
    is_winograd = isinstance(schedule_contraction(kernel, target, frozenset(("w", "b"))), WinogradSchedule)
    (*_, share) = shares(kernel, target)
    assert share >= (0.4 if is_winograd else 0.6)  # Winograd does a quarter of the multiply-adds


FIXED = [
    # points, vectors, depth, groups -> (points, panels, steps): block_points, large_product, for one and two threads
    ((12544, 4, 147, 1), ((240, 0, 0), (240, 1, 8), (240, 0, 0), (240, 1, 8))),
    ((3136, 4, 576, 1), ((113, 0, 0), (240, 1, 8), (113, 0, 0), (240, 1, 8))),
    ((3136, 16, 64, 1), ((240, 0, 0), (240, 4, 8), (224, 0, 0), (240, 2, 8))),
    ((784, 8, 1152, 1), ((784, 1, 0), (240, 2, 8), (56, 1, 0), (240, 1, 8))),
    ((784, 8, 512, 1), ((128, 0, 0), (240, 2, 8), (98, 0, 0), (240, 1, 8))),
    ((196, 16, 1024, 1), ((64, 0, 0), (196, 4, 8), (49, 0, 0), (196, 1, 8))),
    ((196, 24, 64, 1), ((196, 1, 0), (196, 3, 8), (196, 1, 0), (196, 1, 8))),
    ((49, 32, 4608, 1), ((49, 1, 32), (49, 8, 8), (49, 1, 32), (49, 1, 8))),
    ((49, 128, 512, 1), ((49, 1, 0), (49, 16, 8), (49, 1, 0), (49, 2, 8))),
    ((49, 80, 320, 1), ((49, 1, 0), (49, 20, 8), (49, 1, 0), (49, 2, 8))),
    ((128, 144, 768, 1), ((128, 1, 0), (128, 8, 8), (128, 1, 0), (128, 3, 8))),
    ((128, 48, 3072, 1), ((128, 1, 32), (128, 6, 8), (128, 1, 32), (128, 1, 8))),
    ((32, 163, 650, 1), ((32, 1, 0), (48, 21, 8), (32, 1, 0), (48, 3, 8))),
    ((128, 8, 64, 12), ((128, 1, 0), (128, 2, 8), (128, 1, 0), (128, 1, 8))),
    ((1, 63, 1280, 1), ((1, 1, 9), (48, 5, 8), (1, 1, 9), (48, 1, 8))),
]


def blocks(points: int, vectors: int, depth: int, groups: int, target: Cpu) -> list[tuple[int, int, int]]:
    main, last = choose_tiles(vectors, points, 1, target)
    nest = TileSchedule(lanes=target.lanes(), main=main, last=last, points=points, panels=0)
    extent = Extent(points=points, vectors=vectors, depth=depth, groups=groups, inputs=depth)
    found = block_points(nest, extent, target), large_product(nest, extent, target)
    return [(s.points, s.panels, s.steps) for s in found]


@pytest.mark.parametrize(("sizes", "expected"), FIXED)
def test_one_and_two_threads(sizes: tuple[int, int, int, int], expected: tuple[tuple[int, int, int], ...]) -> None:
    """Schedules of the version before."""
    one, two = (blocks(*sizes, replace(AVX512, threads=n)) for n in (1, 2))
    assert (*one, *two) == expected


def test_even_units() -> None:
    """(points, panels) of a unit: 64 threads share 7 x 7 points and 8 panels as 8 x 8 units."""
    sizes = Extent(points=49, vectors=32, depth=4608, groups=1, inputs=512)
    assert even_units(49, 7, sizes, 8, 64) == (7, 1)
    assert even_units(49, 7, sizes, 8, 8) == (49, 1)
    assert even_units(48, 6, replace(sizes, points=12544), 1, 8)[0] <= 48
    assert even_units(240, 6, replace(sizes, groups=64), 8, 64) == (49, 8)


@pytest.mark.parametrize(("size", "channels", "kinds"), [(14, 256, (True, False)), (112, 64, (True, True))])
def test_winograd_needs_units_for_the_threads(size: int, channels: int, kinds: tuple[bool, bool]) -> None:
    """16 tiles and 4 panels are shared by 2 threads, not by 64."""
    kernel = conv(channels, channels, size, 3)
    found = [schedule_contraction(kernel, replace(AVX512, threads=n), frozenset("w")) for n in (2, 64)]
    assert tuple(isinstance(schedule, WinogradSchedule) for schedule in found) == kinds


SMALL = {
    "3x3 of 14": lambda: conv(32, 64, 14, 3),
    "3x3 of 28": lambda: conv(48, 32, 28, 3),
    "1x1": lambda: conv(16, 128, 7),
    "depthwise": lambda: conv(64, 64, 14, 3, 1, 64),
}


@pytest.mark.parametrize("threads", [8, 64])
@pytest.mark.parametrize("name", SMALL)
def test_results(name: str, threads: int) -> None:
    """Programs for many threads compute what programs for one thread compute."""
    kernel, rng = SMALL[name](), np.random.default_rng(3)
    values = {b.name: rng.standard_normal([int(n) for n in b.shape]).astype(np.float32) for b in kernel.buffers[:-1]}
    many, one = (Runner(kernel, host_target(n), values=values).run() for n in (threads, 1))
    assert np.abs(many - one).max() <= 1e-4 * np.abs(one).max()


@pytest.mark.parametrize("threads", [8, 64])
def test_results_of_a_large_product(threads: int) -> None:
    kernel = gemm_kernel((), 96, 400, 700, transposed=(False, True))
    rng = np.random.default_rng(4)
    values = {b.name: rng.standard_normal([int(n) for n in b.shape]).astype(np.float32) for b in kernel.buffers[:-1]}
    found = Runner(kernel, replace(host_target(threads), l2_bytes=512 << 10), values=values).run()
    expected = values["a"].astype(np.float64) @ values["b"].astype(np.float64).T
    assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()


@pytest.mark.parametrize(
    ("chunks", "grain"),
    [(0.9, 66), (1.2, 30), (1.9, 30), (2.5, 24), (10, 6)],
    ids=["less than a chunk", "one", "nearly two", "two", "ten"],
)
def test_the_grain_of_small_work(chunks: float, grain: int) -> None:
    """Work between one and two chunks is divided in two."""
    assert grain_of(round(chunks * (16 << 10) * 32), 60, 32) == grain
