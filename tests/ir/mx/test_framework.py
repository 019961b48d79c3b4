"""The framework of operators: parameters as text, updates of states, random draws, descriptions."""

from __future__ import annotations

import numpy as np
import pytest
from mxforge.ir.dialects.core import interpret
from mxforge.ir.dialects.mx import describe
from mxforge.ir.dialects.mx.builder import MxBuilder
from mxforge.ir.dialects.mx.operator import from_attributes, lookup
from mxforge.ir.types import DType, TensorType


def test_parameters_are_read_as_mxnet_writes_them() -> None:
    conv = lookup("Convolution")
    one = conv.parse({"kernel": "[3,3]", "num_filter": "4", "no_bias": "1", "layout": "None", "stride": "(2L, 2L)"})
    same = conv.parse({"kernel": (3, 3), "num_filter": 4, "no_bias": True, "stride": (2, 2)})
    assert one == same
    assert hash(one) == hash(same)
    assert one.attrs()["kernel"] == "[3,3]"
    assert same.attrs() == {"kernel": "(3, 3)", "no_bias": "True", "num_filter": "4", "stride": "(2, 2)"}


@pytest.mark.parametrize(
    ("name", "attrs", "message"),
    [
        ("Activation", {"act_type": "foo"}, r"Activation: act_type='foo': valid values are 'relu', 'sigmoid'"),
        ("Activation", {"act_type": "rleu"}, r"act_type='rleu': Did you mean 'relu'\? Valid values are 'relu', "),
        ("Activation", {}, "Activation requires the parameter 'act_type'"),
        ("Activation", {"act_type": "relu", "bogus": "1"}, "Activation has no parameter 'bogus'"),
        ("Convolution", {"kernel": "(3,3)", "num_filter": "2", "pad": "(1,)"}, "pad=.*must have 2 numbers"),
        ("FullyConnected", {"num_hidden": "2.5"}, "FullyConnected: num_hidden='2.5'"),
        ("FullyConnected", {"num_hidden": "2", "no_bias": "yes"}, "no_bias='yes': not a boolean"),
    ],
)
def test_a_wrong_parameter_is_named(name: str, attrs: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        lookup(name).parse(attrs)


def test_an_operator_without_parameters_reads_none() -> None:
    op = lookup("zeros_like").parse({"dtype": "int32"})
    assert op == lookup("zeros_like").parse({})
    assert op.attrs() == {"dtype": "int32"}


@pytest.mark.parametrize(
    ("name", "attrs"),
    [
        ("slice", {"begin": "(None, 1)", "end": "(2, None)"}),
        ("softmax", {"temperature": "2.5"}),
        ("split", {"num_outputs": 3}),
    ],
)
def test_printed_attributes_make_the_same_operator(name: str, attrs: dict[str, object]) -> None:
    op = lookup(name).parse(attrs)
    assert from_attributes(op.name, op.attributes()) == op


def test_training_updates_the_moving_statistics() -> None:
    b = MxBuilder(training=True)
    types = [TensorType(s, DType.F32) for s in [(4, 3), (3,), (3,), (3,), (3,)]]
    inputs = [b.input(t) for t in types]
    op = lookup("BatchNorm").parse({"momentum": 0.75})
    output = op.results(b, *inputs)[0]
    graph = b.build([output])
    assert graph.updates == (3, 4)
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    y, mean, var = interpret(graph, [x, *(np.ones(3, np.float32) for _ in range(4))])
    np.testing.assert_allclose(mean, 0.75 + 0.25 * x.mean(0), rtol=1e-6)
    np.testing.assert_allclose(var, 0.75 + 0.25 * x.var(0), rtol=1e-6)
    np.testing.assert_allclose(y.mean(0), np.ones(3), atol=1e-5)


def test_draws_of_one_graph_differ_and_share_one_key() -> None:
    b = MxBuilder(training=True)
    x = b.input(TensorType((64,), DType.F32))
    dropout = lookup("Dropout").parse({"p": 0.5})
    graph = b.build([dropout.results(b, x)[0], dropout.results(b, x)[0]])
    assert [v.name for v in graph.inputs] == ["", "random_key"]
    first, second = interpret(graph, [np.ones(64, np.float32), np.array([7, 0, 0, 0], np.uint32)])
    assert set(np.unique(first)) == {0.0, 2.0}
    assert not np.array_equal(first, second)


@pytest.mark.parametrize(
    ("name", "attrs", "mean", "deviation"),
    [
        ("_random_uniform", {"low": 2, "high": 4}, 3, 12**-0.5 * 2),
        ("_random_normal", {"loc": 1, "scale": 3}, 1, 3),
        ("_random_exponential", {"lam": 2}, 0.5, 0.5),
        ("_random_randint", {"low": -5, "high": 5}, -0.5, 8.25**0.5),
    ],
)
def test_distributions(name: str, attrs: dict[str, float], mean: float, deviation: float) -> None:
    b = MxBuilder()
    op = lookup(name).parse({**attrs, "shape": (20000,)})
    graph = b.build(op.results(b))
    (sample,) = interpret(graph, [np.array([1, 2, 0, 0], np.uint32)])
    assert sample.mean() == pytest.approx(mean, abs=0.05 * deviation)
    assert sample.std() == pytest.approx(deviation, rel=0.03)


def test_multinomial_follows_the_probabilities() -> None:
    b = MxBuilder()
    p = b.input(TensorType((2, 3), DType.F32))
    graph = b.build(lookup("sample_multinomial").parse({"shape": (9000,)}).results(b, p))
    table = np.array([[0.2, 0.3, 0.5], [1, 0, 0]], np.float32)
    (drawn,) = interpret(graph, [table, np.array([3, 1, 0, 0], np.uint32)])
    shares = np.array([np.bincount(row, minlength=3) / 9000 for row in drawn])
    np.testing.assert_allclose(shares, table, atol=0.02)


def test_descriptions_follow_from_the_declaration() -> None:
    dense = lookup("FullyConnected")
    assert describe.signature(dense) == "(data, weight, bias=None, *, num_hidden, no_bias=False, flatten=True)"
    text = describe.docstring(dense)
    assert "num_hidden : int, required" in text
    assert text.startswith("Applies a linear transformation")
