"""Samples of ONNX files for `mutated_files.py`, and how they are read."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
from mutations import Random

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


_NUMBERS = (0, 1, 2, 3, 7, -1, -2, 12, 1 << 16, 1 << 31, (1 << 31) - 1, -(1 << 31), 1 << 40, (1 << 63) - 1, -(1 << 63))
_OPERATORS = (
    "Add",
    "Reshape",
    "Slice",
    "Expand",
    "Loop",
    "SequenceAt",
    "Range",
    "Pad",
    "Tile",
    "TopK",
    "Shape",
    "Einsum",
)


def mutate_model(data: bytes, rng: Random) -> bytes:
    """A model in which numbers, names, attributes and nodes are changed, exchanged, repeated or removed."""
    import onnx

    model = onnx.ModelProto.FromString(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        message, field = rng.choice(list(_fields(model)))
        value = getattr(message, field.name)
        if not hasattr(value, "append"):
            if field.type != field.TYPE_MESSAGE:
                _set(message, field, _other(model, field, value, rng))
        elif field.type == field.TYPE_MESSAGE:
            _change_messages(value, rng)
        elif len(value):
            at = rng.randrange(len(value))
            changed = [
                *value[:at],
                *rng.choice(((), (value[at],) * 2, (_other(model, field, value[at], rng),))),
                *value[at + 1 :],
            ]
            message.ClearField(field.name)
            for item in changed:
                _append(message, field, item)
    return model.SerializeToString()


def _fields(message: Any) -> Iterator[tuple[Any, Any]]:
    """All fields that are set, in a message and the messages in it."""
    for field, value in message.ListFields():
        yield message, field
        if field.type == field.TYPE_MESSAGE:
            for inner in value if hasattr(value, "append") else [value]:
                yield from _fields(inner)


def _change_messages(items: Any, rng: Random) -> None:
    """Remove, repeat or exchange one of several messages."""
    copies = [type(item).FromString(item.SerializeToString()) for item in items]
    i, j = rng.randrange(len(copies)), rng.randrange(len(copies))
    change = rng.randrange(3)
    if change == 0:
        del copies[i]
    elif change == 1:
        copies.insert(j, copies[i])
    else:
        copies[i], copies[j] = copies[j], copies[i]
    del items[:]
    items.extend(copies)


def _other(model: Any, field: Any, value: Any, rng: Random) -> Any:
    """Another value of a field: an extreme number, or a name that occurs in the model."""
    if isinstance(value, bool | int):
        return rng.choice((*_NUMBERS, value + 1, value - 1))
    if isinstance(value, float):
        return rng.choice((0.0, -1.0, 1e30, float("nan"), float("inf"), value / 2))
    if isinstance(value, bytes):
        return rng.choice((b"", value[:-1], value + b"\0", value * 2, b"\xff" * len(value)))
    names = [name for node in model.graph.node for name in (*node.input, *node.output)]
    return rng.choice(("", "axes", "axis", *names, *_OPERATORS))


def _set(message: Any, field: Any, value: Any) -> None:
    try:
        setattr(message, field.name, value)
    except (ValueError, TypeError):  # a number outside of the field's type
        setattr(message, field.name, type(value)(1))


def _append(message: Any, field: Any, value: Any) -> None:
    try:
        getattr(message, field.name).append(value)
    except (ValueError, TypeError):
        getattr(message, field.name).append(type(value)(1))


def read(path: Path) -> None:
    """Import a model."""
    mx.contrib.onnx.import_model(str(path))


def infer(path: Path) -> None:
    """Import a model and read its nodes for inputs of the original shapes."""
    symbol = mx.contrib.onnx.import_model(str(path))[0]
    known = {"x": (4, 2, 3), "flag": (), "image": (1, 1, 8, 8)}
    symbol.infer_shape(**{name: shape for name, shape in known.items() if name in symbol.list_inputs()})
