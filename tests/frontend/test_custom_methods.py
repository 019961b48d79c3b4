"""How methods of operators that users write in Python are called, in every form. What they get was recorded from MXNet
1.9.1."""

from __future__ import annotations

from typing import Any

import mxforge as mx
import numpy as np
import pytest
from custom_operators import (
    FORMS,
    autograd,
    forget,  # noqa: F401 (a fixture)
    nd,
    register,
    run,
    seen,
    sym,
)

X = np.array([[1, -2, 3], [0, 1, 2]], np.float32)


# --- how methods are called -----------------------------------------------------------------------------------------


@register("form_keywords")
class Keywords(mx.operator.CustomOp):
    """Its methods have their arguments in another order, or take any."""

    def forward(self, in_data: Any, out_data: Any, is_train: bool, req: Any, aux: Any) -> None:  # type: ignore[override]
        out_data[0][:] = in_data[0] * 3

    def backward(self, **named: Any) -> None:  # type: ignore[override]
        seen.append(sorted(named))
        named["in_grad"][0][:] = named["out_grad"][0] * 3


@pytest.mark.parametrize("form", FORMS)
def test_methods_are_called_by_keywords(form: str) -> None:
    x = nd.array(X)
    (y,) = run(form, lambda F, x: F.Custom(x, op_type="form_keywords"), x, head=nd.ones((2, 3)))
    assert y.asnumpy().tolist() == (X * 3).tolist()
    assert x.grad.asnumpy().tolist() == [[3] * 3] * 2
    assert seen[-1] == ["aux", "in_data", "in_grad", "out_data", "out_grad", "req"]


TEXTS = {
    "[16]": [16],
    "(16,)": (16,),
    "[[1, 2], [3]]": [[1, 2], [3]],
    "((1, 2), (3,))": ((1, 2), (3,)),
    "1.5": np.float32(1.5),
    "[1.5]": [np.float32(1.5)],
    "(3, 2)": (np.int64(3), 2),
    "{'a': 1.5}": {"a": np.float32(1.5)},
    "[True, None, 'x']": [np.bool_(True), None, "x"],
    "[1.5 2. ]": np.array([1.5, 2]),
    "<class 'numpy.float32'>": np.float32,
    "float32": np.dtype("float32"),
    "None": None,
    "1e-05": 1e-5,
}


@pytest.mark.parametrize(("text", "value"), TEXTS.items(), ids=str)
def test_parameters_are_texts(text: str, value: Any) -> None:
    register("form_texts")(Described)
    nd.Custom(nd.ones(1), op_type="form_texts", value=value)
    symbol = sym.Custom(sym.var("x"), op_type="form_texts", value=value)
    assert symbol.attr("value") == text
    mx.sym.load_json(symbol.tojson()).bind(mx.cpu(), {"x": nd.ones(1)}).forward()
    assert [entry for entry in seen if isinstance(entry, dict)] == [{"value": text}] * 2


class Described(mx.operator.CustomOp):
    """Reports its parameters."""

    def forward(self, is_train: bool, req: list[str], in_data: Any, out_data: Any, aux: Any) -> None:
        seen.append(self.parameters)  # type: ignore[attr-defined]


@register("form_assigning")
class Assigning(mx.operator.CustomOp):
    """Writes to its input."""

    def forward(self, is_train: bool, req: list[str], in_data: Any, out_data: Any, aux: Any) -> None:
        in_data[0][0] = 7
        self.assign(out_data[0], req[0], in_data[0])

    def backward(self, req: list[str], out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
        self.assign(in_grad[0], req[0], in_data[0])


@pytest.mark.parametrize("form", FORMS)
def test_forward_writes_to_its_input(form: str) -> None:
    x = nd.array(X)
    (y,) = run(form, lambda F, x: F.Custom(x, op_type="form_assigning"), x, head=nd.ones((2, 3)))
    expected = [[7, 7, 7], [0, 1, 2]]
    assert x.asnumpy().tolist() == y.asnumpy().tolist() == x.grad.asnumpy().tolist() == expected


# --- which operator runs, and when ----------------------------------------------------------------------------------


@register("form_tracked")
class Tracked(mx.operator.CustomOp):
    """Counts the runs of this operator."""

    runs = 0

    def forward(self, is_train: bool, req: list[str], in_data: Any, out_data: Any, aux: Any) -> None:
        self.runs += 1
        seen.append((self.parameters["tag"], self.runs))  # type: ignore[attr-defined]
        self.assign(out_data[0], req[0], in_data[0] * self.runs)

    def backward(self, req: list[str], out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
        seen.append((self.parameters["tag"], -self.runs))  # type: ignore[attr-defined]
        self.assign(in_grad[0], req[0], out_grad[0] * self.runs)


def branches(F: Any, x: Any) -> Any:
    first = F.Custom(x, op_type="form_tracked", tag="a")
    second = F.Custom(x, op_type="form_tracked", tag="b")
    return second + first + F.Custom(first, op_type="form_tracked", tag="c")


def test_each_eager_call_creates_a_property_and_an_operator() -> None:
    for _ in range(2):
        nd.Custom(nd.ones(1), op_type="form_tracked", tag="a")
    assert seen == ["property", "operator", ("a", 1)] * 2


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("static", [False, True])
def test_a_hybridized_block_calls_in_the_order_of_the_program(training: bool, static: bool) -> None:
    net: Any = mx.gluon.nn.HybridLambda(branches)
    net.hybridize(static_alloc=static, static_shape=static)
    x = nd.ones(1)
    x.attach_grad()
    for count in (1, 2):
        with autograd.record() if training else autograd.pause():
            y = net(x)
        runs = count if static else 1
        calls = [entry for entry in seen if isinstance(entry, tuple)]
        assert calls == [("a", runs), ("b", runs), ("c", runs)]
        assert seen.count("property") == (3 if count == 1 else 0)
        assert seen.count("operator") == (0 if static and count == 2 else 3)
        seen.clear()
        if training:
            y.backward()
            assert seen == [("c", -runs), ("b", -runs), ("a", -runs)]
            seen.clear()


def test_a_bound_symbol_has_one_operator_for_each_node() -> None:
    symbol = branches(sym, sym.var("x"))
    executors = [symbol.simple_bind(mx.cpu(), x=(1,)) for _ in range(2)]
    assert seen.count("property") == 3
    for count, training in enumerate((True, False, True), 1):
        seen.clear()
        for e in executors:
            e.forward(is_train=training)
        assert [entry for entry in seen if isinstance(entry, tuple)] == [("a", count), ("b", count), ("c", count)] * 2


@pytest.mark.parametrize("form", ["eager", "hybridized", "static"])
def test_two_recorded_runs_have_operators_of_their_own(form: str) -> None:
    register("form_remembering")(Remembering)
    net: Any = mx.gluon.nn.HybridLambda(lambda F, x: F.Custom(x * 1, op_type="form_remembering"))
    if form != "eager":
        net.hybridize(static_alloc=form == "static", static_shape=form == "static")
    for _ in range(2):
        arrays = [nd.array(X), nd.array(X * 10)]
        for x in arrays:
            x.attach_grad()
        with autograd.record():
            results = [net(x) for x in arrays]
        autograd.backward(results)
        for x in arrays:
            assert (x.grad.asnumpy() == x.asnumpy()).all()


class Remembering(mx.operator.CustomOp):
    """Its gradient is what its forward stored."""

    def forward(self, is_train: bool, req: list[str], in_data: Any, out_data: Any, aux: Any) -> None:
        self.kept = in_data[0].copy()
        self.assign(out_data[0], req[0], in_data[0])

    def backward(self, req: list[str], out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
        self.assign(in_grad[0], req[0], self.kept)


# --- dtypes, storage types, several outputs, errors -----------------------------------------------------------------


@register(
    "form_half",
    arguments=["a", "b"],
    outputs=["x", "y"],
    infer_type=lambda self, t: ([t[0], t[0]], [np.float32, t[0]], []),
)
class Half(mx.operator.CustomOp):
    """float16 in, float32 and float16 out."""

    def forward(self, is_train: bool, req: list[str], in_data: Any, out_data: Any, aux: Any) -> None:
        out_data[0][:] = (in_data[0] * in_data[1]).astype("float32")
        out_data[1][:] = in_data[0] + in_data[1]

    def backward(self, req: list[str], out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
        seen.append([np.dtype(a.dtype).name for a in (*out_grad, *in_data, *out_data, *in_grad)])
        for i in range(2):
            self.assign(in_grad[i], req[i], out_grad[0].astype("float16") * in_data[1 - i] + out_grad[1])


@pytest.mark.parametrize("form", ["eager", "hybridized", "static"])
def test_dtypes_of_outputs_and_gradients(form: str) -> None:
    a, b = nd.array(X, dtype="float16"), nd.array(X + 1, dtype="float16")
    x, y = run(form, lambda F, a, b: F.Custom(a, b, op_type="form_half"), a, b)
    assert (x.dtype, y.dtype, a.grad.dtype) == (np.float32, np.float16, np.float16)
    assert a.grad.asnumpy().tolist() == (X + 2).tolist()
    assert seen[-1] == ["float32", *["float16"] * 3, "float32", *["float16"] * 3]
    with pytest.raises(mx.MXNetError, match="Type inconsistent for b, Provided = float64, inferred type = float16"):
        nd.Custom(a, b.astype("float64"), op_type="form_half")


@register(
    "form_sparse",
    infer_storage_type=lambda self, in_stype: (in_stype, in_stype, []),
    infer_storage_type_backward=lambda self, *stypes: (*stypes[:3], stypes[1], []),
)
class Squared(mx.operator.CustomOp):
    """Squares the stored elements of a sparse array."""

    def forward(self, is_train: bool, req: list[str], in_data: Any, out_data: Any, aux: Any) -> None:
        x = in_data[0]
        assert x.stype == out_data[0].stype == "csr"
        out_data[0][:] = mx.nd.sparse.csr_matrix((x.data * x.data, x.indices, x.indptr), shape=x.shape)

    def backward(self, req: list[str], out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
        seen.append([a.stype for a in (*out_grad, *in_data, *out_data, *in_grad)])
        in_grad[0][:] = in_data[0] * 2


def test_sparse_arrays_are_passed_as_they_are() -> None:
    x = nd.array(X).tostype("csr")
    y = nd.Custom(x, op_type="form_sparse")
    assert y.stype == "csr"
    assert (y.asnumpy() == X * X).all()
    x.attach_grad(stype="csr")
    with autograd.record():
        y = nd.Custom(x, op_type="form_sparse")
    y.backward()
    assert seen[-1] == ["default", "csr", "csr", "csr"]
    assert (x.grad.asnumpy() == X * 2).all()
    with pytest.raises(
        mx.MXNetError, match="Default infer_storage_type implementation doesnt allow non default stypes"
    ):
        nd.Custom(x, op_type="form_keywords")


def test_storage_types_that_differ_from_the_inferred_ones() -> None:
    register("form_csr", infer_storage_type=lambda self, in_stype: (["csr"], ["csr"], []))(Squared)
    for hybridized in (False, True):
        net: Any = mx.gluon.nn.HybridLambda(lambda F, x: F.Custom(x, op_type="form_csr"))
        net.hybridize(hybridized)
        with pytest.raises(mx.MXNetError, match=r"type csr in a graph|inferred storage type = csr"):
            net(nd.array(X))


@pytest.mark.parametrize("form", FORMS)
def test_an_exception_in_backward_is_raised_by_backward(form: str) -> None:
    x = nd.array(X)
    register("form_failing")(Failing)
    with pytest.raises(mx.MXNetError, match="backward raised ZeroDivisionError: twice") as caught:
        run(form, lambda F, x: F.Custom(x * 2, op_type="form_failing"), x, head=nd.ones((2, 3)))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert not autograd.is_recording()


class Failing(Keywords):
    """Its backward fails."""

    def backward(self, **named: Any) -> None:
        raise ZeroDivisionError("twice")


@pytest.mark.parametrize("form", ["eager", "hybridized"])
def test_a_gradient_in_python_has_no_gradient(form: str) -> None:
    net: Any = mx.gluon.nn.HybridLambda(lambda F, x: F.Custom(x, op_type="form_keywords"))
    net.hybridize(form == "hybridized")
    x = nd.array(X)
    x.attach_grad()
    with autograd.record():
        y = net(x)
        (gradient,) = autograd.grad(y, [x], create_graph=True)
    assert gradient.asnumpy().tolist() == [[3] * 3] * 2
    assert len([entry for entry in seen if isinstance(entry, list)]) == 1
    with pytest.raises(mx.MXNetError, match="_backward_Custom is non-differentiable"):
        gradient.backward()


@register(
    "form_constant",
    arguments=[],
    shapes=lambda s: ([], [(2, 3)], []),
    infer_type=lambda self, t: ([], [np.float32], []),
)
class Constant(mx.operator.CustomOp):
    """An operator without inputs."""

    def forward(self, is_train: bool, req: list[str], in_data: Any, out_data: Any, aux: Any) -> None:
        self.assign(out_data[0], req[0], nd.array(X))


@pytest.mark.parametrize("form", FORMS)
def test_an_operator_without_inputs(form: str) -> None:
    x = nd.full((2, 3), 2)
    (y,) = run(form, lambda F, x: F.Custom(op_type="form_constant") * x, x, head=nd.ones((2, 3)))
    assert y.asnumpy().tolist() == (X * 2).tolist()
    assert x.grad.asnumpy().tolist() == X.tolist()
