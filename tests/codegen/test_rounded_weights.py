"""Weights in bfloat16 on the CPU: numbers, memory, and the instruction sets that this machine has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from bfloats import rounded
from compiled import compiled, launches_of, run_program
from contraction_kernels import gemm_kernel
from mxforge.codegen.llvm.contract.emit import emit_contraction, schedule_contraction
from mxforge.codegen.llvm.emitter import ModuleBuilder
from mxforge.codegen.llvm.schedule.kinds import GemvSchedule
from mxforge.codegen.llvm.target import AVX2, AVX512, CpuTarget
from mxforge.ir.dialects.core import CoreBuilder, evaluate_graph
from mxforge.ir.graph import Graph, Value
from mxforge.ir.kernel import Cast, Contract, Kernel, Store
from mxforge.ir.types import DType
from mxforge.passes.manager import Context, Options, run_passes
from mxforge.passes.narrow_weights import NarrowWeights
from mxforge.runtime.host.machine import X86_LEVELS, host_target
from rewriting import random_inputs, tensor

pytest.importorskip("llvmlite.binding")
EXACT, BF16 = Options(), Options(weights=DType.BF16)


def weights(b: CoreBuilder, *shape: int) -> Value:
    value = b.input(tensor(*shape))
    b.parameters.add(len(b.inputs) - 1)
    return value


def dense(rows: int, columns: int, inner: int) -> Graph:
    b = CoreBuilder("dense")
    x, w = b.input(tensor(rows, inner)), weights(b, columns, inner)
    return b.build([b.maximum(b.dot(x, w, (), (), (1,), (1,)), 0.0)])


def dense_sums(rows: int, columns: int) -> Graph:
    """Sums of one product."""
    b = CoreBuilder("sums")
    return b.build([b.dot(b.input(tensor(rows, 1)), weights(b, columns, 1), (), (), (1,), (1,))])


def conv(x: tuple[int, ...], w: tuple[int, ...], stride: int = 1, groups: int = 1, spread: int = 1) -> Graph:
    b = CoreBuilder("conv")
    data, own = b.input(tensor(*x)), weights(b, *w)
    padding = tuple((k // 2, k // 2) for k in w[2:])
    return b.build([b.conv(data, own, (stride,) * len(padding), padding, (spread,) * len(padding), groups=groups)])


def batched() -> Graph:
    b = CoreBuilder("batched")
    return b.build([b.matmul(b.input(tensor(3, 2, 40)), weights(b, 3, 40, 21))])


def shared() -> Graph:
    """Two products with the same weights, which are in memory once."""
    b = CoreBuilder("shared")
    x, y, w = b.input(tensor(1, 70)), b.input(tensor(30, 70)), weights(b, 33, 70)
    return b.build([b.dot(v, w, (), (), (1,), (1,)) for v in (x, y)])


def computed() -> Graph:
    """Weights computed from parameters."""
    b = CoreBuilder("computed")
    x, w, scale = b.input(tensor(2, 50)), weights(b, 19, 50), weights(b, 19)
    return b.build([b.dot(x, b.mul(w, b.broadcast(scale, (19, 50), (0,))), (), (), (1,), (1,))])


def sliced() -> Graph:
    """Rows of a larger parameter, which are a view of it."""
    b = CoreBuilder("sliced")
    x, w = b.input(tensor(2, 24)), weights(b, 40, 24)
    return b.build([b.dot(x, b.slice(w, (7, 0), (31, 24), (1, 1)), (), (), (1,), (1,))])


def transposed() -> Graph:
    """A transposed convolution, whose weights are moved."""
    b = CoreBuilder("transposed")
    x, w = b.input(tensor(1, 12, 6, 6)), weights(b, 12, 20, 3, 3)
    moved = b.reverse(b.transpose(w, (1, 0, 2, 3)), (2, 3))
    return b.build([b.conv(x, moved, (1, 1), ((2, 1),) * 2, (2, 2))])


def normalized() -> Graph:
    """A convolution with a scale and a shift for each channel, which are not folded into rounded weights."""
    b = CoreBuilder("normalized")
    x, w, scale, shift = b.input(tensor(1, 16, 6, 6)), weights(b, 20, 16, 3, 3), weights(b, 20), weights(b, 20)
    s, t = (b.broadcast(v, (1, 20, 6, 6), (1,)) for v in (scale, shift))
    return b.build([b.add(b.mul(b.conv(x, w, (1, 1), ((1, 1),) * 2), s), t)])


GRAPHS: dict[str, Callable[[], Graph]] = {
    "dense of one row": lambda: dense(1, 100, 130),
    "dense of four rows": lambda: dense(4, 33, 67),
    "dense of 32 rows": lambda: dense(32, 50, 40),
    "dense of many rows and columns": lambda: dense(70, 200, 300),
    "batched": batched,
    "shared": shared,
    "computed": computed,
    "sliced": sliced,
    "1x1": lambda: conv((1, 24, 7, 7), (40, 24, 1, 1)),
    "3x3 of an image": lambda: conv((2, 3, 9, 9), (16, 3, 3, 3), stride=2),
    "3x3 by Winograd": lambda: conv((1, 32, 12, 12), (32, 32, 3, 3)),
    "5x5 in groups": lambda: conv((1, 32, 8, 8), (48, 8, 5, 5), groups=4),
    "depthwise": lambda: conv((1, 16, 8, 8), (16, 1, 3, 3), groups=16),
    "along one axis": lambda: conv((2, 16, 20), (24, 16, 3)),
    "transposed": transposed,
    "normalized": normalized,
}


@pytest.mark.parametrize("name", GRAPHS)
def test_numbers(name: str) -> None:
    """The program of the original graph computes what the interpreter computes with rounded weights."""
    graph = GRAPHS[name]()
    narrow = run_passes((NarrowWeights(),), graph, Context(AVX2, BF16))
    arrays = random_inputs(graph)
    for found, expected in zip(run_program(compiled(graph, BF16), arrays), evaluate_graph(narrow, arrays), strict=True):
        assert np.abs(found - expected).max() <= 5e-6 * np.abs(expected).max()
    assert (narrow is graph) == (name == "depthwise")


@pytest.mark.parametrize("name", sorted(GRAPHS.keys() - {"computed", "normalized", "depthwise"}))
def test_same_bits_as_float32_programs_on_rounded_weights(name: str) -> None:
    """Each product and sum is that of the program with float32 weights."""
    graph = GRAPHS[name]()
    arrays = random_inputs(graph)
    values = [rounded(a) if i in graph.parameters else a for i, a in enumerate(arrays)]
    for found, expected in zip(
        run_program(compiled(graph, BF16), arrays), run_program(compiled(graph, EXACT), values), strict=True
    ):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("rows", [1, 4, 32])
def test_memory(rows: int) -> None:
    """What the runs read is half of the bytes of the float32 weights, and nothing else is kept."""
    program = compiled(dense(rows, 256, 512), BF16)
    assert program.prepared_bytes == 2 * 256 * 512
    assert [launch.kind for launch in launches_of(program.prepare)] == ["pack"]


@pytest.mark.parametrize("level", X86_LEVELS)
@pytest.mark.parametrize("name", ["dense of one row", "dense of 32 rows", "3x3 by Winograd", "5x5 in groups"])
def test_instruction_sets(name: str, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MXFORGE_CPU", level)
    try:
        host_target()
    except (ValueError, RuntimeError) as error:
        pytest.skip(str(error))
    test_numbers(name)


@pytest.mark.parametrize("rows", [1, 9])
def test_rounding(rows: int) -> None:
    """To nearest, ties to even; what is too large becomes infinite."""
    bits = [0x3F808000, 0x3F818000, 0x3F808001, 0x3F807FFF, 0xBF80C000, 0x7F7FFFFF, 0xFF7F8000, 0x00000001, 0x80408000]
    w = np.array(bits * 3, np.uint32).view(np.float32)[:, None]
    (found,) = run_program(compiled(dense_sums(rows, len(w)), BF16), [np.ones((rows, 1), np.float32), w])
    np.testing.assert_array_equal(found, np.broadcast_to(rounded(w)[:, 0], found.shape))


def narrow_kernel(rows: int, columns: int, inner: int) -> Kernel:
    kernel = gemm_kernel((), rows, columns, inner, transposed=(False, True))
    (store,) = kernel.stages
    assert isinstance(store, Store) and isinstance(store.value, Contract)
    rounded_weights = replace(store.value, rhs=Cast(DType.BF16, store.value.rhs))
    return replace(kernel, stages=(replace(store, value=rounded_weights),))


@pytest.mark.parametrize("target", [AVX2, AVX512], ids=["avx2", "avx512"])
@pytest.mark.parametrize(("rows", "stream"), [(1, True), (2, True), (3, False), (4, False)])
def test_each_line_of_the_weights_of_few_rows_is_prefetched_once(target: CpuTarget, rows: int, stream: bool) -> None:
    kernel, module = narrow_kernel(rows, 64, 32 * target.lanes()), ModuleBuilder(target)
    schedule = schedule_contraction(kernel, target, frozenset("b"))
    assert isinstance(schedule, GemvSchedule)
    assert schedule.ahead == (8192 if stream else 2048)
    emit_contraction(kernel, schedule, target, module, "product")
    step = schedule.channels * schedule.lanes * 2  # bytes; columns that are not a stream are on lines of their own
    assert module.text().count("call void @llvm.prefetch") == (step // 64 if stream else schedule.channels)
