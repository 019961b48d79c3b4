"""Executors: the memory of results, arrays by group, memory sizes. CachedOp."""

from __future__ import annotations

import re
from typing import Any

import mxforge as mx
import numpy as np
import pytest


@pytest.fixture
def doubled() -> mx.executor.Executor:
    a: Any = mx.sym.Variable("a")
    return (a * 2).bind(mx.cpu(), {"a": mx.nd.ones((4, 3))})


def test_results_remain_the_same_arrays(doubled: mx.executor.Executor) -> None:
    kept = doubled.outputs[0]
    view = kept[1:]
    assert doubled.forward()[0] is kept
    np.testing.assert_array_equal(view.asnumpy(), np.full((3, 3), 2))
    doubled.forward(a=mx.nd.full((4, 3), 5))
    np.testing.assert_array_equal(view.asnumpy(), np.full((3, 3), 10))


def test_results_of_one_executor_feed_another(doubled: mx.executor.Executor) -> None:
    summed = mx.sym.FullyConnected(mx.sym.Variable("x"), mx.sym.Variable("w"), num_hidden=1, no_bias=True)
    after = summed.bind(mx.cpu(), {"x": mx.nd.ones((1, 3)), "w": doubled.outputs[0][:1]})
    sums: list[float] = []
    for value in (1, 4):
        doubled.forward(a=mx.nd.full((4, 3), value))
        sums.append(after.forward()[0].asscalar())
    assert sums == [6, 24]


def test_a_reshaped_executor_shares_the_results_memory(doubled: mx.executor.Executor) -> None:
    smaller = doubled.reshape(a=(2, 3))
    smaller.forward()
    np.testing.assert_array_equal(doubled.outputs[0].asnumpy(), [[2] * 3] * 2 + [[0] * 3] * 2)
    larger = doubled.reshape(allow_up_sizing=True, a=(5, 3))
    larger.forward(a=mx.nd.full((5, 3), 7))
    assert doubled.outputs[0].asnumpy().max() == 2


def test_a_monitor_keeps_the_result_arrays(doubled: mx.executor.Executor) -> None:
    kept, seen = doubled.outputs[0], []
    doubled.set_monitor_callback(lambda name, array: seen.append(name))
    doubled.forward()
    assert doubled.outputs[0] is kept
    assert kept.asnumpy().min() == 2
    assert len(seen) == 1


def test_arrays_are_on_the_contexts_of_their_groups() -> None:
    with mx.AttrScope(ctx_group="first"):
        hidden = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=4, name="fc1")
    shift: Any = mx.sym.Variable("shift", shape=(2, 4))
    out = shift + hidden
    with mx.AttrScope(ctx_group="second"):
        out = mx.sym.BatchNorm(out, name="bn")
    executor = out.simple_bind(mx.cpu(), group2ctx={"first": mx.cpu(1), "second": mx.cpu(2)}, data=(2, 3))
    where = {name: array.context.device_id for name, array in (executor.arg_dict | executor.aux_dict).items()}
    expected = {"data": 1, "fc1_weight": 1, "fc1_bias": 1, "shift": 0, "bn_gamma": 2, "bn_beta": 2}
    assert where == expected | {"bn_moving_mean": 2, "bn_moving_var": 2}
    assert executor.forward()[0].shape == (2, 4)


def test_debug_str_contains_the_memory_size() -> None:
    data: Any = mx.sym.Variable("data")
    for _ in range(3):
        data = mx.sym.softmax(data * data)
    executor = data.simple_bind(mx.cpu(), data=(10, 3, 256, 256), grad_req="null")
    found = re.search(r"Total (\d+) MB allocated\nTotal 0 TempSpace resource requested\n$", executor.debug_str())
    assert found is not None
    assert int(found.group(1)) >= 7  # the result only


def test_cached_op_is_a_function_of_arrays() -> None:
    convolution: Any = mx.sym.Convolution(kernel=(3, 3), num_filter=2, name="c")
    op = mx.nd.CachedOp(convolution + 2)
    data, weight, bias = mx.nd.ones((1, 4, 5, 5)), mx.nd.ones((2, 4, 3, 3)), mx.nd.ones((2,))
    np.testing.assert_array_equal(op(data, weight, bias).asnumpy(), np.full((1, 2, 3, 3), 39))
    bias[:] = 2
    out = mx.nd.zeros((1, 2, 3, 3))
    assert op(data, weight, bias, out=out) is out
    assert out.asnumpy().max() == 40
    assert op(mx.nd.ones((1, 1, 3, 3)), mx.nd.ones((2, 1, 3, 3)), bias).shape == (1, 2, 1, 1)
    pair = mx.nd.CachedOp(mx.sym.split(mx.sym.Variable("x"), num_outputs=2), [("static_alloc", True)])
    assert [part.shape for part in pair(mx.nd.ones((3, 4)))] == [(3, 2), (3, 2)]
    with pytest.raises(mx.MXNetError, match="takes 3 arrays"):
        op(data)
    with pytest.raises(mx.MXNetError, match="2 results, out has 1"):
        pair(mx.nd.ones((3, 4)), out=out)


FLAGS = [
    ([("static_shape", True)], "static_alloc must be True when static_shape is True"),
    ([("static_alloc", "maybe")], "Invalid Parameter format for static_alloc expect boolean but value='maybe'"),
    ([("static_alloc", None)], "Invalid Parameter format for static_alloc"),
    ([("inline_limit", "x")], "Invalid Parameter format for inline_limit"),
    ([("nonsense", 1)], "Cannot find argument 'nonsense'"),
]


@pytest.mark.parametrize(("flags", "message"), FLAGS)
def test_flags_that_mxnet_refuses(flags: list[tuple[str, Any]], message: str) -> None:
    with pytest.raises(mx.MXNetError, match=message):
        mx.nd.CachedOp(mx.sym.Variable("x"), flags)


@pytest.mark.parametrize("value", [True, 1, "True", "1", False, "0"])
def test_flags_that_mxnet_accepts(value: Any) -> None:
    flags = [("static_alloc", value), ("inline_limit", 2), ("forward_bulk_size", 15), ("data_indices", [0])]
    made = mx.nd.CachedOp(mx.sym.exp(mx.sym.Variable("x")), flags)
    assert made(mx.nd.zeros((2,))).asnumpy().tolist() == [1, 1]


def dropping() -> Any:
    x: Any = mx.sym.Dropout(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=4, name="f"), p=0.5, name="d")
    return mx.sym.MakeLoss(mx.sym.sum(mx.sym.Dropout(x * x, p=0.5, name="e")), name="l")


def trained(listen: Any) -> tuple[list[np.ndarray], list[str]]:
    """Outputs and gradients of two steps with a monitor that `listen` installs, and the names that it received."""
    bound, names = dropping().simple_bind(mx.cpu(), data=(3, 5)), []
    for i, array in enumerate(bound.arg_arrays):
        array[:] = np.cos(np.arange(array.size) + i).reshape(array.shape)
    listen(bound, names)
    found = []
    mx.random.seed(5)
    for _ in range(2):
        found.append(bound.forward(is_train=True)[0].asnumpy())
        bound.backward()
        found += [g.asnumpy() for g in bound.grad_arrays if g is not None]
    return found, names


def test_a_monitor_changes_no_number() -> None:
    plain, _ = trained(lambda bound, names: None)
    heard, names = trained(lambda bound, names: bound.set_monitor_callback(lambda name, a: names.append(name.decode())))
    assert all(a.tobytes() == b.tobytes() for a, b in zip(plain, heard, strict=True))
    assert {"f_output", "d_output", "d_backward_output", "f_backward_output0"} <= set(names)


def test_a_monitor_that_waits_receives_nothing() -> None:
    heard: list[str] = []

    class Waiting:
        activated = False

        def hear(self, name: bytes, array: Any) -> None:
            heard.append(name.decode())

    trained(lambda bound, names: bound.set_monitor_callback(Waiting().hear))
    assert heard == []


def test_a_monitor_sees_the_masks_that_the_gradients_use() -> None:
    seen: dict[str, np.ndarray] = {}
    bound = mx.sym.Dropout(mx.sym.var("x"), p=0.5, name="d").simple_bind(mx.cpu(), x=(64,))
    bound.arg_dict["x"][:] = 1
    bound.set_monitor_callback(lambda name, array: seen.update({name.decode(): array.asnumpy()}))
    output = bound.forward(is_train=True)[0].asnumpy()
    bound.backward(mx.nd.ones((64,)))
    gradient = bound.grad_dict["x"]
    assert gradient is not None
    assert 0 < np.count_nonzero(output) < 64
    assert all(np.array_equal(a, output) for a in (gradient.asnumpy(), seen["d_output"], seen["d_backward_output"]))


DATA = np.array([[-1, 2, 3], [4, 5, 6]], np.float32)


def bound(symbol: Any, grad_req: Any = "write") -> tuple[mx.executor.Executor, mx.nd.NDArray]:
    """An executor on DATA as `x`, and the array that receives the gradient by it."""
    shapes = symbol.infer_shape(x=DATA.shape)
    names, states = symbol.list_arguments(), symbol.list_auxiliary_states()
    arrays = {name: mx.nd.ones(shape) for name, shape in zip(names, shapes[0], strict=True)}
    arrays["x"] = mx.nd.array(DATA)
    start = {name: (mx.nd.zeros if "mean" in name else mx.nd.ones) for name in states}
    aux = {name: start[name](shape) for name, shape in zip(states, shapes[2], strict=True)}
    gradient = mx.nd.zeros(DATA.shape)
    return symbol.bind(mx.cpu(), arrays, args_grad={"x": gradient}, grad_req=grad_req, aux_states=aux), gradient


@pytest.mark.parametrize(
    ("forward", "flag", "expected", "mean"),
    [
        (True, True, 0.0, [0.15, 0.35, 0.45]),
        (True, False, 0.9995, [0, 0, 0]),
        (False, False, 0.9995, [0, 0, 0]),
        (None, False, 0.9995, [0, 0, 0]),
    ],
)
def test_gradients_in_inference_use_stored_statistics(
    forward: bool | None, flag: bool, expected: float, mean: list[float]
) -> None:
    """The numbers are recorded from MXNet 1.9.1."""
    executor, gradient = bound(mx.sym.BatchNorm(mx.sym.var("x"), fix_gamma=False))
    results = None if forward is None else executor.forward(is_train=forward)[0].asnumpy()
    executor.backward(mx.nd.ones(DATA.shape), is_train=flag)
    np.testing.assert_allclose(gradient.asnumpy(), np.full(DATA.shape, expected), atol=2e-4)
    np.testing.assert_allclose(executor.aux_arrays[0].asnumpy(), mean, atol=1e-6)
    if results is not None:
        np.testing.assert_array_equal(executor.outputs[0].asnumpy(), results)


def test_gradients_follow_the_last_forward_pass() -> None:
    """An earlier one in training is of no concern: dropout passes everything on in inference, as in MXNet."""
    x: Any = mx.sym.var("x")
    executor, gradient = bound(mx.sym.Dropout(x, p=0.5) * x)
    executor.forward(is_train=True)
    executor.forward(is_train=False, x=mx.nd.full(DATA.shape, 3))
    executor.backward(mx.nd.ones(DATA.shape))
    np.testing.assert_allclose(gradient.asnumpy(), np.full(DATA.shape, 6))


def test_a_head_gradient_that_nothing_reads_can_have_any_shape() -> None:
    x: Any = mx.sym.var("x")
    for other in (mx.sym.argmax(x, axis=1), mx.sym.shape_array(x), mx.sym.BlockGrad(x)):
        executor, gradient = bound(mx.sym.Group([x * x, other]))
        executor.forward(is_train=True)
        executor.backward([mx.nd.ones(DATA.shape), mx.nd.ones((5,))])
        np.testing.assert_allclose(gradient.asnumpy(), 2 * DATA)
    executor, gradient = bound(mx.sym.MakeLoss(x * x))
    executor.forward(is_train=True)
    executor.backward(mx.nd.ones((5,)))
    np.testing.assert_allclose(gradient.asnumpy(), 2 * DATA)
    executor, _ = bound(x * x)
    executor.forward(is_train=True)
    with pytest.raises(mx.MXNetError, match=r"has the shape \(6,\)"):
        executor.backward(mx.nd.ones((6,)))


@pytest.mark.parametrize("grad_req", ["null", {"x": "null", "w": "write"}])
def test_gradient_arrays_without_a_request_are_kept(grad_req: Any) -> None:
    x: Any = mx.sym.var("x")
    given = {name: mx.nd.full(DATA.shape, 9) for name in ("x", "w")}
    arrays = {"x": mx.nd.array(DATA), "w": mx.nd.ones(DATA.shape)}
    executor = (x * mx.sym.var("w")).bind(mx.cpu(), arrays, args_grad=given, grad_req=grad_req)
    assert executor.grad_dict["x"] is given["x"] and executor.grad_arrays[1] is given["w"]
    executor.forward(is_train=True)
    executor.backward(mx.nd.ones(DATA.shape))
    assert (given["x"].asnumpy() == 9).all()
    expected = np.full(DATA.shape, 9) if grad_req == "null" else DATA
    np.testing.assert_array_equal(given["w"].asnumpy(), expected)
