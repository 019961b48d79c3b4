"""Invalid graphs are refused when they are loaded, by an error that names the node and the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mxforge as mx
import pytest

CONVOLUTION = {"kernel": "(3,3)", "num_filter": "4"}


def node(op: str, name: str, *inputs: Any, **attrs: str) -> dict[str, Any]:
    entries = [entry if isinstance(entry, list) else [entry, 0, 0] for entry in inputs]
    return {"op": op, "name": name, "attrs": attrs, "inputs": entries}


def graph(*nodes: dict[str, Any], heads: Any = None, version: int = 10901) -> dict[str, Any]:
    arguments = [i for i, each in enumerate(nodes) if each["op"] == "null"]
    heads = [[len(nodes) - 1, 0, 0]] if heads is None else heads
    return {"nodes": nodes, "arg_nodes": arguments, "heads": heads, "attrs": {"mxnet_version": ["int", version]}}


def loop(*body: dict[str, Any], heads: Any = None) -> dict[str, Any]:
    attrs = {"num_args": "2", "num_outputs": "1", "num_out_data": "1", "in_data_locs": "[0]"}
    return graph(node("null", "x"), node("_foreach", "loop", 0, **attrs) | {"subgraphs": [graph(*body, heads=heads)]})


X, W, B, MORE = (node("null", name) for name in "xwbm")
GRAPHS: dict[str, tuple[dict[str, Any], str]] = {
    "nothing for a unary operator": (graph(X, node("relu", "r")), r"node 'r' \(relu\): takes 1 inputs \(data\), got 0"),
    "two for a unary operator": (graph(X, node("relu", "r", 0, 0)), "node 'r'.*got 2"),
    "one too few": (graph(X, W, node("Convolution", "c", 0, 1, **CONVOLUTION)), r"node 'c'.*weight, bias\), got 2"),
    "one too many": (graph(X, W, B, MORE, node("Convolution", "c", 0, 1, 2, 3, **CONVOLUTION)), "node 'c'.*got 4"),
    "a bias too many": (
        graph(X, W, B, node("Convolution", "c", 0, 1, 2, **CONVOLUTION, no_bias="True")),
        r"node 'c'.*takes 2 inputs \(data, weight\), got 3",
    ),
    "another count": (graph(X, W, node("Concat", "c", 0, 1, num_args="3")), "node 'c'.*num_args=3"),
    "no label": (graph(X, node("SoftmaxOutput", "s", 0)), r"node 's'.*\(data, label\), got 1"),
    "an output that is not there": (graph(X, node("relu", "r", [0, 3, 0])), "output 3 of node 0"),
    "another output that is not there": (
        graph(X, node("relu", "r", 0), node("relu", "s", [1, 1, 0])),
        "node 's'.*node 'r' has no output 1",
    ),
    "a head that is not there": (graph(X, node("relu", "r", 0), heads=[[1, 2, 0]]), "'r' has no output 2"),
    "an open bracket": (
        graph(X, W, B, node("Convolution", "c", 0, 1, 2, kernel="(3,", num_filter="4")),
        r"Convolution: kernel='\(3,': .*Convolution\(name='c'\)",
    ),
    "an open bracket in an old file": (
        graph(X, node("Pooling", "p", 0, kernel="(3,", data_lr_mult="2"), version=800),
        r"node 'p': Pooling: kernel='\(3,'",
    ),
    "no number": (graph(X, node("LeakyReLU", "a", 0, slope="steep")), "slope='steep'.*name='a'"),
    "no number of 64 bits": (graph(X, node("expand_dims", "e", 0, axis="9" * 20)), "axis='9*'.*name='e'"),
    "deep brackets": (graph(X, node("Pooling", "p", 0, kernel="(" * 9999)), r"kernel='.*name='p'"),
    "nothing in a subgraph": (loop(X, node("relu", "r")), r"node 'r' \(relu\) of a subgraph: takes 1 .*name='loop'"),
    "an output that is not there in a subgraph": (
        loop(X, node("relu", "r", 0), node("relu", "s", [1, 1, 0])),
        r"node 's' \(relu\) of a subgraph: node 1 has no output 1",
    ),
    "a head that is not there in a subgraph": (
        loop(X, node("relu", "r", 0), heads=[[1, 1, 0]]),
        "results of a subgraph: node 1 has no output 1",
    ),
    "an open bracket in a subgraph": (loop(X, node("Pooling", "p", 0, kernel="(3,")), r"kernel='\(3,'.*name='p'"),
}


@pytest.mark.parametrize("what", GRAPHS)
def test_an_invalid_graph_is_refused(what: str, tmp_path: Path) -> None:
    damaged, text = GRAPHS[what]
    path = tmp_path / "net-symbol.json"
    path.write_text(json.dumps(damaged))
    with pytest.raises(mx.MXNetError, match=f"(?s){path}: .*{text}"):
        mx.sym.load(str(path))


def test_a_subgraph_without_output_counts_is_written() -> None:
    body = X, node("SliceChannel", "s", 0, num_outputs="2", axis="0"), node("elemwise_add", "a", [1, 0, 0], [1, 1, 0])
    written = json.loads(mx.sym.load_json(json.dumps(loop(*body))).tojson())
    assert written["nodes"][1]["subgraphs"][0]["node_row_ptr"] == [0, 1, 3, 4]


# --- texts of tuples: the answers are MXNet's -------------------------------------------------------------------------


def as_given(**parameters: str) -> dict[str, Any]:
    """Parameters parsed as they are written in files."""
    return parameters


@pytest.mark.parametrize("text", ["[2,2]", "(2L, 2L)", "(2,2]", "(2,2,)", "( 2 , 2 )", "(+2,2)", "(2,2) "])
def test_texts_of_a_tuple(text: str) -> None:
    pooled = mx.sym.Pooling(mx.sym.var("x"), **as_given(kernel=text))
    assert pooled.infer_shape(x=(1, 1, 20, 20))[1] == [(1, 1, 19, 19)]


@pytest.mark.parametrize(
    "text",
    ["(2.0,2)", "2,2", "(2,2", "(2 2)", "((2,2))", "(2,,2)", "(0x2,2)", "(2,None)", "", "(1_0,2)", "(1e0,2)", "(,)"],
)
def test_invalid_texts_of_a_tuple(text: str) -> None:
    with pytest.raises(mx.MXNetError, match="Pooling: kernel="):
        mx.sym.Pooling(mx.sym.var("x"), **as_given(kernel=text))


@pytest.mark.parametrize("text", ["3.0", "1_0", "0x3", "", "3e0"])
def test_invalid_texts_of_an_integer(text: str) -> None:
    with pytest.raises(mx.MXNetError, match="FullyConnected: num_hidden="):
        mx.sym.FullyConnected(mx.sym.var("x"), **as_given(num_hidden=text))
