"""Sums over windows and 1x1 convolutions are exchanged where that is cheaper, and only there."""

from __future__ import annotations

from mxforge.ir.dialects.core import CoreBuilder
from mxforge.ir.graph import Value
from mxforge.ir.kernel import ReduceOp
from mxforge.passes.eliminate import EliminateDeadCode
from mxforge.passes.exchange_pools import ExchangePools
from rewriting import Chain, assert_same_values, assert_unchanged, run_pass, tensor

EXCHANGE = Chain((ExchangePools(), EliminateDeadCode()))
NONE = ((0, 0), (0, 0))


def conv(b: CoreBuilder, x: Value, filters: int = 8, kernel: int = 1, stride: int = 1, padding: int = 0) -> Value:
    w = b.input(tensor(filters, x.type.shape[1], kernel, kernel), parameter=True)
    return b.conv(x, w, (stride, stride), ((padding, padding),) * 2)


def pool(
    b: CoreBuilder, x: Value, size: int = 2, stride: int = 2, padding: int = 0, op: ReduceOp = ReduceOp.ADD
) -> Value:
    return b.reduce_window(
        op, x, (1, 1, size, size), (1, 1, stride, stride), (*NONE, (padding, padding), (padding, padding))
    )


def test_sums_of_a_convolution() -> None:
    b = CoreBuilder()
    graph = b.build([pool(b, conv(b, b.input(tensor(1, 4, 6, 6))))])
    result = run_pass(EXCHANGE, graph)
    assert [n.op.name for n in result.nodes] == ["core.reduce_window", "core.conv"]
    assert result.nodes[0].outputs[0].type.shape == (1, 4, 3, 3)
    assert_same_values(graph, result, 1e-5)


def test_padding_adds_zeros_in_either_order() -> None:
    b = CoreBuilder()
    graph = b.build([pool(b, conv(b, b.input(tensor(2, 4, 7, 7))), 3, 2, 1)])
    result = run_pass(EXCHANGE, graph)
    assert [n.op.name for n in result.nodes] == ["core.reduce_window", "core.conv"]
    assert_same_values(graph, result, 1e-5)


def test_what_does_not_commute_or_gains_nothing_stays() -> None:
    b = CoreBuilder()
    x = b.input(tensor(1, 4, 6, 6))
    shared = conv(b, x)
    values = [
        pool(b, conv(b, x), op=ReduceOp.MAX),
        pool(b, conv(b, x, kernel=3, padding=1)),
        pool(b, conv(b, x, stride=2)),
        pool(b, conv(b, x, padding=1)),
        pool(b, conv(b, x), stride=1),
        pool(b, conv(b, x, filters=4)),
        pool(b, shared),
        b.tanh(shared),
    ]
    assert_unchanged(ExchangePools(), b.build(values))


def test_a_convolution_to_fewer_channels_comes_first() -> None:
    b = CoreBuilder()
    mean = b.mul(pool(b, b.input(tensor(1, 16, 6, 6)), 3, 1, 1), 1 / 9)
    graph = b.build([conv(b, mean)])
    result = run_pass(EXCHANGE, graph)
    computed = [n for n in result.nodes if n.op.name in ("core.conv", "core.reduce_window", "core.pointwise")]
    assert [n.op.name for n in computed] == ["core.conv", "core.reduce_window", "core.pointwise"]
    assert computed[1].outputs[0].type.shape == (1, 8, 6, 6)
    assert_same_values(graph, result, 1e-5)


def test_other_convolutions_of_sums_stay() -> None:
    b = CoreBuilder()
    x, scale = b.input(tensor(1, 16, 6, 6)), b.input(tensor(1, 16, 6, 6))
    shared = pool(b, x, 3, 1, 1)
    values = [
        conv(b, pool(b, x, 3, 1, 1), filters=9),
        conv(b, pool(b, x)),
        conv(b, pool(b, x, 3, 1, 1, ReduceOp.MAX)),
        conv(b, b.mul(pool(b, x, 3, 1, 1), scale)),
        conv(b, shared),
        b.tanh(shared),
    ]
    assert_unchanged(ExchangePools(), b.build(values))
