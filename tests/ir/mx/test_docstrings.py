"""Docstrings of operators describe each input and parameter, and their examples are correct."""

from __future__ import annotations

import doctest
import inspect

import mxforge as mx
import numpy as np
import pytest
from grouped import grouped, module_of
from mxforge.ir.dialects.mx import describe
from mxforge.ir.dialects.mx.operator import Operator, all_operators, lookup

OPERATORS = all_operators()
MOST_USED = """
    FullyConnected Convolution Deconvolution Pooling BatchNorm LayerNorm GroupNorm InstanceNorm L2Normalization LRN
    Dropout Embedding Activation LeakyReLU RNN UpSampling Pad SoftmaxActivation softmax log_softmax softmin
    SoftmaxOutput softmax_cross_entropy LinearRegressionOutput LogisticRegressionOutput MAERegressionOutput CTCLoss
    MakeLoss BlockGrad smooth_l1 hard_sigmoid clip
    elemwise_add elemwise_sub elemwise_mul elemwise_div add_n broadcast_add broadcast_sub broadcast_mul broadcast_div
    broadcast_mod broadcast_power broadcast_maximum broadcast_minimum broadcast_equal broadcast_not_equal
    broadcast_greater broadcast_greater_equal broadcast_lesser broadcast_lesser_equal broadcast_logical_and
    abs exp log log2 log10 log1p expm1 sqrt rsqrt square cbrt reciprocal sigmoid tanh relu softsign sign round rint
    floor ceil fix trunc sin cos tan arcsin arccos arctan sinh cosh erf gamma gammaln logical_not negative
    sum mean prod max min nansum norm argmax argmin moments
    Reshape Flatten transpose SwapAxis expand_dims squeeze tile repeat reverse Concat stack SliceChannel slice
    slice_axis slice_like broadcast_to broadcast_axis broadcast_like reshape_like depth_to_space space_to_depth diag
    Cast shape_array size_array where
    take batch_take pick gather_nd scatter_nd one_hot topk sort argsort SequenceMask SequenceLast SequenceReverse
    dot batch_dot _linalg_gemm _linalg_gemm2 _linalg_potrf _linalg_trsm _linalg_trmm _linalg_syrk _linalg_inverse
    _linalg_det
    zeros_like ones_like _arange _eye _linspace _random_uniform _random_normal _random_gamma _random_exponential
    _random_poisson
    sgd_update sgd_mom_update nag_mom_update adam_update rmsprop_update ftrl_update signsgd_update signum_update
""".split()


def names(op: type[Operator]) -> list[str]:
    return [name.rstrip("?*!") for name in op.inputs] + [p.name for p in describe.parameters(op)]


@grouped("op", OPERATORS, by=module_of, ids=lambda op: op.mx_name())
def test_each_argument_is_described(op: type[Operator]) -> None:
    texts = describe.argument_texts(op)
    assert [name for name in names(op) if name not in texts] == []
    assert all(text.endswith((".", ")")) for text in texts.values())
    assert op.__dict__["__doc__"]


def test_each_description_has_an_argument() -> None:
    for owner in {owner for op in OPERATORS for owner in op.__mro__ if owner is not Operator}:
        found = {name for op in OPERATORS if issubclass(op, owner) for name in names(op)}
        assert set(describe._entries(owner, "Args")) <= found, owner


@pytest.mark.parametrize("name", MOST_USED)
def test_the_most_used_operators_have_examples(name: str) -> None:
    assert "\nExamples\n--------\n>>> " in describe.docstring(lookup(name))


def written() -> list[tuple[str, str]]:
    """The docstrings of functions and methods that are not operators."""
    modules = [mx.nd.creation, mx.nd.random, mx.nd.NDArray]
    members = [(f"{m.__name__}.{name}", member) for m in modules for name, member in vars(m).items()]
    return [(name, member.__doc__) for name, member in members if inspect.isfunction(member) and member.__doc__]


def examples() -> list[doctest.DocTest]:
    found = [*((op.mx_name(), describe.docstring(op)) for op in OPERATORS), *written()]
    scope = {"mx": mx, "nd": mx.nd, "np": np}
    return [doctest.DocTestParser().get_doctest(text, scope, n, None, 0) for n, text in found if ">>> " in text]


@pytest.mark.parametrize("example", examples(), ids=lambda example: example.name)
def test_examples_are_right(example: doctest.DocTest) -> None:
    output: list[str] = []
    doctest.DocTestRunner().run(example, out=output.append)
    assert output == []


def test_a_docstring() -> None:
    text = describe.docstring(lookup("Embedding"), "Symbol")
    assert mx.sym.Embedding.__doc__ == text
    assert "weight : Symbol\n    (input_dim, output_dim), the table.\n" in text
    assert "input_dim : int, required\n    Number of rows of the table.\n" in text
    assert "momentum : float, default 0.9\n" in describe.docstring(lookup("BatchNorm"))
    assert "output : Symbol\n    (*data.shape, output_dim).\n" in text
