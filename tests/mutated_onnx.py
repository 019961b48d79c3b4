"""Samples of ONNX files for `mutated_files.py`, and how they are read."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import mxforge as mx
import numpy as np

AVAILABLE = find_spec("onnx") is not None
"""False if the package onnx is not installed."""


def samples(folder: Path) -> Iterator[Path]:
    """A model with a branch, shapes that it computes, and weights."""
    if not AVAILABLE:
        return
    from onnx import helper, numpy_helper

    branch = [
        helper.make_graph(
            [helper.make_node(op, ["r"], [f"{op}_y"])], op, [], [helper.make_tensor_value_info(f"{op}_y", 1, None)]
        )
        for op in ("Relu", "Neg")
    ]
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"], axis=0),
        helper.make_node("Concat", ["n", "rest"], ["t"], axis=0),
        helper.make_node("Reshape", ["x", "t"], ["r"]),
        helper.make_node("If", ["flag"], ["b"], then_branch=branch[0], else_branch=branch[1]),
        helper.make_node("Gemm", ["b", "w"], ["p"], transB=1),
        helper.make_node("Resize", ["image", "", "scales"], ["i"], mode="linear"),
        helper.make_node("Conv", ["i", "k"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("MaxPool", ["c"], ["y"], kernel_shape=[2, 2], strides=[2, 2]),
    ]
    weights = {
        "zero": np.zeros(1, np.int64),
        "rest": np.array([6], np.int64),
        "w": np.ones((4, 6), np.float32),
        "k": np.ones((2, 1, 3, 3), np.float32),
        "scales": np.array([1, 1, 2, 2], np.float32),
    }
    inputs = [("x", 1, ["n", 2, 3]), ("flag", 9, []), ("image", 1, [1, 1, 8, 8])]
    infos = [helper.make_tensor_value_info(*info) for info in inputs]
    outputs = [helper.make_tensor_value_info(name, 1, None) for name in ("p", "y")]
    tensors = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "net", infos, outputs, tensors)
    path = folder / "net.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]).SerializeToString())
    yield path


def read(path: Path) -> None:
    """Import a model."""
    mx.contrib.onnx.import_model(str(path))


def infer(path: Path) -> None:
    """Import a model and read its nodes for inputs of the original shapes."""
    symbol = mx.contrib.onnx.import_model(str(path))[0]
    known = {"x": (4, 2, 3), "flag": (), "image": (1, 1, 8, 8)}
    symbol.infer_shape(**{name: shape for name, shape in known.items() if name in symbol.list_inputs()})
