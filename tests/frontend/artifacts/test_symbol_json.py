"""Reading and writing `-symbol.json`: byte equality with MXNet's files, old versions, and damaged files."""

from __future__ import annotations

import json
import random
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mxforge.frontend.artifacts import (
    ArtifactError,
    GraphAttr,
    NodeEntry,
    SymbolFile,
    SymbolNode,
    read_symbol_json,
    write_symbol_json,
)

DATA = Path(__file__).parents[2] / "data"
REAL_FILES = sorted(DATA.glob("*/*-symbol.json"))
VARIABLE: dict[str, Any] = {"op": "null", "name": "x", "inputs": []}


def graph(*nodes: dict[str, Any], heads: Any = ((0, 0, 0),), **more: Any) -> str:
    arguments = [i for i, node in enumerate(nodes) if node.get("op") == "null"]
    return json.dumps({"nodes": nodes, "arg_nodes": arguments, "heads": heads, **more})


def relu(name: str, *inputs: int, **more: Any) -> dict[str, Any]:
    return {"op": "relu", "name": name, "inputs": [[i, 0, 0] for i in inputs], **more}


@pytest.mark.parametrize("path", REAL_FILES, ids=lambda path: path.stem)
def test_files_of_mxnet_are_written_back_byte_for_byte(path: Path) -> None:
    text = path.read_bytes().decode()
    assert write_symbol_json(read_symbol_json(text)) == text


def test_a_real_file_of_0_8() -> None:
    file = read_symbol_json((DATA / "fixtures/save_000800.json").read_text())
    assert file.version == 800 and file.attrs == {}
    assert [node.name for node in file.nodes][:4] == ["data", "fc1_weight", "fc1_bias", "fc1"]
    assert file.nodes[3].attrs == {
        "no_bias": "False", "num_hidden": "128", "ctx_group": "stage1", "wd_mult": "0.3", "weight_lr_mult": "1.2",
    }  # fmt: skip
    assert file.nodes[3].inputs == (NodeEntry(0), NodeEntry(1), NodeEntry(2))
    assert file.heads == (NodeEntry(16),) and file.arg_nodes == (0, 1, 2, 5, 6, 9, 10, 12, 13, 15)
    assert file.nodes[0].num_outputs == 1 and file.nodes[3].num_outputs is None


def test_fields_of_a_current_file() -> None:
    file = read_symbol_json((DATA / "artifacts/foreach-symbol.json").read_bytes())
    loop = file.nodes[2]
    assert loop.op == "_foreach" and loop.num_outputs == 2 and file.version == 10901
    (body,) = loop.subgraphs
    assert [node.op for node in body.nodes] == ["null", "null", "elemwise_add", "elemwise_mul"]
    assert body.heads == (NodeEntry(2), NodeEntry(3)) and body.attrs == {}


def test_subgraphs_nest() -> None:
    file = read_symbol_json((DATA / "artifacts/nested_control_flow-symbol.json").read_text())
    (loop,) = (node for node in file.nodes if node.op == "_while_loop")
    assert any(node.subgraphs for subgraph in loop.subgraphs for node in subgraph.nodes)


def test_attributes_of_three_fields() -> None:
    node = relu("r", 0, param={"a": "1", "b": "1"}, attr={"a": "2"}, attrs={"a": "3"})
    file = read_symbol_json(graph(VARIABLE, node, heads=[[1, 0]]))
    assert file.nodes[1].attrs == {"a": "3", "b": "1"}


def test_nodes_have_mxnets_order_and_unused_nodes_are_dropped() -> None:
    text = graph(relu("top", 2, 1), relu("b", 3), relu("a", 3), VARIABLE, relu("unused", 0))
    file = read_symbol_json(text)
    assert [node.name for node in file.nodes] == ["x", "a", "b", "top"]
    assert file.nodes[3].inputs == (NodeEntry(1), NodeEntry(2)) and file.heads == (NodeEntry(3),)


def test_control_dependencies_come_first_too() -> None:
    file = read_symbol_json(graph(relu("top", 1, control_deps=[2]), VARIABLE, relu("before", 1)))
    assert [node.name for node in file.nodes] == ["x", "before", "top"]
    assert file.nodes[2].control_deps == (1,)
    assert '"control_deps": [1]' in write_symbol_json(file, lambda op, attrs: 1)


def test_output_counts() -> None:
    nodes = (VARIABLE, relu("r", 0))
    sound = read_symbol_json(graph(*nodes, heads=[[1, 2]], node_row_ptr=[0, 1, 4]))
    assert sound.nodes[1].num_outputs == 3
    for stale in ([0, 1], [0, 1, 2, 3], [1, 2, 3], [0, 1, 1], []):
        file = read_symbol_json(graph(*nodes, heads=[[1, 2]], node_row_ptr=stale))
        assert file.nodes[1].num_outputs is None
    with pytest.raises(ArtifactError, match=r"node 'r' \(relu\): its number of outputs is unknown"):
        write_symbol_json(file)
    assert json.loads(write_symbol_json(file, lambda op, attrs: 3))["node_row_ptr"] == [0, 1, 4]


def test_every_character_is_preserved() -> None:
    name = 'é "q" \\ / \t\n\r \x00\x7f 名 \U0001f600'
    node = SymbolNode("null", name, {name: name}, num_outputs=1)
    file = SymbolFile((node,), (NodeEntry(0),), {"mxnet_version": GraphAttr("int", 10901)})
    assert read_symbol_json(write_symbol_json(file)) == file
    escaped = json.dumps(json.loads(write_symbol_json(file), strict=False))
    assert read_symbol_json(escaped) == file


def test_graph_attributes_keep_their_types() -> None:
    attrs = {
        "mxnet_version": ["int", 10700],
        "s": ["str", "x"],
        "l": ["list_int", [1, 2]],
        "t": ["list_str", ["a", "b"]],
    }
    file = read_symbol_json(graph(VARIABLE, attrs=attrs))
    assert file.version == 10700 and file.attrs["t"] == GraphAttr("list_str", ("a", "b"))
    assert json.loads(write_symbol_json(file))["attrs"] == attrs


def test_a_deep_graph_needs_no_deep_stack() -> None:
    nodes = [VARIABLE, *(relu(f"r{i}", i) for i in range(20_000))]
    file = read_symbol_json(graph(*nodes, heads=[[20_000, 0]]))
    assert len(file.nodes) == 20_001


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not valid JSON"),
        ("{", "not valid JSON"),
        (b"\xff{}", "not valid JSON"),
        ("[]", "the graph: it is an array of 0 and not an object"),
        ("[" * 100_000, "nested too deeply"),
        (graph(VARIABLE, attrs={"x": ["list", 0]}).replace(" 0]}", "[" * 900 + "]" * 900 + "]}"), "nested too deeply"),
        ("{}", "the field 'nodes' is missing"),
        ('{"nodes": [], "nodes": []}', "the key 'nodes' appears twice"),
        (graph(VARIABLE, extra=1), "unknown field 'extra'"),
        (graph(VARIABLE, relu("r", 0, shape=1)), r"node 1: unknown field 'shape'"),
        (graph({"op": "null", "name": "x"}), "node 0: the field 'inputs' is missing"),
        (graph({**VARIABLE, "name": 3}), "'name' is 3 and not a string"),
        (graph({**VARIABLE, "name": "\ud800"}), "not valid Unicode"),
        (graph({**VARIABLE, "attrs": {"a": 1}}), r"node 0 \('x'\): the attribute 'a' is 1 and not a string"),
        (graph({**VARIABLE, "attr": []}), "'attr' is an array of 0 and not an object"),
        (graph({**VARIABLE, "param": {"k": None}}), "the attribute 'k' is None"),
        (graph(VARIABLE, relu("r", 5)), "a node number in 'inputs' is 5, outside 0 to 1"),
        (graph(VARIABLE, relu("r", -1)), "is -1, outside 0 to 1"),
        (graph(VARIABLE, relu("r", 10**400)), "a number of 1329 bits"),
        (graph(VARIABLE, relu("r", 0)).replace("[0, 0, 0]", "[0, 0.5, 0]"), "is 0.5 and not an integer"),
        (graph(VARIABLE, relu("r", 0)).replace("[0, 0, 0]", "[0, 1e999, 0]"), "is inf and not an integer"),
        (graph(VARIABLE, relu("r", 0)).replace("[0, 0, 0]", "[0, NaN, 0]"), "NaN is not a JSON number"),
        (graph(VARIABLE, relu("r", 0)).replace("[0, 0, 0]", "[true, 0, 0]"), "is True and not an integer"),
        (graph(VARIABLE, relu("r", 0)).replace("[0, 0, 0]", f"[{'9' * 9999}, 0, 0]"), "not valid JSON"),
        (graph(VARIABLE, heads=[[0]]), "has 1 numbers; 2 or 3 are possible"),
        (graph(VARIABLE, heads=[[0, 0, 0, 0]]), "has 4 numbers"),
        (graph(VARIABLE, heads=[[1, 0, 0]]), "a node number in 'heads' is 1, outside 0 to 0"),
        (graph(VARIABLE, heads=[[0, 1, 0]]), r"output 1 of node 0 \('x'\) does not exist"),
        (graph(VARIABLE, heads=3), "'heads' is 3 and not an array"),
        (graph({**VARIABLE, "inputs": [[0, 0]]}), "a variable and has inputs"),
        (graph(relu("r", 0)), r"node 0 \('r'\) depends on itself"),
        (graph(relu("a", 1), relu("b", 2), relu("c", 0)), r"node 0 \('a'\) depends on itself, through node 2 \('c'\)"),
        (graph(VARIABLE, relu("r", 0, control_deps=[1]), heads=[[1, 0]]), "depends on itself"),
        (graph(VARIABLE, relu("r", 0, control_deps=["0"])), "a control dependency is '0'"),
        (graph(VARIABLE).replace('"arg_nodes": [0]', '"arg_nodes": [7]'), "in 'arg_nodes' is 7"),
        (graph(VARIABLE, relu("r", 0)).replace('"arg_nodes": [0]', '"arg_nodes": [1]'), "a relu and not a variable"),
        (graph(VARIABLE, node_row_ptr=["0"]), "a number in 'node_row_ptr' is '0'"),
        (graph(VARIABLE, attrs={"mxnet_version": 1}), "the graph attribute 'mxnet_version' is 1 and not an array"),
        (graph(VARIABLE, attrs={"mxnet_version": ["int", "1"]}), "is '1' and not an integer"),
        (graph(VARIABLE, attrs={"mxnet_version": ["int"]}), r"is an array of 1 and not \[type, value\]"),
        (graph({**VARIABLE, "subgraphs": [{}]}), r"node 0 \('x'\), subgraph 0: the field 'nodes' is missing"),
    ],
)
def test_errors_describe_the_problem(text: str, message: str) -> None:
    with pytest.raises(ArtifactError, match=f"^model: .*{message}"):
        read_symbol_json(text, "model")


def test_subgraphs_have_a_depth_limit() -> None:
    inner = json.loads(graph(VARIABLE))
    for _ in range(40):
        inner = json.loads(graph({**VARIABLE, "subgraphs": [inner]}))
    with pytest.raises(ArtifactError, match="nested more than 32 deep"):
        read_symbol_json(json.dumps(inner))


def test_a_version_that_is_not_a_number() -> None:
    file = read_symbol_json(graph(VARIABLE, attrs={"mxnet_version": ["str", "1.9"]}))
    with pytest.raises(ArtifactError, match=r"mxnet_version is '1\.9'"):
        _ = file.version


def test_truncation_at_every_byte() -> None:
    text = (DATA / "artifacts/foreach-symbol.json").read_text()
    for size in range(len(text)):
        with pytest.raises(ArtifactError):
            read_symbol_json(text[:size])


def test_random_damage_gives_an_error_or_a_graph() -> None:
    generator = random.Random(0)
    content = (DATA / "fixtures/mlp-symbol.json").read_bytes()
    begin = time.monotonic()
    for _ in range(400):
        damaged = bytearray(content)
        for _ in range(generator.randint(1, 3)):
            damaged[generator.randrange(len(damaged))] = generator.choice(b'0123456789[]{},:"\\\x00\xff-eE.')
        try:
            file = read_symbol_json(bytes(damaged))
        except ArtifactError:
            continue
        known = replace(file, nodes=tuple(replace(n, num_outputs=n.num_outputs or 1) for n in file.nodes))
        assert read_symbol_json(write_symbol_json(known)).heads == file.heads
    assert time.monotonic() - begin < 20
