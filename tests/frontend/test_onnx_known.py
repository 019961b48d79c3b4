"""What ONNX models compute from shapes and constants is known when they are read: numbers, sequences, functions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
helper = onnx.helper
node = helper.make_node
NUMBERS = {"zero": [0], "one": [1], "two": [2], "three": [3], "minus": [-1], "parts": [2, 1, 3]}


def saved(folder: Path, nodes: list[Any], **weights: Any) -> str:
    constants = {name: np.array(value, np.int64) for name, value in NUMBERS.items()} | weights
    read = {name for one in nodes for name in one.input}
    tensors = [onnx.numpy_helper.from_array(value, name) for name, value in constants.items() if name in read]
    inputs = [helper.make_tensor_value_info("x", 1, ["n", "w"])]
    graph = helper.make_graph(nodes, "net", inputs, [helper.make_tensor_value_info("y", 1, None)], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    path = folder / "net.onnx"
    path.write_bytes(model.SerializeToString())
    return str(path)


def check(folder: Path, nodes: list[Any], *shapes: tuple[int, ...], **weights: Any) -> None:
    """ONNX Runtime and the imported block agree for all shapes."""
    path = saved(folder, nodes, **weights)
    block = mx.contrib.onnx.import_to_gluon(path, mx.cpu())
    block.hybridize()
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for shape in shapes:
        x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        np.testing.assert_allclose(block(mx.nd.array(x)).asnumpy(), session.run(None, {"x": x})[0], rtol=1e-5)


def test_sizes_are_computed_with_floats_and_comparisons(tmp_path: Path) -> None:
    """Half the width, rounded up, as exporters write it, and an Expand to a shape in which -1 is 1."""
    half = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "one"], ["w"], axis=0),
        node("Cast", ["w"], ["f"], to=1),
        node("Div", ["f", "halves"], ["q"]),
        node("Ceil", ["q"], ["c"]),
        node("Cast", ["c"], ["k"], to=7),
        node("Slice", ["x", "zero", "k", "one"], ["a"]),
    ]
    wide = [
        node("Gather", ["s", "zero"], ["n"], axis=0),
        node("Concat", ["n", "three"], ["shape"], axis=0),
        node("ConstantOfShape", ["two"], ["ones"], value=onnx.numpy_helper.from_array(np.array([1], np.int64))),
        node("Mul", ["ones", "minus"], ["negative"]),
        node("Equal", ["shape", "negative"], ["open"]),
        node("Where", ["open", "ones", "shape"], ["e"]),
        node("Expand", ["row", "e"], ["b"]),
        node("ReduceSum", ["b"], ["total"], keepdims=0),
        node("Add", ["a", "total"], ["y"]),
    ]
    arrays = {"halves": np.array([2], np.float32), "row": np.ones((1, 3), np.float32)}
    check(tmp_path, [*half, *wide], (2, 5), (3, 7), (4, 8), (5, 9), (1, 3), **arrays)


def test_constants_get_unknown_extents(tmp_path: Path) -> None:
    """A number in the shape of `x`, as `export_model` writes that of gelu, and ones that are reshaped by an extent."""
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Expand", ["half", "s"], ["halves"]),
        node("Mul", ["x", "halves"], ["a"]),
        node("Gather", ["s", "zero"], ["n"], axis=0),
        node("Expand", ["row", "n"], ["ones"]),
        node("Concat", ["n", "one"], ["column"], axis=0),
        node("Reshape", ["ones", "column"], ["b"]),
        node("Add", ["a", "b"], ["y"]),
    ]
    arrays = {"half": np.array([[0.5]], np.float32), "row": np.ones((1,), np.float32)}
    check(tmp_path, nodes, (2, 5), (3, 7), (4, 8), (1, 3), **arrays)


def test_sequences_of_known_length(tmp_path: Path) -> None:
    nodes = [
        node("SplitToSequence", ["x", "parts"], ["p"], axis=1),
        node("SequenceAt", ["p", "minus1"], ["last"]),
        node("SequenceErase", ["p", "zero1"], ["q"]),
        node("Neg", ["last"], ["negative"]),
        node("SequenceInsert", ["q", "negative", "zero1"], ["r"]),
        node("SequenceLength", ["r"], ["count"]),
        node("Cast", ["count"], ["number"], to=1),
        node("ConcatFromSequence", ["r"], ["joined"], axis=1),
        node("Add", ["joined", "number"], ["y"]),
    ]
    check(tmp_path, nodes, (2, 6), (3, 6), minus1=np.array(-1), zero1=np.array(0))


def test_a_loop_fills_a_sequence(tmp_path: Path) -> None:
    body = helper.make_graph(
        [
            node("Cast", ["i"], ["f"], to=1),
            node("Add", ["x", "f"], ["shifted"]),
            node("SequenceInsert", ["before", "shifted"], ["after"]),
            node("Identity", ["going"], ["on"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", 7, []),
            helper.make_tensor_value_info("going", 9, []),
            helper.make_tensor_sequence_value_info("before", 1, None),
        ],
        [helper.make_tensor_value_info("on", 9, []), helper.make_tensor_sequence_value_info("after", 1, None)],
    )
    nodes = [
        node("SequenceEmpty", [], ["empty"]),
        node("Loop", ["steps", "start", "empty"], ["filled"], body=body),
        node("ConcatFromSequence", ["filled"], ["y"], axis=0, new_axis=1),
    ]
    check(tmp_path, nodes, (2, 3), steps=np.array(4), start=np.array(True))


def test_a_sequence_in_place_of_a_tensor_is_refused(tmp_path: Path) -> None:
    nodes = [node("SequenceConstruct", ["x", "x"], ["s"]), node("Relu", ["s"], ["y"])]
    with pytest.raises(mx.MXNetError, match="'s' is a sequence of tensors, not a tensor"):
        mx.contrib.onnx.import_to_gluon(saved(tmp_path, nodes), mx.cpu())(mx.nd.ones((2, 3)))
