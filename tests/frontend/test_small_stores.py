"""mx.kv, mx.operator, mx.rtc and mx.library beyond the recorded programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import pytest


@pytest.mark.parametrize("kind", ["byteps"])
def test_stores_that_raise(kind: str) -> None:
    with pytest.raises(mx.MXNetError, match=f"kvstore '{kind}' is not in mxforge: use 'dist_sync'"):
        mx.kv.create(kind)


def test_unknown_stores_and_servers() -> None:
    with pytest.raises(mx.MXNetError, match="'nearby' is unknown: use one of local, device"):
        mx.kv.create("nearby")
    with pytest.raises(mx.MXNetError, match="no server"):
        mx.kvstore.KVStoreServer(None)


def test_an_updater_can_be_set_later() -> None:
    store = mx.kv.create()
    store.init(1, mx.nd.zeros((2,)))
    store.push(1, mx.nd.ones((2,)))
    store._set_updater(lambda key, gradient, value: value.__iadd__(gradient * 10))
    store.push(1, mx.nd.ones((2,)))
    out = mx.nd.zeros((2,))
    store.pull(1, out=out)
    assert out.asnumpy().tolist() == [11, 11]


def test_pushed_and_pulled_arrays_are_copies() -> None:
    store, value, out = mx.kv.create(), mx.nd.ones((2,)), mx.nd.zeros((2,))
    store.init("a", value)
    value += 5
    store.pull("a", out=out)
    assert out.asnumpy().tolist() == [1, 1]
    out += 3
    store.push("a", value)
    value += 1
    store.pull("a", out=out)
    assert out.asnumpy().tolist() == [6, 6]


def test_updates_by_a_store_or_after_it() -> None:
    params = {"w": mx.nd.zeros((2,)), "b": mx.nd.ones((1,))}
    assert mx.model._create_kvstore("local", 1, params) == (None, False)
    assert mx.model._create_kvstore(None, 2, params) == (None, False)
    with pytest.raises(TypeError, match="KVStore, str or None"):
        mx.model._create_kvstore(3, 2, params)
    devices = [[a.copy() for _ in range(2)] for a in params.values()]
    grads: list[list[mx.nd.NDArray]] = [[mx.nd.ones((2,)) * i for i in (1, 2)], [mx.nd.ones((1,)) * 5] * 2]
    seen: list[int] = []

    def step(indices: list[int], gradients: list[mx.nd.NDArray], weights: list[mx.nd.NDArray]) -> None:
        seen.extend(indices)
        for weight, gradient in zip(weights, gradients, strict=True):
            weight -= gradient

    for own in (True, False):
        store, updates = mx.model._create_kvstore("device", 2, params)
        assert updates
        mx.model._initialize_kvstore(store, devices, params, list(params), own)
        if own:
            store._set_updater(lambda key, gradient, value: value.__isub__(gradient))
            mx.model._update_params_on_kvstore(devices, grads, store, list(params))
        else:
            mx.model._update_params(devices, grads, step, 2, store, list(params))
            assert seen == [0, 2, 1, 3]
    found = [[a.asnumpy().tolist() for a in of_one] for of_one in devices]
    assert found == [[[-6, -6]] * 2, [[-19]] * 2]


def test_large_parameters_are_updated_by_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    assert mx.model._create_kvstore("local", 2, {"w": mx.nd.zeros((1,))})[1]
    monkeypatch.setattr("mxforge.frontend.parameter_updates._LARGE", 4)
    assert not mx.model._create_kvstore("local", 2, {"w": mx.nd.zeros((5,))})[1]
    assert mx.model._create_kvstore("device", 2, {"w": mx.nd.zeros((5,))})[1]
    monkeypatch.setenv("MXNET_UPDATE_ON_KVSTORE", "0")
    assert not mx.model._create_kvstore("device", 2, {"w": mx.nd.zeros((5,))})[1]


def test_notebooks_and_borrowed_names() -> None:
    with pytest.raises(mx.MXNetError, match=r"PandasLogger is not in mxforge: use mx.callback"):
        mx.notebook.callback.PandasLogger(batch_size=3)
    model: Any = mx.model
    module: Any = mx.module.module
    assert module.nd is mx.nd and model.kvs is mx.kv
    with pytest.raises(AttributeError, match="'nonsense'"):
        model.nonsense  # noqa: B018


def test_custom_operators_are_found_by_name() -> None:
    @mx.operator.register("of_a_test")
    class Prop(mx.operator.CustomOpProp):
        pass

    assert mx.operator.custom_property("of_a_test") is Prop
    with pytest.raises(mx.MXNetError, match=r"op_type 'other' is not registered with mx.operator.register"):
        mx.operator.custom_property("other")
    with pytest.raises(TypeError, match="not a subclass of CustomOpProp"):
        mx.operator.register("wrong")(dict)  # type: ignore[type-var]


def test_old_operators_in_python() -> None:
    old = mx.operator.NDArrayOp()
    out = [np.zeros(2)]
    old.forward([np.ones(2)], out)
    assert out[0].tolist() == [1, 1] and old.declare_backward_dependency([0], [1], [2]) == [0, 1, 2]
    with pytest.raises(NotImplementedError):
        mx.operator.PythonOp()(mx.sym.var("x"))


def test_no_foreign_code_is_loaded(tmp_path: Path) -> None:
    with pytest.raises(mx.MXNetError, match="CUDA"):
        mx.rtc.CudaModule("__global__ void f() {}")
    path = tmp_path / "library.so"
    with pytest.raises(mx.MXNetError, match="does NOT exist"):
        mx.library.load(str(path))
    path.write_text("")
    with pytest.raises(mx.MXNetError, match=r"headers and mxforge cannot load it"):
        mx.library.load(str(path))
    (tmp_path / "library.txt").write_text("")
    with pytest.raises(mx.MXNetError, match="is NOT a library file"):
        mx.library.load(str(tmp_path / "library.txt"))
