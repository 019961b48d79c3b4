"""Convolutions of images with few channels on the Triton target read packed images and weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

pytest.importorskip("triton", reason="Triton is not installed: pip install mxforge[cuda]")

from compiled import launches_of
from mxforge.codegen.driver import compile_steps
from mxforge.codegen.triton import images
from mxforge.ir.dialects.core import CoreBuilder, evaluate_graph
from mxforge.ir.dialects.core.gradient import gradient_graph
from mxforge.ir.graph import Graph
from mxforge.ir.program import PACK
from mxforge.ir.types import DType
from mxforge.passes.manager import Options
from mxforge.runtime.compile import executable_for
from mxforge.runtime.devices import open_device
from mxforge.runtime.storage import storage_of
from rewriting import random_inputs, tensor
from support.simulated_gpu import TARGET
from support.triton_kernels import relative_error

Padding = tuple[tuple[int, int], tuple[int, int]]
CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[int, int], Padding, int]] = {
    "first of a network": ((2, 3, 13, 14), (5, 3, 7, 7), (2, 2), ((3, 3), (3, 3)), 1),
    "dilated rows, 4 channels": ((1, 4, 9, 6), (3, 4, 3, 2), (1, 1), ((1, 0), (0, 2)), 2),
    "cropped, 2 channels": ((1, 2, 9, 8), (3, 2, 3, 3), (1, 3), ((-1, 1), (-2, 0)), 1),
}


@pytest.fixture(autouse=True)
def small_images(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pack also images that are too small for it to pay."""
    monkeypatch.setattr(images, "_FEWEST", 1)


def graph_of(name: str, wrt: tuple[int, ...] = (), dtype: DType = DType.F32) -> Graph:
    x, w, strides, padding, dilation = CASES[name]
    b = CoreBuilder("net")
    weights = b.input(tensor(*w, dtype=dtype), parameter=True)
    image = b.input(tensor(*x, dtype=dtype))
    y = b.conv(image, weights, strides, padding, rhs_dilation=(dilation, 1))
    return gradient_graph(b.build([y]), wrt, [0]) if wrt else b.build([b.maximum(y, 0.0)])


def count_packs(graph: Graph) -> int:
    program = compile_steps(graph, TARGET, Options(static_shape=True)).program
    return sum(launch.kind == PACK for launch in launches_of((*program.prepare, *program.steps)))


def run(graph: Graph, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    gpu = open_device("gpu", 0)
    program = executable_for(graph, Options(static_shape=True), gpu)
    operands = [storage_of(a, gpu) for a in arrays]
    results = [np.empty(t.shape, t.dtype.numpy) for t in program.outputs]
    stored = [gpu.allocate(r.nbytes) for r in results]
    program.run([x.address for x in operands], [y.address for y in stored])
    for storage, result in zip(stored, results, strict=True):
        gpu.read(storage.address, result)
    return results


@pytest.mark.usefixtures("simulated_gpus")
@pytest.mark.parametrize("wrt", [(), (0,)], ids=["forward", "to weights"])
@pytest.mark.parametrize("name", CASES)
def test_packed_images(name: str, wrt: tuple[int, ...]) -> None:
    graph = graph_of(name, wrt)
    assert count_packs(graph) == 1 + (not wrt)
    arrays = random_inputs(graph)
    for found, expected in zip(run(graph, arrays), evaluate_graph(graph, arrays), strict=True):
        assert relative_error(found, expected) <= 2e-6


def test_few_images_are_read_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert count_packs(graph_of("first of a network", dtype=DType.F16)) == 0
