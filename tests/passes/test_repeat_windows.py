"""Gradients of sums over windows that do not overlap become repeated elements, and other windows do not."""

from __future__ import annotations

import pytest
from mxforge.ir.dialects.core import CoreBuilder, ReduceWindow
from mxforge.ir.graph import Graph
from mxforge.ir.kernel import ReduceOp
from mxforge.ir.types import DType
from mxforge.passes.eliminate import EliminateDeadCode
from mxforge.passes.repeat_windows import RepeatWindows
from rewriting import Chain, assert_same_values, assert_unchanged, run_pass, tensor

REPEAT = Chain((RepeatWindows(), EliminateDeadCode()))


def gradient(shape: tuple[int, ...], window: tuple[int, ...], strides: tuple[int, ...], pad: int = 0) -> Graph:
    b = CoreBuilder("gradient")
    x = b.input(tensor(*shape))
    edges = tuple((pad if n > 1 else 0, pad if n > 1 else 0) for n in window)
    sums = b.reduce_window(ReduceOp.ADD, x, window, strides, edges)
    assert sums.node is not None and isinstance(sums.node.op, ReduceWindow)
    (pulled,) = sums.node.op.vjp(b, sums.node, [b.input(sums.type)])
    assert pulled is not None
    return b.build([pulled])


@pytest.mark.parametrize("pad", [0, 1])
@pytest.mark.parametrize(
    ("shape", "window"), [((2, 3, 6, 8), (1, 1, 2, 2)), ((2, 7, 9), (1, 3, 2)), ((5,), (4,)), ((1, 11), (1, 3))]
)
def test_windows_that_touch_each_other(shape: tuple[int, ...], window: tuple[int, ...], pad: int) -> None:
    graph = gradient(shape, window, window, pad)
    result = run_pass(REPEAT, graph)
    assert not [n for n in result.nodes if isinstance(n.op, ReduceWindow)]
    assert_same_values(graph, result, 0.0)


def test_other_windows_are_unchanged() -> None:
    assert_unchanged(RepeatWindows(), gradient((2, 3, 9, 9), (1, 1, 3, 3), (1, 1, 2, 2)))
    assert_unchanged(RepeatWindows(), gradient((2, 3, 9, 9), (1, 1, 2, 2), (1, 1, 3, 3)))
    b = CoreBuilder("ones")
    x = b.pad(b.input(tensor(3, 4)), b.constant(1.0, DType.F32), (0, 1), (0, 1), (0, 1))
    assert_unchanged(RepeatWindows(), b.build([b.reduce_window(ReduceOp.ADD, x, (1, 2), (1, 1), ((0, 0), (0, 0)))]))
