"""Gradients of convolutions by their data: weights that are read in another order, and inputs with interior zeros."""

from __future__ import annotations

import numpy as np
import pytest
from compiled import check
from mxforge.ir.dialects.core import Conv, CoreBuilder
from mxforge.ir.graph import Graph
from mxforge.ir.types import DType, TensorType

RNG = np.random.default_rng(0)


def data_gradient(
    x: tuple[int, ...],
    w: tuple[int, ...],
    strides: tuple[int, ...],
    padding: tuple[tuple[int, int], ...],
    dilation: tuple[int, ...] = (1, 1),
    groups: int = 1,
    residual: bool = False,
) -> Graph:
    """The gradient of a convolution by x, between two other convolutions, so that its operands are in blocks."""
    b = CoreBuilder("data_gradient")
    source, weights = b.input(TensorType(x, DType.F32)), b.input(TensorType(w, DType.F32), "w", parameter=True)
    forward = b.conv(source, weights, strides, padding, rhs_dilation=dilation, groups=groups)
    assert forward.node is not None
    given, other = b.input(forward.type), b.input(source.type)
    channels = w[0]
    one = b.input(TensorType((channels, channels, 1, 1), DType.F32), "one", parameter=True)
    cotangent = b.conv(given, one, (1, 1), ((0, 0), (0, 0)))
    assert isinstance(forward.node.op, Conv)
    gradient = forward.node.op.vjp(b, forward.node, [cotangent])[0]
    assert gradient is not None
    result = b.maximum(b.add(gradient, other), b.full(x, 0.0, DType.F32)) if residual else gradient
    return b.build([result])


def run(graph: Graph) -> int:
    """Compare with the interpreter. Returns the number of launches of contractions."""
    operands = [RNG.standard_normal(v.type.shape).astype(np.float32) for v in graph.inputs]
    program = check(graph, *operands, tolerance=2e-5)
    assert not program.fallbacks()
    return sum(launch.kind == "contract" for launch in program.launches)


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize(
    ("x", "w", "strides", "padding", "dilation", "groups"),
    [
        ((2, 16, 8, 8), (24, 16, 3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1), 1),
        ((1, 16, 7, 9), (16, 16, 3, 3), (2, 2), ((1, 1), (0, 1)), (1, 1), 1),
        ((2, 16, 8, 8), (8, 16, 1, 1), (2, 2), ((0, 0), (0, 0)), (1, 1), 1),
        ((2, 16, 9, 9), (8, 16, 2, 5), (3, 2), ((1, 0), (2, 2)), (1, 1), 1),
        ((1, 16, 9, 9), (8, 16, 3, 3), (2, 1), ((2, 2), (2, 2)), (2, 2), 1),
        ((1, 16, 11, 9), (8, 16, 3, 3), (3, 2), ((3, 3), (3, 3)), (2, 3), 1),
        ((1, 16, 5, 4), (16, 1, 3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1), 16),
        ((1, 3, 9, 9), (8, 3, 3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1), 1),
        ((1, 16, 3, 3), (16, 4, 3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1), 4),
        ((1, 32, 6, 6), (32, 16, 1, 1), (2, 2), ((0, 0), (0, 0)), (1, 1), 2),
        ((1, 32, 9, 9), (32, 8, 3, 3), (2, 2), ((2, 2), (2, 2)), (2, 2), 4),
        ((1, 16, 1, 6), (8, 16, 3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1), 1),
    ],
    ids=[
        "3x3",
        "odd",
        "1x1",
        "strides differ",
        "stride 1 beside 2",
        "dilated",
        "depthwise",
        "image",
        "groups",
        "groups 1x1",
        "groups dilated",
        "thin",
    ],
)
def test_strided(
    x: tuple[int, ...],
    w: tuple[int, ...],
    strides: tuple[int, ...],
    padding: tuple[tuple[int, int], ...],
    dilation: tuple[int, ...],
    groups: int,
    residual: bool,
) -> None:
    run(data_gradient(x, w, strides, padding, dilation, groups, residual))


@pytest.mark.parametrize(
    ("x", "w", "groups"),
    [((2, 16, 8, 8), (24, 16, 3, 3), 1), ((1, 12, 6, 6), (20, 12, 3, 3), 1), ((1, 16, 6, 6), (16, 1, 3, 3), 16)],
    ids=["winograd", "ragged", "depthwise"],
)
def test_reversed_weights_are_packed_without_a_copy(x: tuple[int, ...], w: tuple[int, ...], groups: int) -> None:
    run(data_gradient(x, w, (1, 1), ((1, 1), (1, 1)), groups=groups))


def test_phases_multiply_no_zeros() -> None:
    """Each of the four phases of a 3x3 window of stride 2 is a launch; its input is not copied with zeros."""
    graph = data_gradient((2, 16, 8, 8), (16, 16, 3, 3), (2, 2), ((1, 1), (1, 1)))
    assert run(graph) == 1 + 4
