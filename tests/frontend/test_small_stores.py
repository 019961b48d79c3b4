"""Tests of mx.kv, mx.operator, mx.rtc and mx.library beyond the recorded programs."""

from __future__ import annotations

from pathlib import Path

import mxforge as mx
import numpy as np
import pytest


@pytest.mark.parametrize("kind", ["dist_sync", "dist_async", "nccl", "horovod", "byteps", "p3"])
def test_stores_of_several_machines_say_so(kind: str) -> None:
    with pytest.raises(mx.MXNetError, match=f"kvstore '{kind}' is not in mxforge, which has stores of one machine"):
        mx.kv.create(kind)


def test_unknown_stores_and_servers() -> None:
    with pytest.raises(mx.MXNetError, match="'nearby' is unknown: use one of local, device"):
        mx.kv.create("nearby")
    with pytest.raises(mx.MXNetError, match="no server"):
        mx.kvstore.KVStoreServer(None)


def test_an_updater_may_come_later() -> None:
    store = mx.kv.create()
    store.init(1, mx.nd.zeros((2,)))
    store.push(1, mx.nd.ones((2,)))
    store._set_updater(lambda key, gradient, value: value.__iadd__(gradient * 10))
    store.push(1, mx.nd.ones((2,)))
    out = mx.nd.zeros((2,))
    store.pull(1, out=out)
    assert out.asnumpy().tolist() == [11, 11]


def test_what_was_pushed_and_pulled_is_nobody_elses() -> None:
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


def test_custom_operators_are_found_by_name() -> None:
    @mx.operator.register("of_a_test")
    class Prop(mx.operator.CustomOpProp):
        pass

    assert mx.operator.custom_property("of_a_test") is Prop
    with pytest.raises(mx.MXNetError, match=r"op_type 'other' is not registered with mx.operator.register"):
        mx.operator.custom_property("other")
    with pytest.raises(TypeError, match="no subclass of CustomOpProp"):
        mx.operator.register("wrong")(dict)  # type: ignore[type-var]


def test_old_operators_in_python_are_not_run() -> None:
    old = mx.operator.NDArrayOp()
    out = [np.zeros(2)]
    old.forward([np.ones(2)], out)
    assert out[0].tolist() == [1, 1] and old.declare_backward_dependency([0], [1], [2]) == [0, 1, 2]
    with pytest.raises(mx.MXNetError, match="write a CustomOp"):
        mx.operator.NumpyOp()(mx.sym.var("x"))


def test_no_foreign_code_is_loaded(tmp_path: Path) -> None:
    with pytest.raises(mx.MXNetError, match="CUDA"):
        mx.rtc.CudaModule("__global__ void f() {}")
    path = tmp_path / "library.so"
    with pytest.raises(mx.MXNetError, match="does NOT exist"):
        mx.library.load(str(path))
    path.write_text("")
    with pytest.raises(mx.MXNetError, match=r"headers and cannot run"):
        mx.library.load(str(path))
    (tmp_path / "library.txt").write_text("")
    with pytest.raises(mx.MXNetError, match="is NOT a library file"):
        mx.library.load(str(tmp_path / "library.txt"))
