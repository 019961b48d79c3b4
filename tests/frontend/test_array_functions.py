"""Functions of single arrays, and the gradient of SVMOutput."""

from __future__ import annotations

from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.ir.dialects.core import interpret
from mxforge.ir.dialects.mx.builder import MxBuilder
from mxforge.ir.dialects.mx.operator import lookup
from mxforge.ir.types import DType, TensorType

nd = mx.nd
internal: Any = nd._internal


def test_setting_an_array() -> None:
    out = nd.zeros((2, 2))
    assert internal._set_value(src=3.5, out=out) is out
    assert out.asnumpy().tolist() == [[3.5, 3.5], [3.5, 3.5]]
    with pytest.raises(mx.base.MXNetError, match="must not be empty"):
        internal._set_value(src=1)


@pytest.mark.parametrize("shape", [(2.0, 3), (2, 3.0), (True, 6)])
def test_a_known_call_does_not_accept_equal_parameters_of_other_types(shape: Any) -> None:
    x = nd.ones((3, 2))
    assert nd.reshape(x, shape=tuple(map(int, shape))).shape == nd.reshape(x, tuple(map(int, shape))).shape
    for call in (lambda: nd.reshape(x, shape=shape), lambda: nd.reshape(x, shape)):
        with pytest.raises(mx.base.MXNetError, match="is not an integer"):
            call()


def test_one_hot_rows() -> None:
    out = nd.ones((3, 4))
    found = internal._onehot_encode(nd.array([1, 0, 7]), out)
    assert found.asnumpy().tolist() == [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]]
    assert internal._onehot_encode(nd.array([3, 3, 3]), out, out=out) is out
    assert out.asnumpy().tolist() == [[0, 0, 0, 1]] * 3
    with pytest.raises(mx.base.MXNetError, match="takes"):
        internal._onehot_encode(nd.array([1, 0]), out)


def test_a_boolean_mask_passes_gradients() -> None:
    data = nd.array([[1, 2], [3, 4], [5, 6], [7, 8]])
    for mask, expected in (([1, 0, 1, 1], [[0, 2], [0, 0], [4, 6], [8, 10]]), ([0, 0, 0, 0], [[0, 0]] * 4)):
        data.attach_grad()
        with mx.autograd.record():
            chosen = nd.contrib.boolean_mask(data * 2, nd.array(mask))
            loss = (chosen * nd.arange(chosen.size).reshape(chosen.shape)).sum() if chosen.size else chosen.sum()
        loss.backward()
        assert data.grad is not None and data.grad.asnumpy().tolist() == expected


def test_boolean_mask_of_slices() -> None:
    data = nd.array([[1, 2], [3, 4], [5, 6]])
    assert nd.contrib.boolean_mask(data, nd.array([1, 0, 2])).asnumpy().tolist() == [[1, 2], [5, 6]]
    assert nd.contrib.boolean_mask(data, nd.array([0, 0, 0])).shape == (0, 2)


@pytest.mark.parametrize(
    ("linear", "expected"),
    [
        ("False", [[1.4, 0, 0], [3.9, 0.65, -0.15]]),
        ("True", [[0.5, 0, 0], [0.5, 0.5, -0.5]]),
    ],
)
def test_the_gradient_of_a_support_vector_machine(linear: str, expected: Any) -> None:
    """The expected values are MXNet's results."""
    op = lookup("SVMOutput").parse({"margin": "0.9", "regularization_coefficient": "0.5", "use_linear": linear})
    scores, label = np.array([[0.5, 2, -1.5], [3, -0.25, 0.75]], np.float32), np.array([1, 2], np.float32)
    b = MxBuilder("svm", training=True)
    operands = [b.input(TensorType(x.shape, DType.F32)) for x in (scores, label)]
    results = op.results(b, *operands)
    assert op.gradient is not None
    gradients = op.gradient(b, operands, results, results)
    assert gradients[0] is not None
    found = interpret(b.build([gradients[0]]), [scores, label])
    np.testing.assert_allclose(found[0], expected, atol=1e-6)
    assert gradients[1] is None
