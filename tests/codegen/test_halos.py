"""Large tensors with halos share memory with other values: launches zero their halos in every run."""

from __future__ import annotations

import numpy as np
import pytest
from compiled import check, compiled
from contractions import FUNCTION, HOST
from mxforge.codegen.driver import compile_steps
from mxforge.codegen.llvm import halos
from mxforge.codegen.llvm.compile import compile_object
from mxforge.codegen.llvm.emitter import ModuleBuilder
from mxforge.codegen.llvm.halos import halo_clearing
from mxforge.ir.dialects.core import CoreBuilder
from mxforge.ir.graph import Graph, Value
from mxforge.ir.program import LAYOUT, Program
from mxforge.ir.scalar import ReduceOp
from mxforge.ir.types import DType, Layout, TensorType
from mxforge.runtime.host.loader import load_object
from mxforge.tools.profile.work import Work, regions
from rewriting import random_inputs, tensor


def clearings(program: Program) -> int:
    return sum(launch.symbol.startswith("halo_") for launch in program.launches)


def convolved(b: CoreBuilder, x: Value, filters: int) -> Value:
    rank = len(x.type.shape) - 2
    w = b.input(tensor(filters, x.type.shape[1], *(3,) * rank), parameter=True)
    return b.tanh(b.conv(x, b.mul(w, 0.1), (1,) * rank, ((1, 1),) * rank))


def network(*shape: int) -> Graph:
    """Convolutions of images of decreasing size."""
    b = CoreBuilder()
    x = b.input(tensor(*shape))
    x = convolved(b, convolved(b, x, 16), 16)
    rank = len(shape) - 2
    window = (1, 1, *(2,) * rank)
    x = b.reduce_window(ReduceOp.MAX, x, window, window, ((0, 0),) * len(shape))
    return b.build([convolved(b, convolved(b, x, 64), 16)])


@pytest.mark.parametrize("shape", [(2, 8, 20, 26), (1, 3, 10, 8, 12), (1, 16, 400)])
def test_values_with_halos_share_memory(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    graph = network(*shape)
    separate = compiled(graph)
    assert clearings(separate) == 0  # they are small
    monkeypatch.setattr(halos, "_LEAST_BYTES", 1)
    program = check(graph, *random_inputs(graph), tolerance=1e-4)
    assert clearings(program) >= 2
    assert all(launch.kind == LAYOUT for launch in program.launches if launch.symbol.startswith("halo_"))
    assert program.arena_bytes < separate.arena_bytes


def test_halos_around_small_depthwise_convolutions_are_zeroed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """They take so little time that zeroing halos in every run would be slower; those of large images do not."""
    monkeypatch.setattr(halos, "_LEAST_BYTES", 1)
    b = CoreBuilder()
    x = b.exp(b.input(tensor(1, 32, 12, 12)))
    w, v = b.input(tensor(32, 1, 3, 3), parameter=True), b.input(tensor(32, 32, 1, 1), parameter=True)
    pointwise = b.conv(x, v, (1, 1), ((0, 0), (0, 0)))
    graph = b.build([b.exp(b.conv(pointwise, w, (1, 1), ((1, 1), (1, 1)), groups=32))])
    assert clearings(compiled(graph)) == 0
    monkeypatch.setattr(halos, "_LEAST_GROUPED", 1)
    assert clearings(check(graph, *random_inputs(graph), tolerance=1e-4)) == 1


def test_a_profile_counts_the_bytes_of_halos(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(halos, "_LEAST_BYTES", 1)
    compilation = compile_steps(network(2, 8, 20, 26), HOST)
    launches = compilation.program.launches
    first, *_ = (r for r in regions(compilation) if launches[r.launches[0]].symbol.startswith("halo_"))
    assert first.work is not None
    positions = first.work.nbytes // (2 * 4 * HOST.lanes())  # two images, one block of float32
    assert 2 * (20 + 26) + 4 <= positions < 20 * 26  # at least one on each side
    assert first.work == Work(nbytes=first.work.nbytes)


@pytest.mark.parametrize(
    ("shape", "halo"), [((8, 64, 60, 60), ((0, 0), (0, 0))), ((1, 16, 9, 9), ((1, 1), (1, 1))), ((1 << 20,), None)]
)
def test_other_tensors_have_nothing_to_clear(shape: tuple[int, ...], halo: tuple[tuple[int, int], ...] | None) -> None:
    layout = None if halo is None else Layout(16, halo)
    assert halo_clearing(TensorType(shape, DType.F32, layout), 0) is None


@pytest.mark.parametrize("halo", [((1, 1), (1, 1)), ((0, 3), (2, 0)), ((2, 1), (0, 0))])
@pytest.mark.parametrize("dtype", [DType.F32, DType.F16])
def test_a_launch_zeroes_the_halo_alone(halo: tuple[tuple[int, int], ...], dtype: DType) -> None:
    type = TensorType((2, 40, 90, 110), dtype, Layout(16, halo))
    form = halo_clearing(type, 1)
    assert form is not None
    module = ModuleBuilder(HOST)
    spec = form.emit(module, "halo")
    code = load_object(compile_object(module.text(), HOST))
    memory = np.full(type.nbytes // dtype.itemsize, 7, dtype.numpy)
    table = np.array([0, memory.ctypes.data], np.uint64)
    function = FUNCTION(code.symbols["halo"])
    for begin in range(0, spec.count, 4):
        function(table.ctypes.data, begin, min(begin + 4, spec.count), 0)
    found = memory.reshape(type.layout.physical_shape(type.shape)) if type.layout else memory
    inner = (slice(None), slice(None), *(slice(lo, lo + n) for n, (lo, _) in zip((90, 110), halo, strict=True)))
    assert (found[inner] == 7).all()
    found[inner] = 0
    assert not found.any()
