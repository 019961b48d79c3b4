"""ONNX models are imported as symbols and blocks, and refused if they cannot be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
helper, numpy_helper = onnx.helper, onnx.numpy_helper


def model_of(nodes: list[Any], inputs: dict[str, Any], weights: dict[str, np.ndarray], opset: int = 18) -> Any:
    """A model whose output is `y`; an extent of an input can be a name."""
    infos = [helper.make_tensor_value_info(name, 1, shape) for name, shape in inputs.items()]
    output = helper.make_tensor_value_info("y", 1, None)
    tensors = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "net", infos, [output], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def save(folder: Path, model: Any) -> str:
    path = folder / "net.onnx"
    path.write_bytes(model.SerializeToString())
    return str(path)


@pytest.mark.parametrize("name", ["resnet18_v1", "mobilenet_v2_0_25", "resnet18_v2"])
def test_networks_return_unchanged(tmp_path: Path, name: str) -> None:
    """mxforge -> ONNX -> mxforge gives equal bits, and ONNX Runtime agrees."""
    net = getattr(mx.gluon.model_zoo.vision, name)(classes=5)
    net.initialize(mx.init.Xavier())
    net.hybridize()
    x = mx.nd.random.uniform(shape=(1, 3, 64, 64))
    expected = net(x).asnumpy()
    net.export(str(tmp_path / "net"))
    files = str(tmp_path / "net-symbol.json"), str(tmp_path / "net-0000.params")
    path = mx.onnx.export_model(*files, [x.shape], np.float32, str(tmp_path / "net.onnx"))
    block = mx.contrib.onnx.import_to_gluon(path, mx.cpu())
    block.hybridize()
    np.testing.assert_array_equal(block(x).asnumpy(), expected)
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(None, {"data": x.asnumpy()})[0], expected, rtol=1e-3, atol=1e-5)


def shape_model() -> Any:
    """A product whose rows are those of the data, by a shape that the model computes."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"], axis=0),
        helper.make_node("Concat", ["n", "rest"], ["t"], axis=0),
        helper.make_node("Reshape", ["x", "t"], ["r"]),
        helper.make_node("MatMul", ["r", "w"], ["y"], name="product"),
    ]
    w = np.arange(12, dtype=np.float32).reshape(6, 2)
    constants = {"zero": np.array([0], np.int64), "rest": np.array([6], np.int64)}
    return model_of(nodes, {"x": ["batch", 2, 3]}, {"w": w, **constants})


def test_a_batch_of_any_size_is_one_program(tmp_path: Path) -> None:
    block = mx.contrib.onnx.import_to_gluon(save(tmp_path, shape_model()), mx.cpu())
    block.hybridize()
    w = np.arange(12, dtype=np.float32).reshape(6, 2)
    for batch in (1, 2, 5):
        x = np.random.default_rng(batch).random((batch, 2, 3), np.float32)
        np.testing.assert_allclose(block(mx.nd.array(x)).asnumpy(), x.reshape(batch, 6) @ w, rtol=1e-5)


def test_an_imported_block_is_trained_and_exported(tmp_path: Path) -> None:
    block = mx.contrib.onnx.import_to_gluon(save(tmp_path, shape_model()), mx.cpu())
    trainer = mx.gluon.Trainer(block.collect_params(), "sgd", {"learning_rate": 0.01})
    x, before = mx.nd.ones((4, 2, 3)), block.collect_params()["w"].data().asnumpy()
    with mx.autograd.record():
        loss = block(x).sum()
    loss.backward()
    trainer.step(1)
    np.testing.assert_allclose(block.collect_params()["w"].data().asnumpy(), before - 0.04, rtol=1e-5)
    block.hybridize()
    expected = block(x).asnumpy()
    block.export(str(tmp_path / "trained"))
    files = str(tmp_path / "trained-symbol.json"), ["x"], str(tmp_path / "trained-0000.params")
    np.testing.assert_array_equal(mx.gluon.SymbolBlock.imports(*files)(x).asnumpy(), expected)


def test_nodes_without_an_operator_of_mx_are_onnx_graphs(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="relu"),
        helper.make_node("Resize", ["a", "", "scales"], ["b"], name="twice", mode="linear"),
        helper.make_node("Sigmoid", ["b"], ["y"], name="last"),
    ]
    path = save(tmp_path, model_of(nodes, {"x": [1, 1, 2, 2]}, {"scales": np.array([1, 1, 2, 2], np.float32)}))
    symbol, arguments, auxiliary = mx.contrib.onnx.import_model(path)
    assert not arguments and not auxiliary
    kinds = [n["op"] for n in json.loads(symbol.tojson())["nodes"]]
    assert kinds == ["null", "Activation", "_onnx_graph", "sigmoid"]
    assert symbol.infer_shape(x=(1, 1, 2, 2))[1] == [(1, 1, 4, 4)]


def test_one_error_names_all_operators_that_are_not_supported(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("TfIdfVectorizer", ["x"], ["a"], name="words"),
        helper.make_node("Nothing", ["a"], ["b"], name="first", domain="my.domain"),
        helper.make_node("Nothing", ["b"], ["y"], name="second", domain="my.domain"),
    ]
    with pytest.raises(mx.MXNetError, match=r"TfIdfVectorizer \('words'\); my.domain.Nothing \('first', 'second'\)"):
        mx.contrib.onnx.import_model(save(tmp_path, model_of(nodes, {"x": [2]}, {})))


def external(location: str, **numbers: int) -> Any:
    """A model whose weight is in another file."""
    model = model_of([helper.make_node("Add", ["x", "w"], ["y"])], {"x": [4]}, {"w": np.ones(4, np.float32)})
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in {"location": location, **numbers}.items():
        tensor.external_data.add(key=key, value=str(value))
    return model


def test_weights_are_read_from_other_files(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(8) + np.arange(4, dtype=np.float32).tobytes())
    path = save(tmp_path, external("w.bin", offset=8, length=16))
    assert mx.contrib.onnx.import_model(path)[1]["w"].asnumpy().tolist() == [0, 1, 2, 3]


def test_large_weights_in_other_files_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mxforge.frontend.onnx.files._LARGE", 16)
    content = np.arange(4, dtype=np.float32).tobytes() + np.array([1, 1, 2, 2], np.float32).tobytes()
    (tmp_path / "w.bin").write_bytes(content)
    model = external("w.bin", length=16)
    scales = model.graph.initializer.add(name="scales", data_type=1, dims=[4], data_location=onnx.TensorProto.EXTERNAL)
    for key, value in {"location": "w.bin", "offset": "16", "length": "16"}.items():
        scales.external_data.add(key=key, value=value)
    model.graph.node.append(helper.make_node("Resize", ["image", "", "scales"], ["z"], mode="nearest"))
    model.graph.input.append(helper.make_tensor_value_info("image", 1, [1, 1, 2, 2]))
    model.graph.output.append(helper.make_tensor_value_info("z", 1, None))
    path = save(tmp_path, model)
    assert mx.contrib.onnx.import_model(path)[1]["w"].asnumpy().tolist() == [0, 1, 2, 3]
    found = mx.contrib.onnx.import_to_gluon(path, mx.cpu())(mx.nd.ones((4,)), mx.nd.ones((1, 1, 2, 2)))
    assert found[0].asnumpy().tolist() == [1, 2, 3, 4] and found[1].shape == (1, 1, 4, 4)


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ({"location": "../w.bin"}, "outside the model's folder"),
        ({"location": "/etc/hostname"}, "outside the model's folder"),
        ({"location": "link.bin"}, "outside the model's folder"),
        ({"location": "missing.bin"}, "is missing"),
        ({"location": "w.bin", "length": 1 << 40}, "bytes 0 to 1099511627776 of w.bin, which has 16"),
        ({"location": "w.bin", "offset": -4}, "bytes -4 to"),
        ({"location": "w.bin", "length": 12}, "has 12 bytes"),
    ],
)
def test_data_in_wrong_places_is_refused(tmp_path: Path, place: dict[str, Any], reason: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "w.bin").write_bytes(bytes(16))
    (folder / "w.bin").write_bytes(bytes(16))
    (folder / "link.bin").symlink_to(tmp_path / "w.bin")
    with pytest.raises(mx.MXNetError, match=reason):
        mx.contrib.onnx.import_model(save(folder, external(**place)))


def test_damaged_and_hostile_models_are_refused(tmp_path: Path) -> None:
    good = shape_model()
    cut = tmp_path / "cut.onnx"
    cut.write_bytes(good.SerializeToString()[:-20])
    with pytest.raises(mx.MXNetError, match="not an ONNX model"):
        mx.contrib.onnx.import_model(str(cut))
    good.graph.initializer[0].dims[0] = 7
    with pytest.raises(mx.MXNetError, match="'w' has 48 bytes"):
        mx.contrib.onnx.import_model(save(tmp_path, good))
    with pytest.raises(mx.MXNetError, match="operators of set 3; sets 7 to 28"):
        mx.contrib.onnx.import_model(
            save(tmp_path, model_of([helper.make_node("Relu", ["x"], ["y"])], {"x": [1]}, {}, 3))
        )
    cycle = [helper.make_node("Add", ["x", "b"], ["a"]), helper.make_node("Relu", ["a"], ["y"], name="r")]
    cycle.append(helper.make_node("Relu", ["y"], ["b"]))
    with pytest.raises(mx.MXNetError, match="'b' is not defined before it is read"):
        block = mx.contrib.onnx.import_to_gluon(save(tmp_path, model_of(cycle, {"x": [1]}, {})), mx.cpu())
        block(mx.nd.ones((1,)))
    shape = {"s": np.array([1 << 20, 1 << 20], np.int64)}
    bomb = [helper.make_node("ConstantOfShape", ["s"], ["c"], name="bomb"), helper.make_node("Add", ["x", "c"], ["y"])]
    with pytest.raises(mx.MXNetError, match=r"bomb.*is too large"):
        mx.contrib.onnx.import_to_gluon(save(tmp_path, model_of(bomb, {"x": [1]}, shape)), mx.cpu())(mx.nd.ones((1,)))


def imported_and_called(folder: Path, model: Any) -> None:
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    mx.contrib.onnx.import_to_gluon(save(folder, model), mx.cpu())(mx.nd.ones(shape))


BOMBS = {
    "Expand": ["x", "s"],
    "Tile": ["x", "s"],
    "Pad": ["x", "edges"],
    "HannWindow": ["number"],
    "EyeLike": ["huge"],
    "Range": ["zero", "number", "one"],
}


@pytest.mark.parametrize("op", BOMBS)
def test_nodes_that_small_files_make_large_are_refused(tmp_path: Path, op: str) -> None:
    numbers = {"s": [1 << 20, 1 << 20], "edges": [0, 0, 1 << 40, 0], "number": 1 << 40, "zero": 0, "one": 1}
    weights = {name: np.array(value, np.int64) for name, value in numbers.items()}
    first = helper.make_node("ConstantOfShape", ["s"], ["huge"])
    nodes = [*([first] if op == "EyeLike" else []), helper.make_node(op, BOMBS[op], ["b"], name="bomb")]
    nodes += [helper.make_node("Cast", ["b"], ["c"], to=1), helper.make_node("ReduceSum", ["c"], ["d"], keepdims=0)]
    nodes.append(helper.make_node("Add", ["x", "d"], ["y"]))
    with pytest.raises(mx.MXNetError, match="is too large"):
        imported_and_called(tmp_path, model_of(nodes, {"x": [1, 1]}, weights))


def function(name: str, *called: str) -> Any:
    """A function that calls others, one on the result of the other."""
    names = ["a", *(f"t{i}" for i in range(len(called) - 1)), "b"]
    nodes = [helper.make_node(c, [names[i]], [names[i + 1]], domain="f" * (c != "Relu")) for i, c in enumerate(called)]
    return helper.make_function(
        "f", name, ["a"], ["b"], nodes, [helper.make_opsetid("", 18), helper.make_opsetid("f", 1)]
    )


def test_functions_that_call_each_other_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mxforge.frontend.onnx.reader.graph._LARGEST_GRAPH", 500)
    model = model_of([helper.make_node("F0", ["x"], ["y"], domain="f")], {"x": [1]}, {})
    model.opset_import.append(helper.make_opsetid("f", 1))
    model.functions.append(function("F0", "F0"))
    with pytest.raises(mx.MXNetError, match="the function 'F0' calls itself"):
        imported_and_called(tmp_path, model)
    del model.functions[:]
    model.functions.extend([*(function(f"F{i}", f"F{i + 1}", f"F{i + 1}") for i in range(20)), function("F20", "Relu")])
    with pytest.raises(mx.MXNetError, match="the model has more than 500 nodes, with those in functions and loops"):
        imported_and_called(tmp_path, model)


def test_tensors_that_nothing_computes_are_named(tmp_path: Path) -> None:
    nodes = [helper.make_node("Add", ["x", "b"], ["a"], name="sum"), helper.make_node("Relu", ["a"], ["b"])]
    with pytest.raises(mx.MXNetError, match=r"net\.onnx: Add \('sum'\): tensor 'b' is not .*a later node computes it"):
        mx.contrib.onnx.import_model(save(tmp_path, model_of(nodes, {"x": [1]}, {})))
    with pytest.raises(mx.MXNetError, match=r"net\.onnx: the output 'y' is not defined"):
        mx.contrib.onnx.import_model(save(tmp_path, model_of(nodes[1:], {"a": [1]}, {})))
