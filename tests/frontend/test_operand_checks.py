"""Calls with invalid operands or parameters raise an error that names operator, argument and reason."""

from __future__ import annotations

import mxforge as mx
import numpy as np
import pytest
from mxforge import nd
from mxforge.frontend.ndarray.eager import operator_named

o = nd.ones

SHAPES = [
    ("nd.Convolution(o((1, 3, 8, 8)), o((7, 3, 3, 3)), o((4,)), num_filter=4, kernel=(3, 3))", "weight", (4, 3, 3, 3)),
    ("nd.Convolution(o((1, 3, 8, 8)), o((4, 3, 5, 5)), o((4,)), num_filter=4, kernel=(3, 3))", "weight", (4, 3, 3, 3)),
    ("nd.Convolution(o((1, 3, 8, 8)), o((4, 3, 3, 3)), o((1,)), num_filter=4, kernel=(3, 3))", "bias", (4,)),
    ("nd.FullyConnected(o((2, 5)), o((3, 4)), o((3,)), num_hidden=3)", "weight", (3, 5)),
    ("nd.LayerNorm(o((2, 3)), o((1,)), o((3,)))", "gamma", (3,)),
    ("nd.LayerNorm(o((2, 3)), o((3,)), o((1,)))", "beta", (3,)),
    ("nd.Embedding(o((2,)), o((4,)), input_dim=4, output_dim=2)", "weight", (4, 2)),
    ("nd.Embedding(o((2,)), o((4, 3)), input_dim=4, output_dim=2)", "weight", (4, 2)),
    (
        "nd.RNN(o((2, 1, 3)), o((500,)), o((1, 1, 3)), state_size=3, num_layers=1, mode='rnn_tanh')",
        "parameters",
        (24,),
    ),
]


@pytest.mark.parametrize(("call", "argument", "inferred"), SHAPES)
def test_a_wrong_shape_is_named(call: str, argument: str, inferred: tuple[int, ...]) -> None:
    with pytest.raises(mx.MXNetError) as caught:
        eval(call, {"nd": nd, "o": o})
    assert f"Shape inconsistent: {argument} should be {inferred}, provided is " in str(caught.value)


def test_a_graph_of_wrong_shapes_names_node_and_argument() -> None:
    dense = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name="fc")
    with pytest.raises(mx.MXNetError, match=r"fc \(.*weight should be \(3, 5\), provided is \(3, 4\)"):
        dense.infer_shape(data=(2, 5), fc_weight=(3, 4))


REASONS = [
    ("nd.Convolution(o((1, 3, 2, 2)), o((4, 3, 3, 3)), num_filter=4, kernel=(3, 3), no_bias=True)", "exceeds input"),
    ("nd.Convolution(o((1, 3, 8)), o((4, 3, 3, 3)), num_filter=4, kernel=(3, 3), no_bias=True)", "should have 4 axes"),
    (
        "nd.Deconvolution(o((1, 3, 1, 1)), o((3, 4, 1, 1)), num_filter=4, kernel=(1, 1), pad=(1, 1))",
        "leaves an empty output",
    ),
    ("nd.Pooling(o((1, 3, 2, 2)), kernel=(3, 3))", "exceeds input"),
    ("nd.Pooling(o((1, 3, 2, 2)), kernel=(3, 3), pooling_convention='full')", "exceeds input"),
    ("nd.Pooling(o((1, 1, 4)), kernel=(2,), pad=(2,))", "must be smaller than kernel"),
    ("nd.Pooling_v1(o((1, 3, 2, 2)), kernel=(3, 3))", "exceeds input"),
    ("nd.Pooling_v1(o((1, 3, 2)), kernel=(3, 3))", "1 spatial axes"),
    ("nd.topk(o((3,)), k=9)", "k must not exceed the 3 elements"),
    ("nd.one_hot(o((2,)), depth=-1)", "depth=-1: must not be negative"),
    ("nd.concat()", "at least one array"),
    ("nd.FullyConnected(o((2, 5)), o((3, 5)), num_hidden=0, no_bias=True)", "num_hidden=0: must be positive"),
    ("nd.FullyConnected(o((2, 5)), o((3, 5)), num_hidden='x')", "num_hidden='x': 'x' is not an integer"),
]


@pytest.mark.parametrize(("call", "reason"), REASONS)
def test_errors_contain_the_reason(call: str, reason: str) -> None:
    with pytest.raises(mx.MXNetError, match=reason.replace("(", r"\(").replace(")", r"\)")):
        eval(call, {"nd": nd, "o": o})


def test_inference_refuses_a_kernel_beyond_the_input() -> None:
    layer = mx.sym.Convolution(mx.sym.var("data"), kernel=(5, 5), num_filter=4)
    with pytest.raises(mx.MXNetError, match="exceeds input"):
        layer.infer_shape(data=(1, 3, 2, 2))


def test_the_maximum_of_padding_only_is_the_lowest_number() -> None:
    pooled = nd.Pooling(o((1, 1, 4)), kernel=(1,), stride=(2,), pooling_convention="full")
    assert pooled.asnumpy().ravel().tolist() == [1.0, 1.0, -3.4028234663852886e38]


def test_an_absent_operator_raises_with_its_name() -> None:
    with pytest.raises(mx.MXNetError, match="'_absent': no such operator is declared"):
        operator_named("_absent")


@pytest.mark.parametrize("kind", ["max", "sum"])
@pytest.mark.parametrize("shape", [(7,), (5, 4), (3, 4, 5)])
def test_the_convention_same(kind: str, shape: tuple[int, ...]) -> None:
    """Windows start at each multiple of the stride and stop at the end of the input. MXNet refuses it or fails."""
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    starts = list(np.ndindex(*[-(-n // 2) for n in shape]))
    parts = [x[tuple(slice(2 * i, 2 * i + 3) for i in start)] for start in starts]
    expected = [part.max() if kind == "max" else part.sum() for part in parts]
    kernel, stride = (3,) * len(shape), (2,) * len(shape)
    data = nd.array(x[None, None])
    pooled = nd.Pooling(data, kernel=kernel, stride=stride, pool_type=kind, pooling_convention="same")
    assert pooled.shape == (1, 1, *[-(-n // 2) for n in shape])
    np.testing.assert_allclose(pooled.asnumpy().ravel(), expected, 1e-5, 1e-6)


def test_operands_of_two_dtypes_are_refused() -> None:
    with pytest.raises(mx.MXNetError, match=r"rhs should be float32 like lhs, got int32"):
        _ = nd.ones((2,)) + nd.ones((2,), dtype="int32")
    with pytest.raises(mx.MXNetError, match=r"LayerNorm.*data must have a floating dtype, got int32"):
        x = nd.ones((3,), dtype="int32")
        nd.LayerNorm(x, x, x)


def test_broadcast_like_requires_axes_if_they_are_passed() -> None:
    x, like = mx.nd.ones((1, 2)), mx.nd.ones((5, 2))
    for axes in ((), (1,)):
        with pytest.raises(
            mx.MXNetError, match=r"broadcast_like: lhs_axes=\(\) and rhs_axes=.* must have the same length"
        ):
            mx.nd.broadcast_like(x, like, lhs_axes=(), rhs_axes=axes)
    assert mx.nd.broadcast_like(x, like, lhs_axes=(0,), rhs_axes=(-2,)).shape == (5, 2)
