"""Invalid arguments of bind and simple_bind raise immediately, with a text that names the problem."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import mxforge as mx
import pytest

LAYER = mx.sym.FullyConnected(mx.sym.var("x"), num_hidden=3, name="fc")


def bound(**changed: Any) -> Any:
    arrays = {"x": mx.nd.ones((2, 4)), "fc_weight": mx.nd.ones((3, 4)), "fc_bias": mx.nd.ones(3)}
    return LAYER.bind(mx.cpu(), {**arrays, **changed})


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (lambda: mx.nd.ones((3, 5)), r"fc .*weight should be \(3, 4\), provided is \(3, 5\)"),
        (lambda: mx.nd.ones((3, 4), dtype="float16"), r"fc .*weight should be float32 like data, got float16"),
        (lambda: mx.nd.ones((3, 4), ctx=mx.cpu(1)), r"fc_weight is on cpu\(1\), the executor on cpu\(0\)"),
    ],
)
def test_arrays_of_wrong_shapes_are_refused(array: Callable[[], mx.nd.NDArray], text: str) -> None:
    with pytest.raises(mx.MXNetError, match=text):
        bound(fc_weight=array())
    assert bound().forward()[0].shape == (2, 3)


def test_contradictory_dtypes_are_refused() -> None:
    with pytest.raises(mx.MXNetError, match=r"fc .*weight should be float64 like data, got float32"):
        LAYER.infer_type(x="float64", fc_weight="float32")
    with pytest.raises(mx.MXNetError, match="4 types are given, and there are 3 arguments: x, fc_weight, fc_bias"):
        LAYER.infer_type(*["float32"] * 4)
    with pytest.raises(mx.MXNetError, match="4 shapes are given"):
        LAYER.infer_shape((2, 4), None, None, (2,))


def test_an_unknown_input_is_named() -> None:
    with (
        pytest.warns(UserWarning, match="Cannot decide shape"),
        pytest.raises(RuntimeError, match=r"datx: \(3, 4\)\n.*'datx': not an argument"),
    ):
        LAYER.simple_bind(mx.cpu(), datx=(3, 4))


def test_a_batch_with_too_few_arrays_is_refused() -> None:
    module = mx.mod.Module(LAYER, data_names=["x"], label_names=None)
    module.bind([("x", (2, 4))], for_training=False)
    module.init_params()
    with pytest.raises(ValueError, match=r"0 arrays, the module requires \['x'\]"):
        module.forward(mx.io.DataBatch([]))


def test_an_operator_accepts_only_arrays() -> None:
    with pytest.raises(AssertionError, match="relu: argument data must have NDArray type, but got 5"):
        mx.nd.relu(5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="relu got multiple values for argument 'data'"):
        mx.nd.relu(mx.nd.ones(2), data=mx.nd.ones(2))  # type: ignore[misc]


def through_a_hybridized_layer(x: mx.nd.NDArray) -> Any:
    layer = mx.gluon.nn.Dense(3, in_units=4)
    layer.initialize()
    layer.hybridize()
    return layer(x)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: mx.nd.dot(x, x),
        lambda x: x + mx.nd.ones((4, 5)),
        lambda x: mx.nd.maximum(x, mx.nd.ones((4, 5))),
        lambda x: LAYER.eval(x=x, fc_weight=mx.nd.ones((3, 3)), fc_bias=mx.nd.ones(5)),
        lambda x: mx.nd.sgd_update(x, mx.nd.ones(4), lr=0.1),
        through_a_hybridized_layer,
    ],
)
def test_errors_hide_the_fast_path(call: Callable[[mx.nd.NDArray], Any]) -> None:
    with pytest.raises(mx.MXNetError) as caught:
        call(mx.nd.ones((2, 3)))
    told = "".join(traceback.format_exception(caught.value))
    assert "During handling" not in told
    assert "KeyError" not in told
