"""The tape beyond what recorded programs compare: higher orders, memory, threads, errors."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.runtime.modes import hooks

pytestmark = pytest.mark.usefixtures("few_objects_to_traverse")

nd, autograd = mx.nd, mx.autograd


def variable(*values: float) -> Any:
    x = nd.array(values)
    x.attach_grad()
    return x


def test_the_gradient_stays_the_same_array() -> None:
    x = variable(1, 2, 3)
    grad = x.grad
    for _ in range(2):
        with autograd.record():
            y = x * x
        y.backward()
    assert x.grad is grad and grad.asnumpy().tolist() == [2, 4, 6]


@pytest.mark.parametrize("hybridize", [False, True])
def test_gradients_of_any_order(hybridize: bool) -> None:
    """Those of x^4, through a block too: 4 x^3, 12 x^2, 24 x, 24, 0."""

    class Power(mx.gluon.HybridBlock):
        def hybrid_forward(self, F: Any, x: Any) -> Any:
            return x * x * x * x

    net = Power()
    if hybridize:
        net.hybridize()
    x = variable(1, 2)
    with autograd.record():
        y, found = net(x), []
        for _ in range(5):
            (y,) = autograd.grad(y, [x], create_graph=True, retain_graph=True)
            found.append(y.asnumpy().tolist())
    assert found == [[4, 32], [12, 48], [24, 48], [24, 24], [0, 0]]


def test_a_gradient_penalty() -> None:
    """A loss that contains a gradient by the input trains a parameter, through dropout and a product."""
    w, x = nd.array([[1.0, 2.0], [3.0, 4.0]]), nd.array([[0.5, -1.0]])
    for array in (w, x):
        array.attach_grad()
    with autograd.record():
        y = nd.tanh(nd.dot(x, w)).sum()
        (slope,) = autograd.grad(y, [x], create_graph=True, retain_graph=True)
        loss = (slope * slope).sum()
    loss.backward()

    def penalty(values: np.ndarray) -> float:
        cosh = 1 - np.tanh(x.asnumpy() @ values) ** 2
        return float(((cosh @ values.T) ** 2).sum())

    expected = np.zeros((2, 2))
    for i in np.ndindex(2, 2):
        step = np.zeros((2, 2))
        step[i] = 1e-5
        above, below = (penalty(w.asnumpy().astype(np.float64) + sign * step) for sign in (1, -1))
        expected[i] = (above - below) / 2e-5
    np.testing.assert_allclose(w.grad.asnumpy(), expected, rtol=1e-3)


def test_a_second_derivative_through_the_statistics_of_a_batch() -> None:
    """The gradient of BatchNorm computes its statistics from the data: that of a penalty on it agrees with central
    differences."""
    random = np.random.default_rng(0)
    data, gamma, beta, weight = (random.standard_normal(n) for n in ((2, 2, 3), (2,), (2,), (2, 2, 3)))

    def penalty(*arrays: Any) -> Any:
        moving = nd.zeros(2, dtype="float64"), nd.ones(2, dtype="float64")
        y = nd.BatchNorm(*arrays, *moving, fix_gamma=False)
        loss = (y * y * nd.array(weight, dtype="float64")).sum()
        gradients = autograd.grad(loss, list(arrays), create_graph=True)
        return sum((g * g).sum() for g in gradients)

    arrays = [nd.array(a, dtype="float64") for a in (data, gamma, beta)]
    for array in arrays:
        array.attach_grad()
    with autograd.record():
        total = penalty(*arrays)
    total.backward()
    for array in arrays:
        found, flat = array.grad.asnumpy(), array.reshape(-1)
        expected = []
        for i in range(flat.size):
            values = []
            for step in (1e-5, -1e-5):
                flat[i] = flat[i] + step
                with autograd.record():
                    values.append(penalty(*arrays).asscalar())
                flat[i] = flat[i] - step
            expected.append((values[0] - values[1]) / 2e-5)
        np.testing.assert_allclose(found.reshape(-1), expected, rtol=1e-5, atol=1e-6)


def test_a_backward_pass_frees_the_tape() -> None:
    x = variable(1, 2)
    with autograd.record():
        between = nd.exp(x)
        y = between * between
    alive = weakref.ref(between)
    del between
    gc.collect()
    assert alive() is not None  # the gradient of the product reads it
    y.backward()
    gc.collect()
    assert alive() is None


def test_an_unused_result_is_freed_without_a_backward_pass() -> None:
    x = variable(1, 2)
    with autograd.record():
        y = nd.exp(x)
        alive = weakref.ref(nd.sin(y))
    gc.collect()
    assert alive() is None


def test_threads_record_separately() -> None:
    found: dict[int, list[float]] = {}
    start = threading.Barrier(4)

    def work(number: int) -> None:
        x = variable(1, 2)
        start.wait()
        for _ in range(20):
            if number % 2:
                with autograd.record():
                    y = x * x * number
                y.backward()
            else:
                y = x * number
                assert not autograd.is_recording()
        found[number] = x.grad.asnumpy().tolist()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {0: [0, 0], 1: [2, 4], 2: [0, 0], 3: [6, 12]}
    assert not hooks.watched


def test_a_function_that_raises_leaves_the_modes() -> None:
    class Broken(autograd.Function):
        def forward(self, x: Any) -> Any:
            return x * 1

        def backward(self, dy: Any) -> Any:
            raise KeyError("broken")

    x = variable(1, 2)
    with autograd.record():
        y = Broken()(x)
    with pytest.raises(KeyError, match="broken"):
        y.backward()
    assert not autograd.is_recording()


def test_wrong_head_gradients() -> None:
    x = variable(1, 2)
    with autograd.record():
        y = x * x
    with pytest.raises(mx.MXNetError, match=r"a head of shape \(2,\) has the shape \(3,\)"):
        y.backward(nd.ones(3))
    with pytest.raises(mx.MXNetError, match=r"a gradient of shape \(3,\) for a variable of \(2,\)"):
        autograd.mark_variables([nd.ones(2)], [nd.ones(3)])
    y.backward()


def test_an_operator_without_a_gradient_is_named() -> None:
    class Prop(mx.operator.CustomOpProp):
        def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> Any:
            return mx.operator.CustomOp()

    mx.operator.register("nothing_back")(Prop)
    x = variable(1, 2)
    with autograd.record():
        y = nd.Custom(x, op_type="nothing_back")
    y.backward()
    assert x.grad.asnumpy().tolist() == [0, 0]


def test_row_sparse_gradients_of_an_embedding() -> None:
    net = mx.gluon.nn.Embedding(5, 2, sparse_grad=True)
    net.initialize(mx.init.One())
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1.0})
    with autograd.record():
        loss = net(nd.array([1, 3, 3])).sum()
    loss.backward()
    grad: Any = net.weight.grad()
    assert grad.stype == "row_sparse"
    assert grad.indices.asnumpy().tolist() == [1, 3]
    trainer.step(1)
    assert net.weight.data().asnumpy()[:, 0].tolist() == [1, 0, 1, -1, 1]


def test_executors_with_inputs_of_integers_and_gradients_of_another_dtype() -> None:
    net = mx.sym.Embedding(mx.sym.var("data"), input_dim=4, output_dim=2, name="e")
    bound = net.simple_bind(mx.cpu(), data=(3,), type_dict={"data": "int32"})
    bound.arg_dict["data"][:] = [1, 3, 3]
    bound.forward(is_train=True)
    bound.backward(nd.ones((3, 2)))
    weight: Any = bound.grad_dict["e_weight"]
    assert weight.asnumpy()[:, 0].tolist() == [0, 1, 0, 2]
    x = nd.array([1.0, 2.0])
    squared = mx.sym.square(mx.sym.var("x"))
    for request, expected in (("write", [2, 4]), ("add", [3, 5]), ("null", [1, 1])):
        grad = nd.ones(2, dtype="float64")
        bound = squared.bind(mx.cpu(), {"x": x}, {"x": grad}, grad_req=request)
        bound.forward(is_train=True)
        bound.backward(nd.ones(2))
        assert grad.asnumpy().tolist() == expected


def test_higher_orders_of_sparse_calls_raise() -> None:
    x = nd.array([[1.0, 2.0]]).tostype("row_sparse")
    x.attach_grad()
    with autograd.record():
        y = nd.square(x)
        with pytest.raises(mx.MXNetError, match="square: the gradient of a call with sparse arrays cannot be"):
            autograd.grad(y, [x], create_graph=True)


def recorded_gradients(**flags: Any) -> list[np.ndarray[Any, Any]]:
    """The gradients of a small network with a loss, with these flags."""
    mx.random.seed(1)
    net = mx.gluon.nn.HybridSequential()
    for _ in range(2):
        net.add(mx.gluon.nn.Conv2D(4, 3, in_channels=4), mx.gluon.nn.BatchNorm(in_channels=4))
        net.add(mx.gluon.nn.Activation("relu"))
    net.initialize(mx.init.Xavier())
    net.hybridize(**flags)
    x = mx.nd.random.uniform(shape=(2, 4, 8, 8))
    with mx.autograd.record():
        loss = net(x).square().sum()
    loss.backward()
    return [p.grad().asnumpy() for p in net.collect_params().values() if p.grad_req != "null"]


def test_recomputing_gives_the_same_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = recorded_gradients()
    found = [recorded_gradients(recompute=0)]
    monkeypatch.setenv("MXNET_BACKWARD_DO_MIRROR", "1")
    found.append(recorded_gradients())
    for gradients in found:
        for x, y in zip(gradients, expected, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)


def test_a_negative_budget_is_refused() -> None:
    with pytest.raises(mx.MXNetError, match=r"Invalid Parameter format for recompute .* value='-1'"):
        recorded_gradients(recompute=-1)


def test_recorded_calls_compile_no_program_without_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    from mxforge.runtime import compile as compiling

    made: list[str] = []
    original = compiling._make

    def make(graph: Any, *rest: Any) -> Any:
        made.append(graph.name)
        return original(graph, *rest)

    monkeypatch.setattr(compiling, "_make", make)
    net = mx.gluon.nn.Dense(7, in_units=11, activation="tanh", prefix="lazy_")
    net.initialize()
    net.hybridize()
    x = mx.nd.ones((3, 11))
    for _ in range(2):
        with mx.autograd.record():
            y = net(x)
        y.backward()
    assert [name for name in made if name.startswith("lazy")] == ["lazy", "lazy_backward"]
    net(x)
    assert [name for name in made if name.startswith("lazy")] == ["lazy", "lazy_backward", "lazy"]


def test_calls_without_a_symbol_are_named() -> None:
    class Doubled(autograd.Function):
        def forward(self, x: mx.nd.NDArray) -> mx.nd.NDArray:
            return x * 2

    x = mx.nd.ones((2,))
    x.attach_grad()
    with autograd.record():
        y = Doubled()(x) + 1
        g = autograd.grad(x * x, x, create_graph=True)[0]
    with pytest.raises(mx.MXNetError, match="Doubled is a Function of the user"):
        autograd.get_symbol(y)
    with pytest.raises(mx.MXNetError, match="recorded with create_graph"):
        autograd.get_symbol(g)


def test_the_symbol_of_a_long_history_is_found_without_recursion() -> None:
    x = mx.nd.ones((2,))
    x.attach_grad()
    with autograd.record():
        y = x
        for _ in range(3000):
            y = y + x
    symbol = autograd.get_symbol(y)
    assert len(symbol.get_internals().list_outputs()) == 3001
    assert autograd.get_symbol(y).tojson() == symbol.tojson()


def test_losses_that_are_not_numbers_pass_through_training() -> None:
    """As in MXNet, NaN and infinity are no error: they reach the parameters that they belong to, and no others."""
    one, other = (mx.gluon.Parameter(name, shape=(2,), init="ones") for name in ("one", "other"))
    for parameter in (one, other):
        parameter.initialize()
    trainer = mx.gluon.Trainer([one, other], "sgd", {"learning_rate": 1.0})
    with autograd.record():
        loss = nd.log(one.data() - 2).sum() + (other.data() * 3).sum()
    assert np.isnan(loss.asscalar())
    loss.backward()
    trainer.step(1)
    assert other.data().asnumpy().tolist() == [-2, -2]
    assert np.isfinite(one.grad().asnumpy()).all()


def test_a_failed_backward_leaves_the_gradients_alone() -> None:
    x = variable(1, 2)
    with autograd.record():
        y = x * 2 + nd.all_finite(x)
    with pytest.raises(mx.MXNetError, match="all_finite is non-differentiable"):
        y.backward()
    assert x.grad.asnumpy().tolist() == [0, 0]
    with autograd.record():
        y = x * 2
    y.backward()
    assert x.grad.asnumpy().tolist() == [2, 2]


def test_a_function_refuses_symbols() -> None:
    """In a graph its backward would be lost."""

    class Twice(autograd.Function):
        def forward(self, x: mx.nd.NDArray) -> mx.nd.NDArray:
            return x * 2

        def backward(self, dy: mx.nd.NDArray) -> mx.nd.NDArray:
            return dy

    block = mx.gluon.nn.HybridLambda(lambda F, x: Twice()(x))
    block.hybridize()
    with pytest.raises(
        mx.MXNetError, match=r"Twice is an autograd.Function, which takes arrays: .*writing-an-operator"
    ):
        block(mx.nd.ones((1,)))


def test_a_variable_that_requests_no_gradient_has_zeros_until_a_backward_pass() -> None:
    """As in MXNet."""
    x, y = nd.ones((3,)), variable(1, 2, 3)
    x.attach_grad("null")
    assert x.grad.asnumpy().tolist() == [0, 0, 0]
    with autograd.record():
        z = x * y
    z.backward(retain_graph=True)
    assert x.grad.asnumpy().tolist() == [0, 0, 0] and y.grad.asnumpy().tolist() == [1, 1, 1]
    z.backward()
    assert x.grad is None
    x.attach_grad("null")
    with autograd.record():
        z = x * y
    with pytest.raises(mx.MXNetError, match="1-th variable because it does not require gradient"):
        autograd.grad(z, [x])


@pytest.mark.parametrize("linked", [False, True])
def test_no_gradient_is_computed_from_a_zero_cotangent(linked: bool) -> None:
    """0 times the infinite slope of log at 0 was NaN. The gradients are recorded from MXNet 1.9.1."""
    functions = (
        (lambda x: nd.BlockGrad(nd.log(x)), [0, 0, 0]),
        (lambda x: nd.BlockGrad(1 / x) + x, [1, 1, 1]),
        (lambda x: nd.BlockGrad(nd.norm(x - x)), [0, 0, 0]),
        (lambda x: nd.floor(nd.log(x)) + x, [1, 1, 1]),
        (lambda x: (nd.log(x) > 0) + x, [1, 1, 1]),
        (lambda x: nd.argmax(nd.softmax(nd.log(x)), axis=0), [0, 0, 0]),
    )
    for function, expected in functions:
        for request, before in (("write", 0), ("add", 9)):
            x = nd.array([0, 1, 2])
            x.attach_grad(request)
            assert x.grad is not None
            x.grad[:] = 9
            with autograd.record():
                y = function(x if linked else _Same()(x))
            y.backward()
            assert x.grad.asnumpy().tolist() == [before + g for g in expected]
        with autograd.record():
            y = function(x)
        assert autograd.grad(y, [x])[0].asnumpy().tolist() == expected


class _Same(autograd.Function):
    """A call in Python, with which a tape runs call by call."""

    def forward(self, x: Any) -> Any:
        return x + 0

    def backward(self, cotangent: Any) -> Any:
        return cotangent


def test_a_batch_norm_whose_gradient_is_zero_updates_its_statistics() -> None:
    """MXNet calls its gradient, which does that."""
    x, mean, var = nd.array([[1], [3]]), nd.zeros(1), nd.ones(1)
    x.attach_grad()
    with autograd.record():
        y = nd.BlockGrad(nd.BatchNorm(x, nd.ones(1), nd.zeros(1), mean, var))
    y.backward()
    assert mean.asnumpy() == pytest.approx(0.2)


def test_a_function_in_python_is_called_with_a_zero_cotangent() -> None:
    """As in MXNet: its gradient need not be a multiple of the cotangent."""

    class Shifted(autograd.Function):
        def forward(self, x: Any) -> Any:
            return x * 2

        def backward(self, cotangent: Any) -> Any:
            return cotangent + 3

    x = variable(1, 2)
    with autograd.record():
        y = nd.BlockGrad(Shifted()(x))
    y.backward()
    assert x.grad.asnumpy().tolist() == [3, 3]


@pytest.mark.parametrize("hybridize", [False, True])
def test_a_head_gradient_has_as_many_elements_in_any_shape(hybridize: bool) -> None:
    """As in MXNet, whose operators read it in their own shape."""

    class Sum(mx.gluon.HybridBlock):
        def hybrid_forward(self, F: Any, x: Any) -> Any:
            return F.sum(x, axis=1)

    net = Sum()
    if hybridize:
        net.hybridize()
    x = nd.array([[1, 2, 3], [4, 5, 6]])
    x.attach_grad()
    for shape in ((2,), (2, 1), (1, 2)):
        with autograd.record():
            y = net(x)
        y.backward(nd.array([1, 2]).reshape(shape))
        assert x.grad is not None and x.grad.asnumpy().tolist() == [[1, 1, 1], [2, 2, 2]]
    with autograd.record():
        y = net(x)
    with pytest.raises(mx.MXNetError, match=r"of shape \(2,\) has the shape \(3,\)"):
        y.backward(nd.ones(3))
    with autograd.record():
        y = nd.MakeLoss(x * x)
    y.backward(nd.ones(3))
    assert x.grad.asnumpy().tolist() == [[2, 4, 6], [8, 10, 12]]
