"""Symbols beyond the recorded programs: errors, files, graphs for the compiler."""

from __future__ import annotations

import copy
import ctypes
import inspect
import json
import pickle
import threading
from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.frontend.symbol.to_graph import symbol_to_graph
from mxforge.ir.types import DType, TensorType

FIXTURES = Path(__file__).resolve().parents[1] / "data" / "fixtures"


def mlp() -> mx.sym.Symbol:
    hidden = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name="fc1")
    return mx.sym.FullyConnected(mx.sym.Activation(hidden, act_type="relu", name="act"), num_hidden=2, name="fc2")


@pytest.mark.parametrize("name", ["convnet", "mlp", "tagger"])
def test_files_are_written_back_byte_for_byte(name: str, tmp_path: Path) -> None:
    path = FIXTURES / f"{name}-symbol.json"
    symbol = mx.sym.load(str(path))
    assert symbol.tojson() == path.read_text()
    symbol.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()


def test_unknown_operators_are_listed_in_one_error() -> None:
    graph = json.loads(mlp().tojson())
    for node in graph["nodes"]:
        node["op"] = {"FullyConnected": "Mystery", "Activation": "Riddle"}.get(node["op"], node["op"])
    with pytest.raises(mx.MXNetError, match=r"(?s)Mystery: used by 'fc1', 'fc2'.*Riddle: used by 'act'"):
        mx.sym.load_json(json.dumps(graph))


def test_damaged_file_raises_the_api_error() -> None:
    with pytest.raises(mx.MXNetError, match="nodes"):
        mx.sym.load_json("{}")


def test_contradiction_names_the_node() -> None:
    with pytest.raises(mx.MXNetError, match="fc2"):
        mlp().infer_shape(data=(4, 5), fc2_weight=(2, 7))


def test_unknown_shapes_warn_by_name() -> None:
    with pytest.warns(UserWarning, match="fc1_weight"):
        assert mlp().infer_shape() == (None, None, None)


def test_copies_are_independent_and_pickles_equal() -> None:
    symbol = mlp()
    copied = copy.deepcopy(symbol)
    copied._set_attr(__mood__="dark")
    assert symbol.attr("__mood__") is None and copied.attr("__mood__") == "dark"
    assert pickle.loads(pickle.dumps(symbol)).tojson() == symbol.tojson()


def test_functions_follow_the_declaration() -> None:
    function = mx.sym.FullyConnected
    assert list(inspect.signature(function).parameters)[:4] == ["data", "weight", "bias", "num_hidden"]
    assert "linear transformation" in (function.__doc__ or "")
    weight = mx.sym.var("w")
    positional = function(mx.sym.var("data"), weight, None, 7, True, name="fc")
    assert positional.list_attr() == {"num_hidden": "7", "no_bias": "True"}
    with pytest.raises(AttributeError, match="NoSuchOperator"):
        mx.sym.NoSuchOperator  # noqa: B018
    assert {"FullyConnected", "var"} <= set(dir(mx.sym))


def test_casts_of_mixed_precision_are_left_out_of_files() -> None:
    data = mx.sym.var("data")
    cast = mx.sym.amp_cast(data, dtype="float16", name="cast")
    symbol = mx.sym.relu(cast, name="relu")
    assert "amp_cast" not in symbol.tojson()
    assert "amp_cast" in symbol.tojson(remove_amp_cast=False)
    assert symbol.get_internals().list_outputs() == ["data", "cast_output", "relu_output"]


def test_each_thread_counts_names_for_itself() -> None:
    names: list[str | None] = []

    def work() -> None:
        names.append(mx.sym.relu(mx.sym.var("x")).name)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert names == ["relu0"]


def test_graph_keeps_names_parameters_and_lines() -> None:
    symbol = mlp()
    shapes, _, _ = symbol.infer_shape(data=(4, 5))
    names = symbol.list_arguments()
    types = {n: TensorType(s, DType.F32) for n, s in zip(names, shapes or [], strict=True)}
    graph = symbol_to_graph(symbol, types, parameters=[n for n in names if n != "data"])
    assert [v.name for v in graph.inputs] == names
    assert graph.parameters == {1, 2, 3, 4}
    assert [n.name for n in graph.nodes] == ["fc1", "act", "fc2"]
    assert all(Path(__file__).name in n.location for n in graph.nodes)
    assert graph.output_types() == (TensorType((4, 2), DType.F32),)


def test_reshape_shares_memory_and_grows_only_when_allowed() -> None:
    executor = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="f").simple_bind(mx.cpu(), data=(4, 3))
    executor.arg_dict["data"][:] = mx.nd.arange(12).reshape((4, 3))
    smaller = executor.reshape(data=(2, 3))
    assert np.array_equal(smaller.arg_dict["data"].asnumpy(), np.arange(6).reshape(2, 3))
    assert smaller.arg_dict["f_weight"] is executor.arg_dict["f_weight"]
    with pytest.raises(mx.MXNetError, match="New shape of arg: data is larger than original"):
        smaller.reshape(data=(4, 3))
    assert smaller.reshape(allow_up_sizing=True, data=(4, 3)).outputs[0].shape == (4, 2)
    with pytest.raises(mx.MXNetError, match="Shape of unspecified arg f_weight changed"):
        executor.reshape(data=(2, 5))
    with pytest.raises(mx.MXNetError, match="New shape of arg: f_weight"):
        executor.reshape(partial_shaping=True, data=(2, 5))


def test_executor_errors_describe_the_problem() -> None:
    executor = mlp().simple_bind(mx.cpu(), data=(4, 5))
    with pytest.raises(ValueError, match="Shape not match"):
        executor.forward(data=mx.nd.zeros((3, 5)))
    with pytest.raises(TypeError, match="Unknown argument"):
        executor.forward(date=mx.nd.zeros((4, 5)))
    with pytest.raises(mx.MXNetError, match="fc2_output is no loss: out_grads must have its gradient"):
        executor.backward()
    with pytest.raises(mx.MXNetError, match=r"the gradient of fc2_output has the shape \(1, 2\)"):
        executor.backward(mx.nd.ones((1, 2)))
    with pytest.raises(ValueError, match="fc1_bias"):
        mlp().bind(mx.cpu(), {"data": mx.nd.zeros((4, 5)), "fc1_weight": mx.nd.zeros((3, 5))})


def test_executor_sees_writes_to_its_arguments() -> None:
    executor = mlp().simple_bind(mx.cpu(), data=(1, 2), grad_req="null")
    for array in executor.arg_dict.values():
        array[:] = 1
    assert executor.forward()[0].asnumpy().tolist() == [[10.0, 10.0]]
    executor.arg_dict["fc2_weight"][:] = 2
    assert executor.forward()[0].asnumpy().tolist() == [[19.0, 19.0]]
    executor.copy_params_from({"fc2_bias": mx.nd.array([0, 5])})
    assert executor.forward()[0].asnumpy().tolist() == [[18.0, 23.0]]


def test_training_mode_of_an_executor() -> None:
    symbol = mx.sym.Dropout(mx.sym.var("x"), p=0.5)
    executor = symbol.bind(mx.cpu(), {"x": mx.nd.ones((64, 64))})
    kept = executor.forward(is_train=True)[0].asnumpy()
    assert set(np.unique(kept)) == {0.0, 2.0}
    assert not np.array_equal(executor.forward(is_train=True)[0].asnumpy(), kept)
    assert executor.forward()[0].asnumpy().min() == 1


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(mx.MXNetError, match=r"nothing\.json"):
        mx.sym.load(str(tmp_path / "nothing.json"))


def test_operators_convert_attributes_to_strings_and_variables_require_strings() -> None:
    attr: Any = {"__lr_mult__": 2}
    made = mx.sym.relu(mx.sym.var("x"), attr=attr)
    assert made.attr("__lr_mult__") == "2"
    with pytest.raises(ValueError, match="only accepts string values"):
        mx.sym.var("x", attr=attr)


def test_the_current_scopes_are_deprecated_names() -> None:
    with mx.AttrScope(a="b") as scope, pytest.warns(DeprecationWarning, match="AttrScope.current"):
        assert mx.AttrScope.current is scope
    with mx.name.Prefix("p_") as manager, pytest.warns(DeprecationWarning, match="NameManager.current"):
        assert mx.name.Prefix.current is manager
    own = mx.name.NameManager()
    before = mx.name.current_manager()
    mx.name.NameManager.current = own
    try:
        assert mx.name.current_manager() is own
    finally:
        mx.name.NameManager.current = before


def test_backends_are_accepted_and_unknown_ones_reported(caplog: pytest.LogCaptureFixture) -> None:
    net: Any = mx.sym.FullyConnected(mx.sym.var("x"), num_hidden=3, name="fc")
    assert net.optimize_for("MKLDNN").tojson() == net.tojson() and not caplog.records
    assert net.optimize_for("other").tojson() == net.tojson()
    assert "'other' cannot be found" in caplog.text
    assert isinstance(net.handle, ctypes.c_void_p) and net.handle.value
    assert type(net.as_np_ndarray().as_nd_ndarray()) is type(net)


def test_an_executor_shows_its_optimized_symbol_and_keeps_its_monitor() -> None:
    net: Any = mx.sym.FullyConnected(mx.sym.var("x"), num_hidden=3, name="fc")
    executor = net.simple_bind(mx.cpu(), x=(4, 2))
    assert executor.get_optimized_symbol().tojson() == net.tojson()
    names: list[bytes] = []
    executor.set_monitor_callback(lambda name, array: names.append(name))
    smaller = executor.reshape(x=(2, 2))
    assert smaller.forward()[0].shape == (2, 3) and names == [b"fc_output"]
    with pytest.raises(TypeError, match="ctx"):
        net.simple_bind("cpu", x=(4, 2))


def test_an_operator_without_its_inputs() -> None:
    """`_gen_atomic_symbol`, with which wrappers of operators insert casts. Recorded from MXNet 1.9.1."""
    dense: Any = mx.sym.FullyConnected(mx.sym.var("a"), num_hidden=3, name="fc", attr={"__mood__": "calm"})
    atomic = dense._gen_atomic_symbol()
    assert (atomic.name, atomic.list_inputs(), atomic.list_outputs()) == ("", [], ["output"])
    assert atomic.list_attr() == {"num_hidden": "3", "__mood__": "calm"}
    again = atomic(*dense.get_children())
    again._set_attr(name="fc")
    assert again.name == again.attr("name") == "fc" and again.tojson() == dense.tojson()
    assert atomic(data=mx.sym.var("q"), name="new").list_arguments() == ["q", "new_weight", "new_bias"]
    split: Any = mx.sym.split(mx.sym.var("a"), num_outputs=3)
    assert split[1]._gen_atomic_symbol()(mx.sym.var("b")).list_outputs() == ["output0", "output1", "output2"]
    norm: Any = mx.sym.BatchNorm(mx.sym.var("a"), name="bn")
    made = norm._gen_atomic_symbol()(*norm.get_children())
    assert made.list_auxiliary_states() == ["bn_moving_mean", "bn_moving_var"]
    joined: Any = mx.sym.concat(dense, dense)
    for wrong in (lambda: atomic(dense, dense, dense, dense), lambda: joined._gen_atomic_symbol()(dense)):
        with pytest.raises(mx.MXNetError, match=r"inputs|num_args=2"):
            wrong()
    for several in (mx.sym.Group([dense, split]), mx.sym.var("a")):
        with pytest.raises(mx.MXNetError, match="only works for nongrouped symbol"):
            several._gen_atomic_symbol()
