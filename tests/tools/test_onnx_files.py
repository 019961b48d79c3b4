"""The commands read ONNX files as they read MXNet's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
W = np.arange(6, dtype=np.float32).reshape(3, 2)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    helper = onnx.helper
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Relu", ["a"], ["y"])]
    inputs = [helper.make_tensor_value_info("x", 1, ["batch", 3])]
    outputs = [helper.make_tensor_value_info("y", 1, ["batch", 2])]
    graph = helper.make_graph(nodes, "net", inputs, outputs, [onnx.numpy_helper.from_array(W, "w")])
    path = tmp_path / "net.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]).SerializeToString())
    return path


def test_a_model_is_run_and_compiled(mxforge: Any, model: Path, tmp_path: Path) -> None:
    x = np.array([[1, -2, 3], [0, 1, 0]], np.float32)
    np.save(tmp_path / "x.npy", x)
    done = mxforge("run", model, "--input", f"x={tmp_path / 'x.npy'}", "--output", tmp_path / "y.npz")
    assert done.status == 0, done.err
    with np.load(tmp_path / "y.npz") as results:
        np.testing.assert_allclose(results["y"], np.maximum(x @ W, 0))
    assert mxforge("compile", model, "--input-shape", "x=2,3", "-o", tmp_path / "out").status == 0
    done = mxforge("run", tmp_path / "out", "--input", f"x={tmp_path / 'x.npy'}", "--output", tmp_path / "z.npz")
    assert done.status == 0, done.err
    with np.load(tmp_path / "z.npz") as results:
        np.testing.assert_allclose(results["y"], np.maximum(x @ W, 0))


def test_a_model_is_inspected_and_profiled(mxforge: Any, model: Path) -> None:
    done = mxforge("inspect", model, "--json")
    assert done.status == 0, done.err
    assert json.loads(done.out)
    done = mxforge("profile", model, "--input-shape", "x=2,3")
    assert done.status == 0, done.err


def test_options_of_other_formats_are_refused(mxforge: Any, model: Path) -> None:
    done = mxforge("run", model, "--epoch", "1")
    assert done.status == 2 and "parameters of an ONNX file are in it" in done.err
