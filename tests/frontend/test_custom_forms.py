"""States, losses and requests of operators that users write in Python, in every form. The numbers were recorded from
MXNet 1.9.1."""

from __future__ import annotations

from collections.abc import Callable
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


# --- states ---------------------------------------------------------------------------------------------------------


@register("form_center", states=["center"], top=False)
class Center(mx.operator.CustomOp):
    """Its backward moves the state halfway to the mean of the data."""

    def forward(self, is_train: bool, req: list[str], in_data: Any, out_data: Any, aux: Any) -> None:
        self.assign(out_data[0], req[0], nd.square(in_data[0] - aux[0]))

    def backward(self, req: list[str], out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
        self.assign(in_grad[0], req[0], in_data[0] - aux[0])
        aux[0][:] = aux[0] + (in_data[0].mean() - aux[0]) * 0.5


@pytest.mark.parametrize("form", FORMS)
def test_backward_writes_states(form: str) -> None:
    center, x = nd.ones(1), nd.full((2, 3), 2)
    for expected in (1.5, 1.75, 1.875):
        before = center.asscalar()
        run(form, lambda F, x, c: F.Custom(x, c, op_type="form_center"), x, states=[center])
        assert center.asscalar() == expected
        assert x.grad.asnumpy().tolist() == [[2 - before] * 3] * 2


def executors(module: Any) -> Any:
    return module._exec_group.execs


def test_a_module_writes_states_in_backward() -> None:
    symbol = sym.Custom(sym.var("data"), op_type="form_center", name="c")
    for made in (symbol, sym.MakeLoss(symbol), sym.Group([symbol, sym.BlockGrad(symbol * 2)])):
        module = mx.mod.Module(mx.sym.load_json(made.tojson()), label_names=())
        module.bind([("data", (2, 3))], inputs_need_grad=True)
        module.init_params(aux_params={"c_center": nd.ones(1)}, initializer=None)
        batch: Any = mx.io.DataBatch([nd.full((2, 3), 2)])
        for expected in (1.5, 1.75, 1.875):
            module.forward_backward(batch)
            assert module.get_params()[1]["c_center"].asscalar() in (expected, 1)  # parameters are synced by `update`
            assert executors(module)[0].aux_dict["c_center"].asscalar() == expected
        assert module.get_input_grads()[0].asnumpy()[0, 0] == 0.25


@register("form_counting", states=["count"])
class Counting(mx.operator.CustomOp):
    """Adds 1 to its state in forward and 10 in backward, and multiplies with it in both."""

    def forward(self, is_train: bool, req: list[str], in_data: Any, out_data: Any, aux: Any) -> None:
        self.assign(out_data[0], req[0], in_data[0] * aux[0])
        aux[0][:] += 1

    def backward(self, req: list[str], out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
        self.assign(in_grad[0], req[0], out_grad[0] * aux[0])
        aux[0][:] += 10


@pytest.mark.parametrize("form", FORMS)
def test_two_operators_share_a_state_in_the_order_of_the_calls(form: str) -> None:
    count, x = nd.ones(1), nd.ones(3)

    def twice(F: Any, x: Any, count: Any) -> Any:
        return F.Custom(F.Custom(x, count, op_type="form_counting"), count, op_type="form_counting")

    for value, gradient, after in ((2, 39, 23), (552, 875, 45)):
        (y,) = run(form, twice, x, states=[count], head=nd.ones(3))
        assert y.asnumpy().tolist() == [value] * 3
        assert x.grad.asnumpy().tolist() == [gradient] * 3
        assert count.asscalar() == after


# --- the order of effects -------------------------------------------------------------------------------------------


@register("form_logging")
class Logging(mx.operator.CustomOp):
    """Adds its tag to `seen` in forward and, negated, in backward."""

    parameters: dict[str, str]

    def forward(self, is_train: bool, req: list[str], in_data: Any, out_data: Any, aux: Any) -> None:
        seen.append(int(self.parameters["tag"]))
        self.assign(out_data[0], req[0], in_data[0])

    def backward(self, req: list[str], out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
        seen.append(-int(self.parameters["tag"]))
        self.assign(in_grad[0], req[0], out_grad[0])


def logged(F: Any, x: Any, tag: int) -> Any:
    return F.Custom(x, tag=tag, op_type="form_logging")


def effects() -> list[int]:
    return [tag for tag in seen if isinstance(tag, int)]


USES: list[Callable[[Any, Any, Any, Any], Any]] = [
    lambda F, a, b, c: a + b + c,
    lambda F, a, b, c: c + b + a,
    lambda F, a, b, c: b + F.relu(c + a),
    lambda F, a, b, c: [c, a, b],
    lambda F, a, b, c: F.concat(F.relu(c), b) * F.concat(a, a),
]


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("form", FORMS)
def test_operators_run_in_the_order_of_the_program(form: str, use: Callable[..., Any]) -> None:
    def program(F: Any, x: Any) -> Any:
        found = use(F, *(logged(F, x, tag) for tag in (1, 2, 3)))
        return [F.MakeLoss(y) for y in found] if isinstance(found, list) else F.MakeLoss(found)

    run(form, program, nd.ones((2, 3)))
    assert effects() == [1, 2, 3, -3, -2, -1]


def test_an_operator_runs_after_its_inputs_that_were_made_later() -> None:
    x = sym.var("x")
    first, second = logged(sym, x, 1), logged(sym, x, 2)
    composed = (second + first)(x=logged(sym, sym.var("y"), 3))
    composed.bind(mx.cpu(), {"y": nd.ones(2)}).forward(is_train=True)
    assert effects() == [3, 1, 2]


def test_a_module_runs_operators_in_the_order_of_the_program() -> None:
    data = sym.var("data")
    first, second = logged(sym, data, 1), logged(sym, data, 2)
    module = mx.mod.Module(second + first, label_names=())
    module.bind([("data", (2, 3))], inputs_need_grad=True)
    module.init_params()
    batch: Any = mx.io.DataBatch([nd.ones((2, 3))])
    module.forward(batch, is_train=True)
    module.backward([nd.ones((2, 3))])
    assert effects() == [1, 2, -2, -1]


def test_operators_that_run_step_by_step_run_in_the_order_of_the_program() -> None:
    x = sym.var("x")
    first, second = logged(sym, x, 1), logged(sym, x, 2)
    selected: Any = sym.contrib.boolean_mask(second + first, sym.var("mask"))  # its extents depend on values
    selected.bind(mx.cpu(), {"x": nd.ones(2), "mask": nd.array([0, 1])}).forward()
    assert effects() == [1, 2]


def test_a_monitor_leaves_states_to_the_run() -> None:
    e = sym.Custom(sym.var("x"), op_type="form_counting", name="c").simple_bind(mx.cpu(), x=(3,))
    e.aux_dict["c_count"][:] = 1
    e.set_monitor_callback(lambda name, array: None, monitor_all=True)
    e.forward(is_train=True)
    assert e.aux_dict["c_count"].asscalar() == 2
    e.backward(nd.ones(3))
    assert e.grad_dict["x"].asnumpy().tolist() == [2] * 3
    assert e.aux_dict["c_count"].asscalar() == 12
    e.forward(is_train=False)
    assert e.aux_dict["c_count"].asscalar() == 13


class Growing(mx.operator.CustomOp):
    """Adds 1 to its state."""

    def forward(self, is_train: bool, req: list[str], in_data: Any, out_data: Any, aux: Any) -> None:
        self.assign(out_data[0], req[0], 0)
        aux[0][:] += 1


def test_packed_weights_follow_a_state_that_an_operator_writes() -> None:
    class Net(mx.gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.state = self.params.get("state", shape=(64, 64), init="ones", grad_req="null")

        def hybrid_forward(self, F: Any, x: Any, state: Any) -> Any:
            product = F.FullyConnected(x, state, no_bias=True, num_hidden=64)
            return F.broadcast_add(product, F.Custom(F.sum(product), state, op_type="form_growing"))

    register("form_growing", states=["weight"], shapes=lambda s: (s, [s[0]], [(64, 64)]))(Growing)
    net = Net()
    net.initialize()
    net.hybridize()
    for run_number in range(1, 4):
        assert net(nd.ones((1, 64))).asnumpy()[0, 0] == 64 * run_number


# --- losses ---------------------------------------------------------------------------------------------------------


def softmax_shapes(in_shape: Any) -> Any:
    return [in_shape[0], (in_shape[0][0],)], [in_shape[0]], []


@register("form_softmax", arguments=["data", "label"], top=False, shapes=softmax_shapes)
class Softmax(mx.operator.CustomOp):
    """The operator of MXNet's tutorial."""

    def forward(self, is_train: bool, req: list[str], in_data: Any, out_data: Any, aux: Any) -> None:
        x = in_data[0].asnumpy()
        y = np.exp(x - x.max(axis=1).reshape((x.shape[0], 1)))
        y /= y.sum(axis=1).reshape((x.shape[0], 1))
        self.assign(out_data[0], req[0], nd.array(y))

    def backward(self, req: list[str], out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
        seen.append([a.shape for a in out_grad])
        label, y = in_data[1].asnumpy().ravel().astype(int), out_data[0].asnumpy()
        y[np.arange(label.shape[0]), label] -= 1.0
        self.assign(in_grad[0], req[0], nd.array(y))


DATA = np.random.RandomState(0).randn(4, 3).astype(np.float32)
LABEL = np.array([0, 1, 1, 2], np.float32)


@pytest.mark.parametrize("what", ["alone", "json", "group"])
def test_a_module_trains_with_a_loss_in_python(what: str) -> None:
    dense = sym.FullyConnected(sym.var("data"), num_hidden=3, name="fc")
    loss = sym.Custom(data=dense, name="softmax", op_type="form_softmax")
    made = {
        "alone": loss,
        "json": mx.sym.load_json(loss.tojson()),
        "group": sym.Group([loss, sym.BlockGrad(dense)]),
    }[what]
    module = mx.mod.Module(made)
    batches: Any = mx.io.NDArrayIter(DATA, LABEL, batch_size=2)
    module.bind(batches.provide_data, batches.provide_label)
    module.init_params(mx.init.Constant(0.1))
    module.init_optimizer(optimizer_params={"learning_rate": 0.5, "momentum": 0.9})
    for _ in range(3):
        batches.reset()
        for batch in batches:
            module.forward_backward(batch)
            module.update()
    weight = module.get_params()[0]["fc_weight"].asnumpy()
    recorded = [[0.8642, -0.0963, 0.6617], [0.8143, 0.9943, -2.3572], [-1.3786, -0.5979, 1.9955]]
    np.testing.assert_allclose(weight, recorded, atol=1e-4)
    assert [()] in seen  # an array that `backward` does not read has no elements


@pytest.mark.parametrize("form", FORMS)
def test_a_loss_ignores_the_gradient_of_its_output(form: str) -> None:
    x, label = nd.array(DATA), nd.array(LABEL)
    run(form, lambda F, x, y: F.Custom(x, y, op_type="form_softmax"), x, label)
    first = x.grad.asnumpy()
    np.testing.assert_allclose(first[0], [-0.4158, 0.1494, 0.2664], atol=1e-4)
    run(form, lambda F, x, y: F.Custom(x, y, op_type="form_softmax") * 5, x, label, head=nd.ones((4, 3)))
    assert (x.grad.asnumpy() == first).all()


@register(
    "form_partial",
    arguments=["a", "b"],
    declare_backward_dependency=lambda self, grads, inputs, outputs: [grads[0], inputs[1]],
)
class Partial(mx.operator.CustomOp):
    """Its backward reads one of its two inputs, and not the output."""

    def forward(self, is_train: bool, req: list[str], in_data: Any, out_data: Any, aux: Any) -> None:
        self.assign(out_data[0], req[0], in_data[0] * in_data[1])

    def backward(self, req: list[str], out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
        seen.append((req, [a.shape for a in (*out_grad, *in_data, *out_data)]))
        self.assign(in_grad[0], req[0], out_grad[0] * in_data[1])
        self.assign(in_grad[1], req[1], 5)


@pytest.mark.parametrize("form", FORMS)
def test_backward_gets_what_it_declares(form: str) -> None:
    a, b = nd.array(X), nd.array(X + 1)
    run(form, lambda F, a, b: F.Custom(a, b, op_type="form_partial"), a, b, head=nd.ones((2, 3)))
    assert a.grad.asnumpy().tolist() == (X + 1).tolist()
    assert b.grad.asnumpy().tolist() == [[5] * 3] * 2
    assert seen[-1] == (["write", "write"], [(2, 3), (), (2, 3), ()])


# --- requests -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_requests(form: str) -> None:
    a, b = nd.array(X), nd.array(X + 1)
    for expected in (1, 2):
        run(form, lambda F, a, b: F.Custom(a, b, op_type="form_partial"), a, b, head=nd.ones((2, 3)), add=True)
        assert seen[-1][0] == ["add", "add"]
        assert a.grad.asnumpy().tolist() == (expected * (X + 1)).tolist()
        assert b.grad.asnumpy().tolist() == [[5 * expected] * 3] * 2


def test_an_input_without_gradient_is_not_requested() -> None:
    a, b = nd.array(X), nd.array(X + 1)
    for hybridized in (False, True):
        net: Any = mx.gluon.nn.HybridLambda(lambda F, a, b: F.Custom(a, b, op_type="form_partial"))
        net.hybridize(hybridized)
        a.attach_grad()
        with autograd.record():
            y = net(a, b)
        y.backward()
        assert seen[-1][0] == ["write", "null"]
    symbol = sym.Custom(sym.var("a"), sym.var("b"), op_type="form_partial")
    e = symbol.bind(mx.cpu(), {"a": a, "b": b}, {"a": a.grad, "b": nd.zeros((2, 3))}, {"a": "null", "b": "add"})
    e.forward(is_train=True)
    e.backward(nd.ones((2, 3)))
    assert seen[-1][0] == ["null", "add"]
    assert e.grad_arrays[1].asnumpy().tolist() == [[5] * 3] * 2


@register("form_reporting")
class Reporting(mx.operator.CustomOp):
    """Reports the modes of its methods."""

    def forward(self, is_train: bool, req: list[str], in_data: Any, out_data: Any, aux: Any) -> None:
        seen.append(("forward", is_train, req, autograd.is_recording(), autograd.is_training()))
        seen.append((mx.current_context(), in_data[0].context, out_data[0].context, *self.created))  # type: ignore[attr-defined]
        self.assign(out_data[0], req[0], in_data[0] + nd.ones(in_data[0].shape))

    def backward(self, req: list[str], out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
        seen.append(("backward", req, autograd.is_recording(), autograd.is_training(), mx.current_context()))
        self.assign(in_grad[0], req[0], out_grad[0] * nd.full(in_data[0].shape, 3))


def test_modes_and_results_in_place() -> None:
    x = nd.array(X)
    nd.Custom(x, op_type="form_reporting", out=x)
    assert seen[2] == ("forward", 0, ["inplace"], False, False)
    assert type(seen[2][1]) is int
    assert (x.asnumpy() == X + 1).all()
    x.attach_grad()
    with autograd.record():
        y = nd.Custom(x, op_type="form_reporting")
    assert seen[-2] == ("forward", 1, ["write"], False, True)
    y.backward()
    assert seen[-1] == ("backward", ["write"], False, True, mx.cpu(0))


@pytest.mark.parametrize("form", ["eager", "hybridized", "static", "executor"])
def test_methods_run_in_the_context_of_their_arrays(form: str) -> None:
    one = mx.cpu(1)
    x = nd.array(X, ctx=one)
    if form == "executor":
        e = sym.Custom(sym.var("x"), op_type="form_reporting").simple_bind(one, x=(2, 3))
        e.forward(is_train=True)
        e.backward(nd.ones((2, 3), ctx=one))
        gradient = e.grad_arrays[0]
    else:
        run(form, lambda F, x: F.Custom(x, op_type="form_reporting"), x)
        gradient = x.grad
    (contexts,) = [entry for entry in seen if isinstance(entry[0], mx.Context)]
    assert contexts == (one, one, one, one, [[2, 3]], [0])
    assert seen[-1] == ("backward", ["write"], False, True, one)
    assert gradient.context == one
    assert gradient.asnumpy().tolist() == [[3] * 3] * 2


# --- the interfaces before CustomOp ---------------------------------------------------------------------------------


class OldSoftmax(mx.operator.NumpyOp):
    """The operator of MXNet's first examples."""

    def __init__(self, need_top_grad: bool = False) -> None:
        super().__init__(need_top_grad)

    def list_arguments(self) -> list[str]:
        return ["data", "label"]

    def infer_shape(self, in_shape: Any) -> Any:
        return [in_shape[0], (in_shape[0][0],)], [in_shape[0]]

    def forward(self, in_data: Any, out_data: Any) -> None:
        x, y = in_data[0], out_data[0]
        y[:] = np.exp(x - x.max(axis=1)[:, None])
        y /= y.sum(axis=1)[:, None]

    def backward(self, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any) -> None:
        seen.append([g.shape for g in out_grad])
        label = in_data[1].astype(int)
        in_grad[0][:] = out_data[0]
        in_grad[0][np.arange(label.shape[0]), label] -= 1


class OldTriple(mx.operator.NDArrayOp):
    """The same interface for NDArrays."""

    def forward(self, in_data: Any, out_data: Any) -> None:
        out_data[0][:] = in_data[0] * 3

    def backward(self, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any) -> None:
        in_grad[0][:] = out_grad[0] * 3


@pytest.mark.parametrize("request_", ["write", "add"])
@pytest.mark.parametrize("needed", [False, True])
def test_gradients_of_the_predecessors_of_custom_operators(request_: str, needed: bool) -> None:
    symbol = OldSoftmax(needed)(data=OldTriple()(sym.var("data")), name="softmax")
    e = symbol.simple_bind(mx.cpu(), data=(4, 3), grad_req=request_)
    e.arg_dict["data"][:] = DATA
    e.arg_dict["softmax_label"][:] = LABEL
    for _ in range(2):
        e.forward(is_train=True)
        e.backward(nd.ones((4, 3)) if needed else None)
    softmax = np.exp(3 * DATA) / np.exp(3 * DATA).sum(1, keepdims=True)
    expected = 3 * (softmax - np.eye(3)[LABEL.astype(int)]) * (2 if request_ == "add" else 1)
    np.testing.assert_allclose(e.grad_dict["data"].asnumpy(), expected, rtol=1e-4, atol=1e-5)
    assert seen[-1] == ([(4, 3)] if needed else [])


def test_a_loss_on_numpy_arrays_trains_a_module() -> None:
    symbol = OldSoftmax()(data=sym.FullyConnected(sym.var("data"), num_hidden=3, name="fc"), name="softmax")
    module = mx.mod.Module(symbol)
    batches: Any = mx.io.NDArrayIter(DATA, LABEL, batch_size=2)
    module.fit(batches, num_epoch=4, initializer=mx.init.Constant(0.1), optimizer_params={"learning_rate": 0.3})
    recorded = [[0.2323, 0.0335, 0.2509], [0.3986, 0.3059, -0.56], [-0.3309, -0.0394, 0.6092]]
    np.testing.assert_allclose(module.get_params()[0]["fc_weight"].asnumpy(), recorded, atol=1e-4)
