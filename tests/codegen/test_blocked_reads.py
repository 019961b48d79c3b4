"""Kernels that read blocked layouts along other axes, in reverse, partially, and in reductions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from compiled import check
from mxforge.ir.dialects.core import CoreBuilder, Relayout
from mxforge.ir.graph import Value
from mxforge.ir.types import DType, Layout
from rewriting import tensor

SPATIAL = (6, 5)
READS: dict[str, Callable[[CoreBuilder, Value], Value]] = {
    "channels last": lambda b, x: b.transpose(x, (0, 2, 3, 1)),
    "channels and rows": lambda b, x: b.transpose(x, (0, 2, 1, 3)),
    "rows and columns": lambda b, x: b.transpose(x, (0, 1, 3, 2)),
    "batch last": lambda b, x: b.transpose(x, (3, 2, 1, 0)),
    "columns backwards": lambda b, x: b.reverse(x, (3,)),
    "channels backwards": lambda b, x: b.reverse(x, (1,)),
    "all backwards": lambda b, x: b.exp(b.reverse(x, (0, 1, 2, 3))),
    "channels in part": lambda b, x: b.slice(x, (0, 3, 1, 0), (2, x.type.shape[1] - 1, 6, 5)),
    "every second channel": lambda b, x: b.slice(x, (0, 1, 0, 0), (2, *x.type.shape[1:]), (1, 2, 2, 1)),
    "channels padded": lambda b, x: b.pad(x, b.constant(0.5, DType.F32), [0, 3, 0, 1], [0, -1, 2, 0]),
    "some channels": lambda b, x: b.take(x, b.constant(np.array([4, 0, 2, 2], np.int32)), 1),
    "greatest channel": lambda b, x: b.max(x, (1,)),
    "least of all": lambda b, x: b.min(x, (0, 1, 2, 3)),
    "sum over channels": lambda b, x: b.sum(b.exp(x), (1,)),
    "sum for each channel": lambda b, x: b.sum(b.exp(x), (0, 2, 3)),
    "sum for each row": lambda b, x: b.sum(b.exp(x), (1, 3)),
}


def _softmax(b: CoreBuilder, x: Value) -> Value:
    shape = x.type.shape
    e = b.exp(b.sub(x, b.broadcast_to(b.max(x, 1, keepdims=True), shape)))
    return b.div(e, b.broadcast_to(b.sum(e, 1, keepdims=True), shape))


READS["softmax over channels"] = _softmax


def _blocked(b: CoreBuilder, x: Value, block: int = 8) -> Value:
    return b.add_node(Relayout(Layout(block, ((1, 1), (0, 2)))), x)


def _negative(*shape: int) -> np.ndarray:
    return -1 - np.random.default_rng(0).random(shape, np.float32)


@pytest.mark.parametrize("channels", [8, 12, 24])
@pytest.mark.parametrize("read", READS)
def test_any_read_of_blocks(read: str, channels: int) -> None:
    """Values are negative: the zeros that pad the last block must not become a maximum."""
    b = CoreBuilder()
    x = b.input(tensor(2, channels, *SPATIAL))
    graph = b.build([READS[read](b, _blocked(b, x))])
    check(graph, _negative(2, channels, *SPATIAL), tolerance=1e-6)


@pytest.mark.parametrize("channels", [8, 12])
def test_buffers_of_one_kernel_can_be_blocked_along_different_axes(channels: int) -> None:
    b = CoreBuilder()
    shape = (2, channels, channels, channels)
    x, y, z = (b.input(tensor(*shape)) for _ in range(3))
    transposed = b.transpose(b.cast(_blocked(b, y), DType.F64), (0, 2, 1, 3))
    both = b.add(b.cast(_blocked(b, x), DType.F64), transposed)
    graph = b.build([b.cast(b.add(both, b.cast(b.reverse(_blocked(b, z, 4), (1,)), DType.F64)), DType.F32)])
    check(graph, *(_negative(*shape) + i for i in range(3)), tolerance=1e-6)


def test_a_result_in_blocks_reads_other_blocks_along_its_channels() -> None:
    b = CoreBuilder()
    x, y = b.input(tensor(2, 12, 12, 5)), b.input(tensor(2, 12, 12, 5))
    transposed = b.cast(b.transpose(b.cast(_blocked(b, x), DType.F64), (0, 2, 1, 3)), DType.F32)
    total = b.add(_blocked(b, y), b.add_node(Relayout(Layout(8, ((1, 1), (0, 2)))), transposed))
    graph = b.build([b.add_node(Relayout(None), total)])
    check(graph, _negative(2, 12, 12, 5), _negative(2, 12, 12, 5) * 2, tolerance=1e-6)
