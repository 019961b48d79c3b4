"""Dynamic compilation: one compilation serves all shapes that satisfy its guards, with equal programs and results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from compiled import launches_of
from dynamic_programs import (
    assert_close,
    assert_equal_programs,
    dynamic_of,
    graph_of,
    interpreted,
    random_graph,
    run,
    values_for,
    varied,
)
from mxforge.codegen.statistics import statistics
from mxforge.ir.symbolic import is_symbolic
from mxforge.runtime.host.threads import get_pool, set_num_threads
from random_program_steps import make_program

sym: Any = mx.sym
Shape = tuple[int, ...]
Net = Callable[[], Any]


def check_shapes(net: Any, base: Shape, others: Sequence[Shape], tolerance: float = 2e-5) -> None:
    """Asserts that the dynamic program of `base` serves `others` too: each program equals a separate compilation,
    agrees with the interpreter, and needs no further code."""
    graph = graph_of(net, {"x": base})
    dynamic = dynamic_of(graph)
    get_pool()  # compiles a module of its own
    modules = statistics.modules
    for shape in (base, *others):
        graph = graph_of(net, {"x": shape})
        program = dynamic.at(graph.input_types())
        assert program is not None, f"{shape} does not satisfy the guards"
        assert_equal_programs(program, dynamic_of(graph).at(graph.input_types()) or program)
        arrays = values_for(graph)
        assert_close(run(program, arrays), interpreted(graph, arrays), tolerance)
    assert statistics.modules == modules


def conv(filters: int, kernel: Shape = (3, 3), groups: int = 1, act: str = "relu", **parameters: Any) -> Net:
    def build() -> Any:
        y = sym.Convolution(sym.var("x"), num_filter=filters, kernel=kernel, num_group=groups, name="c", **parameters)
        return sym.Activation(y, act_type=act) if act else y

    return build


CONVOLUTIONS: dict[str, tuple[Net, Shape, list[Shape]]] = {
    "image": (conv(24, (7, 7), stride=(2, 2), pad=(3, 3)), (2, 3, 40, 40), [(3, 3, 41, 33), (2, 3, 9, 70)]),
    "one channel": (conv(8, (5, 5)), (2, 1, 20, 20), [(5, 1, 28, 17), (2, 1, 6, 7)]),
    "winograd": (conv(32, pad=(1, 1)), (2, 32, 30, 30), [(3, 32, 28, 41), (2, 32, 33, 16)]),
    "ragged channels": (conv(20, pad=(1, 1), stride=(2, 2)), (2, 19, 30, 30), [(2, 19, 29, 18), (4, 19, 7, 7)]),
    "dilated": (conv(16, pad=(2, 2), dilate=(2, 2), act=""), (2, 16, 20, 20), [(2, 16, 31, 9), (3, 16, 5, 5)]),
    "one by one": (conv(48, (1, 1)), (2, 32, 14, 14), [(2, 32, 7, 7), (9, 32, 3, 2), (2, 32, 40, 3)]),
    "strided one by one": (conv(48, (1, 1), stride=(2, 2)), (2, 32, 14, 14), [(2, 32, 7, 7), (3, 32, 40, 3)]),
    "groups": (conv(48, groups=3, pad=(1, 1)), (2, 24, 16, 16), [(3, 24, 9, 20), (2, 24, 3, 4)]),
    "depthwise": (conv(32, groups=32, pad=(1, 1)), (2, 32, 28, 28), [(2, 32, 14, 7), (3, 32, 9, 57), (2, 32, 2, 2)]),
    "depthwise stride": (
        conv(20, groups=20, pad=(1, 1), stride=(2, 2)),
        (2, 20, 28, 28),
        [(2, 20, 15, 14), (3, 20, 56, 9)],
    ),
    "one axis": (conv(16, (3,), pad=(1,)), (2, 16, 50), [(3, 16, 33), (2, 16, 7)]),
    "three axes": (conv(16, (3, 3, 3), pad=(1, 1, 1)), (2, 8, 6, 7, 8), [(2, 8, 5, 9, 4), (3, 8, 3, 3, 11)]),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_with_other_extents(name: str) -> None:
    net, base, others = CONVOLUTIONS[name]
    check_shapes(net(), base, others)


def pooled(**parameters: Any) -> Any:
    y = sym.Convolution(sym.var("x"), num_filter=16, kernel=(3, 3), pad=(1, 1), name="c")
    return sym.Pooling(y, **parameters)


POOLINGS = {
    "maximum": {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1), "pool_type": "max"},
    "average": {"kernel": (2, 2), "stride": (2, 2), "pool_type": "avg"},
    "average with padding": {"kernel": (3, 3), "pad": (1, 1), "pool_type": "avg"},
    "average without padding": {"kernel": (3, 3), "pad": (1, 1), "pool_type": "avg", "count_include_pad": False},
    "rounded up": {"kernel": (3, 3), "stride": (2, 2), "pool_type": "avg", "pooling_convention": "full"},
    "maximum rounded up": {"kernel": (3, 2), "stride": (2, 3), "pool_type": "max", "pooling_convention": "full"},
    "global average": {"kernel": (1, 1), "global_pool": True, "pool_type": "avg"},
    "global maximum": {"kernel": (1, 1), "global_pool": True, "pool_type": "max"},
}


@pytest.mark.parametrize("name", POOLINGS)
def test_pooling_with_other_extents(name: str) -> None:
    check_shapes(pooled(**POOLINGS[name]), (2, 3, 16, 16), [(2, 3, 24, 22), (3, 3, 14, 28)])


def residual() -> Any:
    x = sym.Convolution(sym.var("x"), num_filter=32, kernel=(3, 3), pad=(1, 1), no_bias=True, name="c0")
    y = sym.BatchNorm(x, name="b0", fix_gamma=False, use_global_stats=True)
    y = sym.Convolution(sym.relu(y), num_filter=32, kernel=(3, 3), pad=(1, 1), name="c1")
    y = sym.relu(x + y)
    y = sym.concat(y, sym.Convolution(y, num_filter=16, kernel=(1, 1), name="c2"), dim=1)
    y = sym.Pooling(y, global_pool=True, kernel=(1, 1), pool_type="avg")
    return sym.softmax(sym.FullyConnected(y, num_hidden=10, name="d"))


def test_a_network_with_other_extents() -> None:
    check_shapes(residual(), (2, 3, 24, 24), [(5, 3, 20, 40), (2, 3, 25, 23), (3, 3, 12, 12)])


def test_one_image_has_its_own_program() -> None:
    net = residual()
    dynamic = dynamic_of(graph_of(net, {"x": (2, 3, 24, 24)}))
    assert dynamic.at(graph_of(net, {"x": (1, 3, 24, 24)}).input_types()) is None
    check_shapes(net, (1, 3, 24, 24), [(1, 3, 40, 32)])


def layers() -> Any:
    y = sym.relu(sym.FullyConnected(sym.var("x"), num_hidden=70, name="d0"))
    y = sym.LayerNorm(y, name="n")
    return sym.FullyConnected(y, num_hidden=10, name="d1")


def test_layers_with_other_batch_sizes() -> None:
    check_shapes(layers(), (20, 33), [(17, 33), (64, 33), (257, 33)])
    check_shapes(layers(), (3, 33), [(2, 33), (4, 33)])


@pytest.mark.parametrize(("mode", "layers"), [("lstm", 2), ("gru", 1), ("rnn_tanh", 1)])
def test_recurrences_with_other_lengths_and_batch_sizes(mode: str, layers: int) -> None:
    """The zeros of the first state have the batch size of the input."""
    x, states = sym.var("x"), [sym.zeros((2 * layers, 0, 24)) for _ in range(2 if mode == "lstm" else 1)]
    options = {"mode": mode, "state_size": 24, "num_layers": layers, "bidirectional": True}
    net = sym.RNN(x, sym.var("p") * 0.2, *states, **options)
    check_shapes(net, (10, 4, 12), [(7, 3, 12), (19, 8, 12), (2, 5, 12)])
    check_shapes(net, (10, 1, 12), [(7, 1, 12)])


def test_means_divide_by_the_current_extents() -> None:
    x = sym.var("x")
    check_shapes(sym.broadcast_add(sym.mean(x, axis=(0, 2)), sym.mean(x)), (4, 5, 6), [(2, 5, 9), (7, 3, 4)])


def test_a_dependence_on_an_extent_adds_a_guard() -> None:
    """A constant array depends on the shape: the program serves only this extent."""
    net = sym.broadcast_add(sym.var("x"), sym.arange(0, 6))
    dynamic = dynamic_of(graph_of(net, {"x": (3, 6)}))
    assert dynamic.at(graph_of(net, {"x": (8, 6)}).input_types()) is not None


@pytest.mark.parametrize("name", ["winograd", "groups", "depthwise", "image"])
def test_threads_do_not_change_bits(name: str) -> None:
    net, _, others = CONVOLUTIONS[name]
    graph = graph_of(net(), {"x": others[0]})
    program = dynamic_of(graph).at(graph.input_types())
    assert program is not None
    arrays = values_for(graph)
    two = run(program, arrays)
    set_num_threads(1)
    try:
        one = run(program, arrays)
    finally:
        set_num_threads(2)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(one, two, strict=True))


def test_programs_hold_plain_numbers() -> None:
    graph = graph_of(residual(), {"x": (2, 3, 24, 24)})
    program = dynamic_of(graph).at(graph.input_types())
    assert program is not None
    arguments = [a for launch in launches_of((*program.prepare, *program.steps)) for a in launch.arguments]
    assert not any(is_symbolic(a) or is_symbolic(getattr(a, "offset", 0)) for a in arguments)


@pytest.mark.parametrize("first", range(0, 30, 10))
def test_random_programs_with_other_extents(first: int) -> None:
    served = 0
    for seed in range(first, first + 10):
        program = make_program(seed)
        if any(0 in x.shape for x in (*program.inputs, *program.expected)):
            continue
        dynamic = dynamic_of(random_graph(program, [x.shape for x in program.inputs]))
        for by in range(4):
            try:
                graph = random_graph(program, varied(program, by))
            except mx.MXNetError:  # a step's parameter is invalid for the new extents
                continue
            found = dynamic.at(graph.input_types())
            if found is None:
                continue
            served += 1
            assert_equal_programs(found, dynamic_of(graph).at(graph.input_types()) or found)
            arrays = [x.astype(np.float32).astype(x.dtype) for x in values_for(graph, by)]
            assert_close(run(found, arrays), interpreted(graph, arrays), max(1e-4, 4 * program.tolerance))
    assert served
