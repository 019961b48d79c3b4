"""Models that MXNet's oneDNN backend fused give the numbers that MXNet's fused graph gave.

tests/data/make_fused.py recorded them from MXNet 1.9.1.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.frontend.artifacts import ArtifactError, SymbolFile, expand_fused, read_symbol_json

DATA = Path(__file__).parents[1] / "data" / "fused"
FUSED = ("attention", "convolutions", "dense", "sums")
QUANTIZED = ("quantized_fused", "quantized_operators")


def path_of(name: str) -> Path:
    return DATA / f"{name}-symbol.json"


@pytest.mark.parametrize("name", FUSED)
def test_outputs_agree_with_mxnet(name: str) -> None:
    symbol = mx.sym.load(str(path_of(name)))
    with np.load(DATA / f"{name}.npz") as file:
        values = dict(file)
    outputs = [values.pop(f"output{i}") for i in range(len(symbol.list_outputs()))]
    arrays = {name: mx.nd.array(value) for name, value in values.items()}
    states = {name: arrays.pop(name) for name in symbol.list_auxiliary_states()}
    results = symbol.bind(mx.cpu(), arrays, aux_states=states, grad_req="null").forward()
    for result, expected in zip(results, outputs, strict=True):
        np.testing.assert_allclose(result.asnumpy(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", FUSED)
def test_names_and_shapes_are_those_of_the_fused_graph(name: str) -> None:
    symbol, file = mx.sym.load(str(path_of(name))), read_symbol_json(path_of(name).read_text())
    variables = [node.name for node in file.nodes if node.is_variable]
    states = symbol.list_auxiliary_states()
    assert symbol.list_arguments() == [v for v in variables if v not in states]
    assert symbol.list_outputs() == [f"{file.nodes[head.node_id].name}_output" for head in file.heads]
    with np.load(DATA / f"{name}.npz") as values:
        known = {v: values[v].shape for v in ("data", "x", "y", "w") if v in variables}
        arguments, outputs, auxiliary = symbol.infer_shape(**known)
        assert arguments and outputs and auxiliary is not None
        found = dict(zip(symbol.list_arguments() + states, arguments + auxiliary, strict=True))
        assert found == {v: values[v].shape for v in variables}
        assert outputs == [values[f"output{i}"].shape for i in range(len(outputs))]


def test_gluon_runs_an_exported_fused_block() -> None:
    block = mx.gluon.SymbolBlock.imports(str(path_of("exported")), ["data"], str(DATA / "exported-0000.params"))
    with np.load(DATA / "exported.npz") as values:
        result = block(mx.nd.array(values["data"])).asnumpy()
        np.testing.assert_allclose(result, values["output0"], rtol=1e-5, atol=1e-6)


def test_a_loaded_model_is_saved_without_fused_nodes() -> None:
    text = mx.sym.load(str(path_of("sums"))).tojson()
    assert "_sg_mkldnn" not in text and "subgraphs" not in text
    assert mx.sym.load_json(text).tojson() == text


def test_fused_nodes_in_bodies_of_loops_are_expanded() -> None:
    data, state = mx.sym.var("data"), mx.sym.var("state")
    loop, _ = mx.sym.contrib.foreach(lambda x, s: (x + s, s), data, state)
    file = read_symbol_json(loop.tojson())
    fused = read_symbol_json(path_of("attention").read_text())
    found = expand_fused(with_bodies(file, fused))
    assert [node.op for node in found.nodes] == [node.op for node in file.nodes]
    body = next(node for node in found.nodes if node.subgraphs).subgraphs[0]
    assert "FullyConnected" in [node.op for node in body.nodes]
    assert not any(node.op.startswith("_sg_") for node in body.nodes)


def with_bodies(file: SymbolFile, body: SymbolFile) -> SymbolFile:
    nodes = tuple(replace(node, subgraphs=(body,) * len(node.subgraphs)) for node in file.nodes)
    return replace(file, nodes=nodes)


@pytest.mark.parametrize("name", QUANTIZED)
def test_quantised_models_are_refused_in_one_short_sentence(name: str) -> None:
    with pytest.raises(mx.MXNetError) as error:
        mx.sym.load(str(path_of(name)))
    assert "quantised (int8) models are not supported" in str(error.value)
    assert str(error.value).endswith("(see: mxforge help compatibility)")
    assert len(str(error.value)) < 300


def without_subgraph(node: dict[str, Any]) -> None:
    del node["subgraphs"]


def without_an_input(node: dict[str, Any]) -> None:
    del node["inputs"][-1]


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (without_subgraph, r"'\w+' \(_sg_mkldnn_\w+\) does not hold the subgraph that it was fused from"),
        (without_an_input, r"'\w+' \(_sg_mkldnn_\w+\) has 2 inputs, and its subgraph 3 variables"),
    ],
)
def test_damaged_nodes_are_named(damage: Callable[[dict[str, Any]], None], problem: str) -> None:
    parsed = json.loads(path_of("dense").read_text())
    damage(next(node for node in parsed["nodes"] if node["op"].startswith("_sg_")))
    with pytest.raises(mx.MXNetError, match=problem):
        mx.sym.load_json(json.dumps(parsed))


def test_outputs_that_do_not_exist_are_named() -> None:
    file = read_symbol_json(path_of("dense").read_text())
    with pytest.raises(ArtifactError, match=r"_sg_mkldnn_\w+\) has no output 1"):
        expand_fused(replace(file, heads=(file.heads[0]._replace(index=1),)))


def test_files_without_fused_nodes_are_unchanged() -> None:
    file = read_symbol_json((DATA.parent / "fixtures" / "convnet-symbol.json").read_text())
    assert expand_fused(file) is file
