"""Printing a graph and parsing the text returns the same graph; errors in wrong text have a position."""

from __future__ import annotations

import numpy as np
import pytest
from mxforge.ir.dialects.core import PRIMITIVES, Constant, CoreBuilder
from mxforge.ir.dialects.mx.operator import all_operators, lookup
from mxforge.ir.graph import Graph, GraphBuilder, Value
from mxforge.ir.parser import ParseError, parse_graph
from mxforge.ir.printer import print_graph
from mxforge.ir.registry import stem_of
from mxforge.ir.types import DType, TensorType
from printed_graphs import CONSTANTS, every_primitive, ops_of, random_graph


def assert_same(a: Graph, b: Graph) -> None:
    """AssertionError unless equal in everything: ops, types, order, names, locations, parameters, updates,
    private outputs."""
    numbers: dict[Value, int] = {}
    others: dict[Value, int] = {}
    assert (a.name, a.parameters, a.updates, a.private) == (b.name, b.parameters, b.updates, b.private)
    assert [(v.name, v.type) for v in a.inputs] == [(v.name, v.type) for v in b.inputs]
    numbers.update((v, i) for i, v in enumerate(a.inputs))
    others.update((v, i) for i, v in enumerate(b.inputs))
    for x, y in zip(a.nodes, b.nodes, strict=True):
        assert (x.op.name, x.name, x.location) == (y.op.name, y.name, y.location)
        assert type(x.op) is type(y.op)
        assert [numbers[v] for v in x.inputs] == [others[v] for v in y.inputs]
        assert [v.type for v in x.outputs] == [v.type for v in y.outputs]
        for v, w in zip(x.outputs, y.outputs, strict=True):
            numbers[v] = others[w] = len(numbers)
        regions = x.op.regions()
        if not regions:
            assert x.op == y.op
        for inner, other in zip(regions, y.op.regions(), strict=True):
            assert_same(inner, other)
    assert [numbers[v] for v in a.outputs] == [others[v] for v in b.outputs]


def test_every_primitive() -> None:
    graph = every_primitive()
    assert set(PRIMITIVES) - {op.name for op in ops_of(graph)} == {"core.host_callback", "core.size"}
    text = print_graph(graph)
    parsed = parse_graph(text)
    assert_same(graph, parsed)
    assert print_graph(parsed) == text


@pytest.mark.parametrize("seed", range(60))
def test_random_graphs(seed: int) -> None:
    graph = random_graph(seed)
    text = print_graph(graph)
    assert_same(graph, parse_graph(text))
    assert print_graph(parse_graph(text)) == text


@pytest.mark.parametrize("array", CONSTANTS, ids=lambda a: f"{a.dtype}{a.shape}")
def test_constants_are_exact(array: np.ndarray) -> None:
    b = GraphBuilder()
    parsed = parse_graph(print_graph(b.build([b.add_node(Constant(array))])))
    value = parsed.nodes[0].op.attributes()["value"]
    assert isinstance(value, np.ndarray)
    assert (value.dtype, value.shape, value.tobytes()) == (array.dtype, array.shape, array.tobytes())


def test_mx_operators() -> None:
    b = GraphBuilder()
    x = b.input(TensorType((2, 3, 8, 8), DType.F32), "data")
    w = b.input(TensorType((4, 3, 3, 3), DType.F32), "weight", parameter=True)
    conv = lookup("Convolution").parse({"kernel": "(3, 3)", "num_filter": "4", "no_bias": "True"})
    y = b.add_node(conv, x, w, name="conv0")
    z = b.add_node(lookup("_plus_scalar").parse({"scalar": "1.5"}), y)
    graph = b.build([b.add_node(lookup("Concat").parse({"num_args": "2", "dim": "1"}), y, z)])
    text = print_graph(graph)
    assert '"mx.concat_2_1"' in text and '"mx.plus_scalar_"' in text
    assert_same(graph, parse_graph(text))


def test_spellings_differ() -> None:
    assert len({stem_of(kind) for kind in all_operators()}) == len(all_operators())


def small() -> str:
    b = CoreBuilder("small")
    x = b.input(TensorType((2, 3), DType.F32), "x")
    return print_graph(b.build([b.reshape(b.exp(x), (6,))]))


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("core.reshape", "core.reshap", 5, "'core.reshap' is not known"),
        ("core.reshape", "hlo.reshape", 5, "dialect 'hlo' is not known"),
        ("shape = ", "shap = ", 5, "attribute 'shape' is missing"),
        ("array<i64: 6>", '"6"', 5, "attribute 'shape' cannot be '6'"),
        ('"exp"', '"exq"', 4, "attribute 'op' cannot be 'exq'"),
        ('"exp"', '"exp", more = true', 4, "has no attribute 'more'"),
        ('"exp"', '"exp", op = "log"', 4, "defined twice"),
        ('"exp"', "1.5 : i64", 4, "not a whole number"),
        ('"exp"', "__import__", 4, "is not an attribute"),
        ('"exp"', '"\\q"', 4, "unknown escape"),
        ('"core.reshape"(%0)', '"core.reshape"(%7)', 5, "%7 is not defined"),
        ("%1 = ", "%0 = ", 5, "%0 is defined twice"),
        ("%1 = ", "%1:2 = ", 5, "results"),
        ("array<i64: 6>} : (tensor<2x3xf32>)", "array<i64: 6>} : (tensor<3x2xf32>)", 5, "operand 0"),
        ("-> tensor<6xf32>", "-> tensor<6xf31>", 5, "not a tensor type"),
        ("-> tensor<6xf32>", "-> tensor<6x", 5, "expected"),
        ('"func.return"', '"func.retur"', 6, "is not known"),
        ("}) : () -> ()\n", "", 7, "end of the module"),
    ],
)
def test_errors_have_a_place(old: str, new: str, line: int, message: str) -> None:
    text = small()
    assert old in text
    with pytest.raises(ParseError, match=message) as caught:
        parse_graph(text.replace(old, new, 1) if old[0] != "}" else text.rsplit(old, 1)[0])
    assert caught.value.line >= line - 2
    if old[0] not in "}-":
        assert caught.value.line == line
    assert caught.value.column >= 1


def test_every_prefix_is_refused() -> None:
    text = print_graph(random_graph(3))
    for end in range(0, len(text) - 1, 7):
        with pytest.raises(ParseError):
            parse_graph(text[:end])


def test_nesting_is_bounded() -> None:
    deep = '"builtin.module"() ({ "func.func"() ({\n' + '%0 = "core.fused_0_1"() ({\n' * 3000
    with pytest.raises(ParseError, match="nest deeper"):
        parse_graph(deep)
    listed = small().replace('"exp"', "[" * 3000)
    with pytest.raises(ParseError, match=r"nest deeper|expected"):
        parse_graph(listed)


def test_constants_do_not_exhaust_memory() -> None:
    b = GraphBuilder()
    text = print_graph(b.build([b.add_node(Constant(np.zeros((2, 2), np.float32)))]))
    with pytest.raises(ParseError, match="larger than"):
        parse_graph(text.replace("tensor<2x2xf32>", "tensor<9999999x9999999xf32>"))
