"""Operators that users write in Python: eager calls, symbols, hybridized blocks, states and errors."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.ir.settings import settings

nd: Any = mx.nd  # users' operators have arbitrary parameters
sym: Any = mx.sym
made: list[Any] = []


class Scale(mx.operator.CustomOp):
    """Multiplies, counts its calls, and records training mode."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor, self.calls = factor, 0
        made.append(self)

    def forward(self, is_train: bool, req: list[str], in_data: Any, out_data: Any, aux: Any) -> None:
        self.calls += 1
        if in_data[0].asnumpy().min() < 0:
            raise KeyError("below zero")
        self.assign(out_data[0], req[0], in_data[0] * self.factor + in_data[1])
        self.assign(out_data[1], req[1], nd.full((1,), float(is_train)))
        aux[0][:] = aux[0] + in_data[0].sum()


@mx.operator.register("test_scale")
class ScaleProp(mx.operator.CustomOpProp):
    """One parameter, two inputs, two outputs and a state."""

    def __init__(self, factor: str = "2") -> None:
        super().__init__(need_top_grad=True)
        self.factor = float(factor)

    def list_arguments(self) -> list[str]:
        return ["data", "bias"]

    def list_outputs(self) -> list[str]:
        return ["scaled", "mode"]

    def list_auxiliary_states(self) -> list[str]:
        return ["total"]

    def infer_shape(self, in_shape: Any) -> Any:
        return [in_shape[0], in_shape[0]], [in_shape[0], (1,)], [(1,)]

    def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> Scale:
        assert isinstance(ctx, mx.Context)
        assert in_shapes[0] == in_shapes[1]
        return Scale(self.factor)


X, BIAS = np.array([[1, 2], [3, 4]], np.float32), np.full((2, 2), 0.5, np.float32)


def test_a_single_call() -> None:
    total = nd.zeros(1)
    for factor in (2, "2", 3.0):
        scaled, mode = nd.Custom(nd.array(X), nd.array(BIAS), total, op_type="test_scale", factor=factor)
        assert (scaled.asnumpy() == X * float(factor) + 0.5).all()
        assert mode.asscalar() == 0
    assert total.asscalar() == 30
    with mx.autograd.train_mode():
        assert nd.Custom(nd.array(X), nd.array(BIAS), total, op_type="test_scale")[1].asscalar() == 1
    assert made[-1].calls == 1


def test_a_symbol() -> None:
    data: Any = mx.sym.var("data")
    symbol = sym.Custom(data=data * 2, op_type="test_scale", factor=3, name="sc")
    assert symbol.list_arguments() == ["data", "sc_bias"]
    assert symbol.list_outputs() == ["sc_scaled", "sc_mode"]
    assert symbol.list_auxiliary_states() == ["sc_total"]
    assert symbol.infer_shape(data=(2, 2)) == ([(2, 2), (2, 2)], [(2, 2), (1,)], [(1,)])
    again = mx.sym.load_json((symbol[0] + 1).tojson())
    executor = again.simple_bind(mx.cpu(), data=(2, 2))
    executor.arg_dict["sc_bias"][:] = nd.array(BIAS)
    count = len(made)
    for run in range(1, 4):
        assert (executor.forward(data=nd.array(X))[0].asnumpy() == X * 6 + 1.5).all()
        assert executor.aux_dict["sc_total"].asscalar() == 20 * run
    assert len(made) == count + 1  # the operator is created once for the program
    assert made[-1].calls == 3


class Net(mx.gluon.HybridBlock):
    """A user's operator between other operators, with a parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = self.params.get("bias", shape=(2, 2), init="ones")
        self.total = self.params.get("total", shape=(1,), init="zeros", grad_req="null")

    def hybrid_forward(self, F: Any, x: Any, bias: Any, total: Any) -> Any:
        return F.exp(F.Custom(F.relu(x) + 1, bias, total, op_type="test_scale")[0] * 0.1)


def test_a_hybridized_block() -> None:
    net = Net()
    net.initialize()
    single = net(nd.array(X)).asnumpy()
    np.testing.assert_allclose(single, np.exp(((X + 1) * 2 + 1) * 0.1), 1e-6)
    net.hybridize()
    for _ in range(3):
        np.testing.assert_allclose(net(nd.array(X)).asnumpy(), single, 1e-6)
    assert net.total.data().asscalar() == 4 * 14


def test_an_error_reaches_the_caller_and_the_next_call_works() -> None:
    symbol = sym.Custom(mx.sym.var("x"), mx.sym.var("b"), mx.sym.var("t"), op_type="test_scale")[0] + 1
    executor = symbol.bind(mx.cpu(), {"x": nd.array(-X), "b": nd.array(BIAS)}, aux_states={"t": nd.zeros(1)})
    for _ in range(2):
        with pytest.raises(mx.MXNetError, match="forward raised KeyError: 'below zero'") as caught:
            executor.forward(x=nd.array(-X))
        assert isinstance(caught.value.__cause__, KeyError)
        assert (executor.forward(x=nd.array(X))[0].asnumpy() == X * 2 + 1.5).all()
    with pytest.raises(mx.MXNetError, match="forward raised KeyError: 'below zero'") as caught:
        nd.Custom(nd.array(-X), nd.array(BIAS), nd.zeros(1), op_type="test_scale")
    frames = traceback.extract_tb(caught.value.__cause__.__traceback__)  # type: ignore[union-attr]
    assert frames[-1].filename == __file__


METHODS = ("__init__", "list_arguments", "infer_shape", "infer_type", "create_operator", "forward")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("error", [ValueError("my text"), StopIteration("my text")], ids=lambda e: type(e).__name__)
def test_an_exception_of_a_method_becomes_an_mxnet_error(method: str, error: Exception) -> None:
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise error

    class Operator(mx.operator.CustomOp):
        forward = fail

    class Prop(mx.operator.CustomOpProp):
        def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> Any:
            return Operator()

    if method != "forward":
        setattr(Prop, method, fail)
    mx.operator.register("test_failing")(Prop)
    with pytest.raises(mx.MXNetError, match=f"{type(error).__name__}: my text"):
        nd.Custom(nd.ones((2, 2)), op_type="test_failing")
    with pytest.raises(RuntimeError, match=f"{type(error).__name__}: my text") as caught:
        sym.Custom(sym.var("data"), op_type="test_failing").simple_bind(mx.cpu(), data=(2, 2)).forward()
    causes: list[BaseException] = [caught.value]
    while causes[-1].__cause__ is not None:
        causes.append(causes[-1].__cause__)
    assert causes[-1] is error  # the user's traceback is shown


class Wrong(mx.operator.CustomOpProp):
    """A property whose `infer_shape` returns two output shapes for one output."""

    def infer_shape(self, in_shape: Any) -> Any:
        return [in_shape[0]], [in_shape[0], in_shape[0]]


def test_errors_name_the_wrong_method_of_a_property() -> None:
    mx.operator.register("test_wrong")(Wrong)
    with pytest.raises(mx.base.MXNetError, match="infer_shape returned 2 outputs, but there are 1"):
        nd.Custom(nd.ones(2), op_type="test_wrong")
    with pytest.raises(mx.base.MXNetError, match="'test_nothing' is not registered"):
        nd.Custom(nd.ones(2), op_type="test_nothing")
    with pytest.raises(mx.base.MXNetError, match="unexpected keyword argument 'colour'"):
        nd.Custom(nd.ones(2), op_type="test_scale", colour=1)
    with pytest.raises(mx.base.MXNetError, match="takes 3 arrays"):
        nd.Custom(nd.ones(2), op_type="test_scale")


class Plain(mx.operator.CustomOpProp):
    """One input, one output, no parameters."""

    sign = 1

    def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> Any:
        sign = self.sign

        class Op(mx.operator.CustomOp):
            def forward(self, is_train: bool, req: list[str], in_data: Any, out_data: Any, aux: Any) -> None:
                self.assign(out_data[0], req[0], in_data[0] * sign)

        return Op()


class Negative(Plain):
    """The same, with the opposite sign."""

    sign = -1


def test_a_name_that_is_registered_again() -> None:
    for prop, wanted in ((Plain, 1), (Negative, -1), (Plain, 1)):
        mx.operator.register("test_plain")(prop)
        assert nd.Custom(nd.ones(1), op_type="test_plain").asscalar() == wanted


@pytest.mark.skipif(settings().target == "reference", reason="the reference keeps bfloat16 as float32")
def test_a_bfloat16_input_is_read_and_its_result_is_float32() -> None:
    mx.operator.register("test_plain")(Plain)
    found = nd.Custom(nd.array([1, 2.5, 3]).astype("bfloat16"), op_type="test_plain")
    assert found.dtype == np.float32
    assert found.asnumpy().tolist() == [1, 2.5, 3]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "uint8"])
def test_dtypes_pass_through(dtype: str) -> None:
    mx.operator.register("test_plain")(Plain)
    found = nd.Custom(nd.array([1, 2, 3]).astype(dtype), op_type="test_plain")
    assert found.dtype == nd.zeros(1, dtype=dtype).dtype
    assert found.asnumpy().astype("float32").tolist() == [1, 2, 3]


def test_a_compiled_folder_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from mxforge.tools.main import main

    mx.operator.register("test_plain")(Plain)
    symbol = sym.Custom(mx.sym.var("data"), op_type="test_plain", name="mine")
    symbol.save(str(tmp_path / "m-symbol.json"))
    nd.save(str(tmp_path / "m-0000.params"), {})
    model = str(tmp_path / "m-symbol.json")
    status = main(["compile", model, "--input-shape", "data=2,3", "-o", str(tmp_path / "out")])
    assert status != 0
    assert "calls Python functions" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


class OldSoftmax(mx.operator.NumpyOp):
    """The operator of MXNet's first examples."""

    def list_arguments(self) -> list[str]:
        return ["data", "label"]

    def infer_shape(self, in_shape: Any) -> Any:
        return [in_shape[0], (in_shape[0][0],)], [in_shape[0]]

    def forward(self, in_data: Any, out_data: Any) -> None:
        x, y = in_data[0], out_data[0]
        y[:] = np.exp(x - x.max(axis=1)[:, None])
        y /= y.sum(axis=1)[:, None]


class OldTwice(mx.operator.NDArrayOp):
    """The same interface for NDArrays."""

    def forward(self, in_data: Any, out_data: Any) -> None:
        out_data[0][:] = in_data[0] * 2


def test_the_predecessors_of_custom_operators() -> None:
    data: Any = mx.sym.var("data")
    symbol = OldSoftmax()(data=OldTwice()(data), name="softmax")
    assert symbol.list_arguments() == ["data", "softmax_label"]
    executor = symbol.simple_bind(mx.cpu(), data=(2, 2))
    wanted = np.exp(2 * X) / np.exp(2 * X).sum(1, keepdims=True)
    np.testing.assert_allclose(executor.forward(data=nd.array(X))[0].asnumpy(), wanted, 1e-5)


@pytest.mark.parametrize("hybridize", [False, True])
def test_bfloat16(hybridize: bool) -> None:
    """Operands, results and gradients in bfloat16; a program passes float32 to the methods' arrays."""

    @mx.operator.register("bfloat_twice")
    class Prop(mx.operator.CustomOpProp):
        def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> mx.operator.CustomOp:
            return Twice()

    class Twice(mx.operator.CustomOp):
        def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
            self.assign(out_data[0], req[0], in_data[0] * 2)

        def backward(self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
            self.assign(in_grad[0], req[0], out_grad[0] * 2)

    net = mx.gluon.nn.HybridLambda(
        lambda F, x: F.cast(F.Custom(F.cast(x, dtype="bfloat16"), op_type="bfloat_twice"), dtype="float32")
    )
    net.hybridize(hybridize)
    x: Any = mx.nd.array([1, 2.2])
    x.attach_grad()
    with mx.autograd.record():
        y = net(x)
    y.backward()
    assert y.asnumpy().tolist() == [2, 4.40625] and x.grad.asnumpy().tolist() == [2, 2]
