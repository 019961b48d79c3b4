"""Convolutions whose windows reach past the data lose the taps that only meet padding, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from mxforge.ir.dialects.core import Conv, CoreBuilder, evaluate_graph
from mxforge.ir.graph import Graph
from mxforge.passes.crop_windows import CropWindows
from mxforge.passes.manager import Context, Options
from mxforge.passes.training import training_graphs
from mxforge.runtime.reference import REFERENCE
from rewriting import assert_same_values, run_pass, tensor


def convolution(size: int, window: int, stride: int, padding: tuple[int, int], dilation: int = 1) -> Graph:
    b = CoreBuilder()
    x, w = b.input(tensor(2, 3, size, 5)), b.input(tensor(4, 3, window, 3), "weights")
    pads = [padding, (1, 1)]
    return b.build([b.conv(x, w, (stride, 1), pads, rhs_dilation=(dilation, 1))])


def taps_of(graph: Graph) -> int:
    (node,) = [n for n in graph.nodes if isinstance(n.op, Conv)]
    return node.inputs[1].type.shape[2]


@pytest.mark.parametrize(
    ("size", "window", "stride", "padding", "dilation"),
    [
        (1, 3, 1, (1, 1), 1),
        (2, 3, 2, (1, 1), 1),
        (2, 3, 1, (1, 1), 1),
        (5, 3, 1, (1, 1), 1),
        (1, 4, 1, (3, 0), 1),
        (2, 5, 3, (4, 4), 1),
        (2, 3, 1, (2, 2), 2),
        (4, 3, 4, (0, 0), 1),
        (4, 3, 1, (-1, -1), 1),
        (2, 2, 1, (-1, 4), 1),
        (1, 2, 5, (3, 5), 1),
    ],
)
def test_taps_that_meet_only_padding_are_cropped(
    size: int, window: int, stride: int, padding: tuple[int, int], dilation: int
) -> None:
    graph = convolution(size, window, stride, padding, dilation)
    outputs = range(graph.outputs[0].type.shape[2])
    used = [t for t in range(window) if any(0 <= o * stride + t * dilation - padding[0] < size for o in outputs)]
    result = run_pass(CropWindows(), graph)
    assert_same_values(graph, result)
    assert taps_of(result) == used[-1] + 1 - used[0] if used else window
    assert (result is graph) == (taps_of(result) == window)


def test_weights_that_meet_no_data_have_a_zero_gradient() -> None:
    graph = convolution(1, 3, 1, (1, 1))
    split = training_graphs(graph, (1,), Context(REFERENCE, Options()))
    rng = np.random.default_rng(0)
    x, w, g = (rng.standard_normal(v.type.shape, np.float32) for v in (*graph.inputs, *graph.outputs))
    values = (x, w)
    forward = evaluate_graph(split.forward, values)
    kept = [(values if s.is_input else forward)[s.position] for s in split.residuals]
    (gradient,) = evaluate_graph(split.backward, [*kept, g])
    assert not gradient[:, :, [0, 2]].any()
    np.testing.assert_allclose(gradient[:, :, 1, 1], np.einsum("nchw,nohw->oc", x, g), rtol=1e-5, atol=1e-5)
