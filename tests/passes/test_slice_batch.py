"""Batches are sliced where each row of the result depends on one row of the data, and only if they are large."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.ir.dialects.core import CoreBuilder, Scan
from mxforge.ir.graph import Graph, Value
from mxforge.ir.kernel import ReduceOp
from mxforge.ir.target import REFERENCE
from mxforge.passes.manager import Context, Options
from mxforge.passes.slice_batch import SliceBatch, rows_of_slices
from mxforge.tools.slices import report_slices
from rewriting import assert_same_values, tensor

ROW_BYTES = 4 * (4 + 8) * 6 * 6
"""What the first of `convs` reads and writes for one row."""


def sliced(graph: Graph, rows: int, **options: Any) -> Graph:
    """The graph for a target whose caches hold so many rows of `convs`."""
    target = replace(REFERENCE, slice_bytes=rows * ROW_BYTES)
    return SliceBatch().run(graph, Context(target, Options(**options)))


def conv(b: CoreBuilder, x: Value, filters: int = 8, kernel: int = 3) -> Value:
    w = b.input(tensor(filters, x.type.shape[1], kernel, kernel), parameter=True)
    return b.conv(x, w, (1, 1), ((kernel // 2, kernel // 2),) * 2)


def shifted(b: CoreBuilder, x: Value) -> Value:
    shift = b.input(tensor(x.type.shape[1]), parameter=True)
    return b.maximum(b.add(x, b.broadcast(shift, x.type.shape, (1,))), b.full_like(x, 0))


def convs(b: CoreBuilder, batch: int = 8) -> Value:
    return conv(b, shifted(b, conv(b, b.input(tensor(batch, 4, 6, 6)))), 4)


def loops(graph: Graph) -> list[tuple[int, int]]:
    """The length of each loop, and the nodes outside of it that are not reshapes."""
    outside = sum(n.op.name not in ("core.scan", "core.reshape") for n in graph.nodes)
    return [(n.op.length, outside) for n in graph.nodes if isinstance(n.op, Scan)]


def test_the_largest_divisor_that_fits() -> None:
    for rows, length in ((1, 12), (2, 6), (3, 4), (4, 3), (5, 3)):
        b = CoreBuilder()
        graph = b.build([convs(b, 12)])
        result = sliced(graph, rows)
        assert loops(result) == [(length, 0)]
        assert_same_values(graph, result)
    assert sliced(graph, 6) is graph  # twice those bytes hold the batch


def test_a_matrix_product_after_the_convolutions_takes_the_whole_batch() -> None:
    b = CoreBuilder()
    pooled = b.sum(convs(b), [2, 3])
    w = b.input(tensor(5, 4), parameter=True)
    graph = b.build([b.dot(pooled, w, (), (), (1,), (1,))])
    result = sliced(graph, 2)
    assert loops(result) == [(4, 1)]
    assert [v.type.shape for v in next(n for n in result.nodes if isinstance(n.op, Scan)).outputs] == [(4, 2, 4)]
    assert_same_values(graph, result, 1e-5)


def test_a_product_between_convolutions_is_inside() -> None:
    b = CoreBuilder()
    x = conv(b, b.input(tensor(8, 4, 6, 6)))
    scale = b.dot(b.sum(x, [2, 3]), b.input(tensor(8, 8), parameter=True), (), (), (1,), (0,))
    scaled = b.mul(x, b.broadcast(scale, x.type.shape, (0, 1)))
    graph = b.build([conv(b, b.concat([scaled, x], 1))])
    result = sliced(graph, 4)
    assert loops(result) == [(4, 0)]
    assert_same_values(graph, result, 1e-5)


def _across_rows(b: CoreBuilder, x: Value) -> Value:
    mean = b.sum(x, [0])
    return b.sub(x, b.broadcast(mean, x.type.shape, (1, 2, 3)))


def _neighbours(b: CoreBuilder, x: Value) -> Value:
    none = ((0, 0),) * 3
    return b.reduce_window(ReduceOp.MAX, x, (3, 1, 1, 1), (1, 1, 1, 1), ((1, 1), *none))


def _rolled(b: CoreBuilder, x: Value) -> Value:
    return b.pad(x, b.constant(0, x.type.dtype), (1, 0, 0, 0), (-1, 0, 0, 0))


def _by_rows_of_another(b: CoreBuilder, x: Value) -> Value:
    return b.mul(x, b.reverse(x, (0,)))


@pytest.mark.parametrize("mix", [_across_rows, _neighbours, _rolled, _by_rows_of_another])
def test_nothing_is_sliced_that_depends_on_other_rows(mix: Callable[[CoreBuilder, Value], Value]) -> None:
    b = CoreBuilder()
    graph = b.build([conv(b, mix(b, conv(b, b.input(tensor(8, 4, 6, 6)))))])
    assert sliced(graph, 1) is graph
    b = CoreBuilder()
    graph = b.build([conv(b, mix(b, convs(b)))])
    result = sliced(graph, 1)
    assert loops(result)[0][0] == 8 and loops(result)[0][1] > 1
    assert_same_values(graph, result, 1e-5)


def test_values_that_the_rest_reads_too() -> None:
    """What is equal for all rows is computed twice; a second result of the loop would not be."""
    b = CoreBuilder()
    x = conv(b, shifted(b, conv(b, b.input(tensor(8, 4, 6, 6)))), 8)
    shift = b.broadcast(b.input(tensor(8), parameter=True), x.type.shape, (1,))
    inside = conv(b, b.add(x, shift))
    graph = b.build([b.add(_across_rows(b, inside), shift)])
    result = sliced(graph, 1)
    assert loops(result)[0][0] == 8
    assert_same_values(graph, result, 1e-5)
    b = CoreBuilder()
    first = conv(b, b.input(tensor(8, 4, 6, 6)))
    graph = b.build([conv(b, first), first])
    assert sliced(graph, 1) is graph


def test_commands_name_the_slices(capsys: pytest.CaptureFixture[str]) -> None:
    b = CoreBuilder()
    graph = b.build([convs(b)])
    for result in (graph, sliced(graph, 2)):
        report_slices("tune", rows_of_slices(result))
    text = "the convolutional layers run on 2 rows of the batch at a time, in a loop that is one launch: tune the model"
    assert capsys.readouterr().err == f"mxforge: {text} with a batch of 2 for each of them\n"


def test_training_is_not_sliced() -> None:
    b = CoreBuilder()
    graph = b.build([convs(b)])
    assert sliced(graph, 1, training=True) is graph
    assert sliced(graph, 0) is graph


def test_networks_on_large_batches() -> None:
    """Each row is that of the network on this row alone, also in a program for batches of any size."""
    mx.random.seed(5)
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Conv2D(24, 3, padding=1, in_channels=3), mx.gluon.nn.BatchNorm(in_channels=24))
    net.add(mx.gluon.nn.Activation("relu"), mx.gluon.nn.Conv2D(16, 1, in_channels=24), mx.gluon.nn.GlobalAvgPool2D())
    net.add(mx.gluon.nn.Flatten(), mx.gluon.nn.Dense(3, in_units=16))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    x = mx.nd.random.uniform(shape=(12, 3, 160, 160))
    single = np.concatenate([net(x[i : i + 1]).asnumpy() for i in range(12)])
    for batch in (9, 12, 2, 10):
        np.testing.assert_allclose(net(x[:batch]).asnumpy(), single[:batch], rtol=0, atol=1e-5)
