"""Models are exported to ONNX for many shapes, and with weights in another file."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import onnx
import onnxruntime
import pytest
from mxforge.frontend.onnx import exported

sym: Any = mx.sym


def network() -> tuple[Any, dict[str, Any]]:
    """A network for images of any size."""
    x = sym.Convolution(sym.var("data"), kernel=(3, 3), pad=(1, 1), num_filter=4, name="conv")
    x = sym.Pooling(sym.relu(x), kernel=(2, 2), stride=(2, 2), pool_type="max")
    x = sym.Pooling(x, global_pool=True, pool_type="avg", kernel=(1, 1))
    net = sym.FullyConnected(x, num_hidden=5, name="fc")
    shapes = {"conv_weight": (4, 3, 3, 3), "conv_bias": (4,), "fc_weight": (5, 4), "fc_bias": (5,)}
    return net, {name: mx.nd.random.uniform(-1, 1, shape) for name, shape in shapes.items()}


def export(net: Any, params: Any, shapes: Any, path: Path, *extents: Any, **options: Any) -> Any:
    options |= {"dynamic_input_shapes": list(extents)} if extents else {}
    mx.onnx.export_model(net, params, shapes, np.float32, str(path), dynamic=True, **options)
    return onnx.load(str(path))


def declared(info: Any) -> list[Any]:
    return [d.dim_param or (d.dim_value if d.HasField("dim_value") else None) for d in info.type.tensor_type.shape.dim]


def check(path: Path, net: Any, params: Any, **arrays: np.ndarray) -> None:
    """ONNX Runtime and the block that is imported from the file agree with the symbol."""
    bound = net.bind(mx.cpu(), {**{n: mx.nd.array(a) for n, a in arrays.items()}, **params})
    expected = [a.asnumpy() for a in bound.forward()]
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    results: list[Any] = list(session.run(None, arrays))
    for found, other in zip(results, expected, strict=True):
        np.testing.assert_allclose(found, other, rtol=1e-4, atol=1e-5)
    block = mx.contrib.onnx.import_to_gluon(str(path), mx.cpu())
    found = block(*map(mx.nd.array, arrays.values()))
    for one, other in zip(found if isinstance(found, list) else [found], expected, strict=True):
        np.testing.assert_allclose(one.asnumpy(), other, rtol=1e-4, atol=1e-5)


def test_all_extents_vary_that_the_model_does_not_require(tmp_path: Path) -> None:
    net, params = network()
    path = tmp_path / "net.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = export(net, params, [(1, 3, 16, 16)], path)
    assert declared(model.graph.input[0]) == [None, 3, None, None] and declared(model.graph.output[0]) == [None, 5]
    assert [i.name for i in model.graph.input] == ["data"] and [o.name for o in model.graph.output] == ["fc"]
    assert {t.name for t in model.graph.initializer} == set(params)
    for shape in ((1, 3, 16, 16), (3, 3, 9, 30)):
        check(path, net, params, data=np.random.default_rng(0).standard_normal(shape).astype(np.float32))


def test_extents_have_names_and_required_ones_a_warning(tmp_path: Path) -> None:
    net, params = network()
    with pytest.warns(UserWarning, match="axis 1 of 'data' is always 3: .*is the unknown extent"):
        model = export(net, params, [(1, 3, 8, 8)], tmp_path / "net.onnx", ("batch", None, 8, "width"))
    assert declared(model.graph.input[0]) == ["batch", 3, 8, "width"]
    assert declared(model.graph.output[0]) == ["batch", 5]
    model = export(net, params, [(1, 3, 8, 8)], tmp_path / "net.onnx", (None, 3, 8, 8), run_shape_inference=True)
    assert "conv" in {info.name for info in model.graph.value_info}


def test_a_layer_after_flattening_requires_its_sizes(tmp_path: Path) -> None:
    net = sym.FullyConnected(sym.var("data"), num_hidden=2, name="fc")
    params = {"fc_weight": mx.nd.ones((2, 12)), "fc_bias": mx.nd.zeros(2)}
    model = export(net, params, [(2, 3, 4)], tmp_path / "net.onnx")
    assert declared(model.graph.input[0]) == [None, 3, 4]


def test_extents_that_must_be_equal_are_one(tmp_path: Path) -> None:
    x, y, z = map(sym.var, "xyz")
    net = sym.Group([sym.elemwise_add(x, y), sym.reshape(z, shape=(-1, 2))])
    path = tmp_path / "net.onnx"
    model = export(net, {}, [(4, 3), (4, 3), (4, 6)], path)
    first, second, third = map(declared, model.graph.input)
    assert first == second == ["x_0", "x_1"] and third == [None, None]
    one, other = np.ones((5, 7), np.float32), np.ones((3, 4), np.float32)
    check(path, net, {}, x=one, y=one * 2, z=other)


def test_sizes_that_nodes_compute(tmp_path: Path) -> None:
    """Slices, sums, ranges, sorts and pictures of other sizes, whose numbers depend on the extents."""
    x = sym.var("x")
    halves = sym.split(x, num_outputs=2, axis=1)
    parts = [
        sym.reverse(halves[0] * 2 + halves[1], axis=1),
        sym.sort(sym.mean(x, axis=0, keepdims=True)),
        sym.broadcast_like(sym.sum(x, axis=1, keepdims=True), x),
        sym.contrib.arange_like(x, axis=0),
        sym.reshape(sym.transpose(x), shape=(0, -1, 1)),
        sym.pad(sym.reshape(x, shape=(1, 1, 0, 0), reverse=True), mode="constant", pad_width=(0, 0, 0, 0, 1, 1, 2, 2)),
        sym.SequenceMask(x, use_sequence_length=False),
        sym.slice_axis(x, axis=0, begin=1, end=None),
    ]
    path = tmp_path / "net.onnx"
    model = export(sym.Group(parts), {}, [(4, 6)], path)
    assert declared(model.graph.input[0]) == [None, None]
    for shape in ((4, 6), (5, 2), (17, 8)):
        check(path, sym.Group(parts), {}, x=np.random.default_rng(1).standard_normal(shape).astype(np.float32))


def test_a_loop_has_as_many_steps_as_the_data(tmp_path: Path) -> None:
    def step(row: Any, states: Any) -> Any:
        return row + states[0], [states[0] + row]

    outputs, states = sym.contrib.foreach(step, sym.var("x"), [sym.var("s")])
    net, path = sym.Group([outputs, *states]), tmp_path / "net.onnx"
    model = export(net, {}, [(70, 3), (3,)], path, ("time", 3), (3,))
    assert declared(model.graph.input[0]) == ["time", 3]
    for steps in (70, 100):
        check(path, net, {}, x=np.ones((steps, 3), np.float32), s=np.zeros(3, np.float32))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"dynamic_input_shapes": [(None, 3)]}, "dynamic_input_shapes is specified: set dynamic=True"),
        ({"dynamic": True, "dynamic_input_shapes": []}, "has 0 shapes for the inputs"),
        ({"dynamic": True, "dynamic_input_shapes": [(None,)]}, "is not the shape"),
        ({"dynamic": True, "dynamic_input_shapes": [(None, 4)]}, "is not the shape"),
        ({"dynamic": True, "dynamic_input_shapes": [("n", "n")]}, "the extents 'n' differ: 2 and 3"),
    ],
)
def test_contradictions_are_refused(tmp_path: Path, options: Any, reason: str) -> None:
    with pytest.raises(mx.MXNetError, match=reason):
        mx.onnx.export_model(sym.relu(sym.var("x")), {}, [(2, 3)], onnx_file_path=str(tmp_path / "a.onnx"), **options)


def test_large_weights_are_in_another_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net, params = network()
    monkeypatch.setattr(exported, "_LARGEST_FILE", 700)
    path = tmp_path / "net.onnx"
    x = np.ones((1, 3, 8, 8), np.float32)
    for factor in (1, 2):
        scaled = {name: value * factor for name, value in params.items()}
        mx.onnx.export_model(net, scaled, [(1, 3, 8, 8)], onnx_file_path=str(path))
        assert len(list(tmp_path.iterdir())) == 2, "the weights of the older file are removed"
        onnx.checker.check_model(str(path))
        check(path, net, scaled, data=x)
    monkeypatch.undo()
    mx.onnx.export_model(net, params, [(1, 3, 8, 8)], onnx_file_path=str(path))
    assert list(tmp_path.iterdir()) == [path]
    check(path, net, params, data=x)


def test_names_of_outputs_are_those_of_mxnet(tmp_path: Path) -> None:
    x = sym.var("x")
    parts = sym.split(x, num_outputs=2, axis=1, name="parts")
    net = sym.Group([sym.relu(parts[0], name="act"), parts[1], x])
    path = mx.onnx.export_model(net, {}, [(1, 4)], onnx_file_path=str(tmp_path / "a.onnx"))
    names = [o.name for o in onnx.load(path).graph.output]
    assert names[:2] == ["act", "parts1"]
    options = {"state_size": 4, "num_layers": 1, "mode": "lstm", "state_outputs": True}
    rnn = sym.Group(list(sym.RNN(*map(sym.var, "xphc"), name="rnn", **options)))
    shapes = [(3, 2, 6), (192,), (1, 2, 4), (1, 2, 4)]
    path = mx.onnx.export_model(rnn, {}, shapes, onnx_file_path=str(tmp_path / "a.onnx"))
    assert [o.name for o in onnx.load(path).graph.output] == ["rnn", "rnn1", "rnn2"]
    arrays = {name: np.ones(shape, np.float32) / 8 for name, shape in zip("xphc", shapes, strict=True)}
    check(Path(path), rnn, {}, **arrays)


def test_operators_have_all_names_of_mxnet() -> None:
    assert {"identity", "null", "sum_axis", "sum", "Convolution"} <= {*mx.onnx.get_operator_support()}


def test_attention_over_texts_of_any_length(tmp_path: Path) -> None:
    """The batch and the length of both inputs are the same; a table of positions limits the length."""
    width, heads = 16, 4
    ids, kinds = sym.var("ids"), sym.var("kinds")
    embedded = sym.Embedding(ids, sym.var("words"), input_dim=50, output_dim=width)
    embedded = embedded + sym.Embedding(kinds, sym.var("types"), input_dim=2, output_dim=width)
    places = sym.Embedding(sym.contrib.arange_like(ids, axis=1), sym.var("places"), input_dim=64, output_dim=width)
    x = sym.LayerNorm(sym.broadcast_add(embedded, sym.expand_dims(places, axis=0)), sym.var("gamma"), sym.var("beta"))
    packed = sym.FullyConnected(
        sym.swapaxes(x, dim1=0, dim2=1), sym.var("w"), sym.var("b"), num_hidden=48, flatten=False
    )
    scores = sym.softmax(sym.contrib.interleaved_matmul_selfatt_qk(packed, heads=heads), axis=-1)
    mixed = sym.contrib.interleaved_matmul_selfatt_valatt(packed, scores, heads=heads)
    net = sym.slice_axis(sym.swapaxes(mixed, dim1=0, dim2=1) + x, axis=1, begin=0, end=1)
    shapes = {"words": (50, 16), "types": (2, 16), "places": (64, 16), "gamma": (16,), "beta": (16,)}
    shapes |= {"w": (48, 16), "b": (48,)}
    params = {name: mx.nd.random.uniform(-1, 1, shape) for name, shape in shapes.items()}
    path = tmp_path / "net.onnx"
    for named, extents in ((("batch", "time"), [("batch", "time")] * 2), (("ids_0", "ids_1"), [])):
        model = export(net, params, [(2, 32)] * 2, path, *extents)
        assert [tuple(declared(i)) for i in model.graph.input] == [named, named]
    for shape in ((2, 32), (1, 1), (3, 64)):
        numbers = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape)
        check(path, net, params, ids=numbers % 50, kinds=numbers % 2)
