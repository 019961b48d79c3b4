"""Removes the taps of convolutions that only meet padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..ir.dialects.core import Conv, CoreBuilder
from ..ir.graph import Graph, GraphBuilder, Node, Value
from ..ir.lazy_dataclass import dataclass
from ..ir.rewrite import Replacement, rebuild
from ..ir.symbolic import is_symbolic
from .manager import Context, Pass


@dataclass(frozen=True)
class CropWindows(Pass):
    """Slice the weights of a convolution to the taps that meet data at some output.

    A window of 3x3 with padding 1 on images of 1x1 meets data with its centre alone: one ninth of the weights is read
    and packed. The gradient of the slice pads with zeros, so this precedes differentiation. Needs: core. Keeps: values,
    except that a tap of infinity times padding is not NaN.
    """

    name = "crop-windows"

    def run(self, graph: Graph, context: Context) -> Graph:
        return rebuild(graph, _cropped, CoreBuilder(graph.name))


def _cropped(b: GraphBuilder, node: Node, operands: tuple[Value, ...]) -> Replacement:
    if not isinstance(node.op, Conv):
        return None
    assert isinstance(b, CoreBuilder)
    x, w = operands
    window = w.type.shape[2:]
    used = [_used_taps(node.op, k, x.type.shape, window, node.outputs[0].type.shape) for k in range(len(window))]
    if used == [(0, taps) for taps in window]:
        return None
    padding = [
        (low - first * dilation, high - (taps - last) * dilation)
        for (first, last), taps, (low, high), dilation in zip(
            used, window, node.op.padding, node.op.rhs_dilation, strict=True
        )
    ]
    start, stop = [0, 0, *(first for first, _ in used)], [*w.type.shape[:2], *(last for _, last in used)]
    kept = b.slice(w, start, stop, [1] * w.type.rank)
    return b.add_node(replace(node.op, padding=tuple(padding)), x, kept)


def _used_taps(op: Conv, k: int, x: Sequence[int], window: Sequence[int], out: Sequence[int]) -> tuple[int, int]:
    """The range of the taps along spatial axis k that meet data. All, if extents are symbolic or none does."""
    taps, outputs, size = window[k], out[k + 2], x[k + 2]
    if is_symbolic(outputs) or is_symbolic(size) or op.lhs_dilation[k] != 1:
        return 0, taps
    stride, dilation, low = op.strides[k], op.rhs_dilation[k], op.padding[k][0]

    def meets(tap: int) -> bool:
        at = tap * dilation - low  # the position that the first output reads
        first = max(0, -(at // stride))  # the first output that reads position 0 or a later one
        return first < outputs and first * stride + at < size

    used = [t for t in range(taps) if meets(t)]
    return (used[0], used[-1] + 1) if used else (0, taps)
