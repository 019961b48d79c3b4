"""Gradients of windows and of grouped convolutions: primitives that are only used in training."""

from __future__ import annotations

import numpy as np
import pytest
from compiled import check
from mxforge.ir.dialects.core import CoreBuilder, ReduceWindow, without_dead_nodes
from mxforge.ir.graph import Value
from mxforge.ir.scalar import ReduceOp
from mxforge.ir.types import DType, TensorType


@pytest.mark.parametrize("dtype", [DType.F16, DType.F32, DType.F64, DType.I32, DType.U8], ids=lambda d: d.value)
@pytest.mark.parametrize(
    ("window", "strides", "padding"),
    [
        ((1, 1, 2, 2), (1, 1, 2, 2), ((0, 0),) * 4),
        ((1, 1, 3, 2), (1, 1, 2, 1), ((0, 0), (0, 0), (1, 1), (0, 1))),
        ((1, 2, 3, 3), (1, 1, 1, 3), ((0, 0), (0, 1), (2, 2), (1, 1))),
        ((1, 1, 1, 1), (1, 1, 1, 1), ((0, 0),) * 4),
    ],
    ids=str,
)
def test_the_first_maximum_receives_the_cotangent(
    window: tuple[int, ...], strides: tuple[int, ...], padding: tuple[tuple[int, int], ...], dtype: DType
) -> None:
    """Many numbers are equal, and some are NaN."""
    b = CoreBuilder("maxima")
    rng = np.random.default_rng(0)
    x = rng.integers(0, 4, (2, 3, 7, 6)).astype(dtype.numpy)
    if dtype.is_float:
        x[rng.random(x.shape) < 0.1] = np.nan
    out = [(n + sum(p) - w) // s + 1 for n, w, s, p in zip(x.shape, window, strides, padding, strict=True)]
    cotangent = rng.integers(1, 9, out).astype(dtype.numpy)
    source, given = b.input(TensorType(x.shape, dtype)), b.input(TensorType(cotangent.shape, dtype))
    check(b.build([b.select_and_scatter(source, given, window, strides, padding)]), x, cotangent, tolerance=0.0)


BLOCKED = {
    "overlapping": ((11, 9), (3, 3), (2, 2), ((1, 1), (1, 1))),
    "with gaps": ((11, 9), (2, 1), (3, 2), ((0, 0), (0, 1))),
    "outside of the image": ((5, 4), (2, 2), (1, 1), ((3, 2), (2, 4))),
    "the whole image": ((5, 4), (5, 4), (5, 4), ((0, 0), (0, 0))),
    "along a line": ((17,), (4,), (2,), ((1, 2),)),
    "in a volume": ((4, 5, 6), (2, 3, 2), (2, 1, 2), ((0, 0), (1, 1), (0, 2))),
}


@pytest.mark.parametrize("channels", [16, 21])
@pytest.mark.parametrize("case", BLOCKED)
def test_windows_over_space_are_computed_in_blocks(case: str, channels: int) -> None:
    """Also in a graph without convolutions, where operands and result are copied. Results are exact."""
    space, window, strides, padding = BLOCKED[case]
    b, rng = CoreBuilder(), np.random.default_rng(0)
    x = rng.integers(0, 4, (2, channels, *space)).astype(np.float32)
    x[rng.random(x.shape) < 0.1] = np.nan
    x[rng.random(x.shape) < 0.3] = -np.inf
    sizes = zip(space, window, strides, padding, strict=True)
    out = [(n + sum(p) - w) // s + 1 for n, w, s, p in sizes]
    cotangent = rng.integers(1, 9, (2, channels, *out)).astype(np.float32)
    source, given = b.input(TensorType(x.shape, DType.F32)), b.input(TensorType(cotangent.shape, DType.F32))
    one, none = (1, 1), ((0, 0), (0, 0))
    y = b.select_and_scatter(source, given, (*one, *window), (*one, *strides), (*none, *padding))
    program = check(b.build([y]), x, cotangent, tolerance=0.0)
    assert "layout" in [launch.kind for launch in program.launches]


def test_the_cotangent_of_maxima_can_be_a_broadcast() -> None:
    """A mean after pooling has such a gradient; the kernel of the pooling's gradient reads it from memory."""
    b = CoreBuilder()
    x, given = b.input(TensorType((2, 16, 9, 8), DType.F32)), b.input(TensorType((2, 16), DType.F32))
    w = b.input(TensorType((16, 16, 1, 1), DType.F32), "w", parameter=True)
    y = b.conv(x, w, (1, 1), ((0, 0), (0, 0)))
    spread = b.broadcast(given, (2, 16, 4, 4), (0, 1))
    gradient = b.select_and_scatter(y, spread, (1, 1, 2, 2), (1, 1, 2, 2), ((0, 0), (0, 0), (0, 0), (0, 0)))
    graph = b.build([b.conv(gradient, w, (1, 1), ((0, 0), (0, 0)))])
    rng = np.random.default_rng(0)
    check(graph, *(rng.standard_normal(v.type.shape).astype(np.float32) for v in graph.inputs))


@pytest.mark.parametrize(("window", "stride", "pad"), [(2, 2, 0), (3, 1, 1), (3, 2, 1), (2, 1, 0)])
def test_the_gradient_of_a_sum_over_windows_between_convolutions(window: int, stride: int, pad: int) -> None:
    """With windows at each element there is no padded copy of the cotangent. The mask after it is part of its
    kernel."""
    b = CoreBuilder()
    x, w = b.input(TensorType((2, 16, 9, 8), DType.F32)), b.input(TensorType((16, 16, 1, 1), DType.F32))
    taps, steps, padding = (1, 1, window, window), (1, 1, stride, stride), ((0, 0), (0, 0), (pad, pad), (pad, pad))
    pooled = b.reduce_window(ReduceOp.ADD, x, taps, steps, padding)
    given = b.input(pooled.type)

    def conv(y: Value) -> Value:
        return b.conv(y, w, (1, 1), ((0, 0), (0, 0)))

    assert pooled.node is not None and isinstance(pooled.node.op, ReduceWindow)
    (spread,) = pooled.node.op.vjp(b, pooled.node, [conv(given)])
    assert spread is not None
    mask = b.gt(b.add(conv(x), 0.25), 0.0)
    graph = without_dead_nodes(b.build([conv(b.select(mask, spread, b.full_like(spread, 0)))]))
    rng = np.random.default_rng(0)
    program = check(graph, *(rng.standard_normal(v.type.shape).astype(np.float32) for v in graph.inputs))
    kinds = [launch.kind for launch in program.launches if launch.kind in ("move", "window", "pointwise")]
    assert kinds == ["move", "window"][stride == 1 :]


def test_groups_of_the_batch() -> None:
    b = CoreBuilder("batch_groups")
    x = b.input(TensorType((6, 4, 5, 5), DType.F32))
    w = b.input(TensorType((12, 4, 3, 2), DType.F32))
    y = b.conv(x, w, (1, 2), [(1, 0), (0, 1)], batch_groups=3)
    rng = np.random.default_rng(0)
    check(b.build([y]), *(rng.standard_normal(v.type.shape).astype(np.float32) for v in (x, w)))
