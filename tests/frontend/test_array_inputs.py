"""What arrays accept as values and keys: objects, text, and whole keys while recording. Recorded from MXNet 1.9.1."""

from __future__ import annotations

from typing import Any

import mxforge as mx
import numpy as np
import pytest

OBJECTS = np.array([[1, 2.5], [3, 4]], object)  # as `.values` of a pandas table with columns of several types


@pytest.mark.parametrize(
    ("source", "dtype", "expected"),
    [
        (OBJECTS, None, [[1, 2.5], [3, 4]]),
        (OBJECTS, "int32", [[1, 2], [3, 4]]),
        (OBJECTS, "bool", [[True, True], [True, True]]),
        (OBJECTS, "bfloat16", [[1, 2.5], [3, 4]]),
        (np.array(["1e3 ", " 2"]), "float64", [1000, 2]),
        (np.array([b"1", b"2"]), "int64", [1, 2]),
        (["1", 2], None, [1, 2]),
        ([1.5, "2"], "int32", [1, 2]),
        (np.array([1, "3"], object), "float16", [1, 3]),
        (np.array(["2020-01-01"], "M8[D]"), None, [18262]),
        (np.array([], object), None, []),
        ("3", None, 3),
    ],
)
def test_objects_and_text_become_numbers(source: Any, dtype: Any, expected: Any) -> None:
    made = mx.nd.array(source, dtype=dtype)
    assert made.dtype == (mx.nd.zeros(1, dtype=dtype).dtype if dtype else np.float32)
    assert made.asnumpy().tolist() == expected and made.shape == np.shape(expected)


def test_none_is_nan() -> None:
    assert np.isnan(mx.nd.array([None, 1]).asnumpy()).tolist() == [True, False]
    assert np.isnan(mx.nd.array(np.array([1, None], object)).asnumpy()).tolist() == [False, True]


@pytest.mark.parametrize(
    ("source", "dtype", "error"),
    [
        (np.array(["1", "x"]), None, ValueError),
        (np.array(["2.5"]), "int32", ValueError),
        (np.array([1, None], object), "int32", TypeError),
        (np.array([1, [3]], object), None, ValueError),
        (np.array([(1, 2.0)], [("a", "i4"), ("b", "f4")]), None, TypeError),
        (["1", "x"], None, TypeError),
        ([None], "int32", TypeError),
        ({1: 2}, None, TypeError),
        ({1, 2}, None, TypeError),
        (iter([1]), None, TypeError),
        ([[1, 2], [3]], None, TypeError),
    ],
)
def test_values_that_are_not_numbers_are_refused(source: Any, dtype: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        mx.nd.array(source, dtype=dtype)


def test_objects_and_text_can_be_assigned() -> None:
    x = mx.nd.zeros((2, 2))
    x[:] = OBJECTS
    x[0] = ["7", 8]
    x[1, 0] = "3"
    assert x.asnumpy().tolist() == [[7, 8], [3, 4]]
    with pytest.raises(TypeError, match="does not support assignment with non-array-like object"):
        x[:] = ["a", "b"]


def test_broadcast_like_as_a_method_accepts_new_axes() -> None:
    assert mx.nd.ones((10,)).broadcast_like(mx.nd.ones((3, 10))).shape == (3, 10)
    with pytest.raises(ValueError, match="could not be broadcast"):
        mx.nd.ones((3, 10)).broadcast_like(mx.nd.ones((4, 10)))
    with pytest.raises(ValueError, match="could not be broadcast"):
        mx.nd.ones((10, 1)).broadcast_to((0, 10))
    with pytest.raises(mx.MXNetError, match="number of axes"):
        mx.nd.broadcast_like(mx.nd.ones((10,)), mx.nd.ones((3, 10)))


@pytest.mark.parametrize(
    "key", [np.array([0, 2]), np.array([True, False, True]), [0, 2], mx.nd.array([0, 2]), 1, slice(2), (slice(None), 0)]
)
def test_a_part_cannot_be_assigned_while_recording(key: Any) -> None:
    x, y = mx.nd.ones((3, 2)), mx.nd.ones((1,))
    y.attach_grad()
    with mx.autograd.record(), pytest.raises(mx.MXNetError, match="Inplace operations"):
        x[key] = y * 3


@pytest.mark.parametrize(
    "key",
    [
        slice(None),
        ...,
        None,
        (slice(None), slice(None)),
        (..., slice(None)),
        slice(0, 3),
        (slice(0, 9), slice(0, 2, 1)),
    ],
)
@pytest.mark.parametrize("shape", [(1,), (2,), (3, 1), (1, 1, 3, 2)])
def test_a_key_that_selects_all_can_be_assigned_while_recording(key: Any, shape: tuple[int, ...]) -> None:
    x: Any = mx.nd.zeros((3, 2))
    y: Any = mx.nd.ones(shape)
    y.attach_grad()
    with mx.autograd.record():
        x[key] = y * 3
        total = (x * x).sum()
    total.backward()
    assert (x.asnumpy() == 3).all() and (y.grad.asnumpy() == 18 * 6 / y.size).all()


def test_a_scalar_can_be_assigned_while_recording() -> None:
    with mx.util.np_shape():
        x: Any = mx.nd.array(np.array(3.0))
        y, z = mx.nd.zeros(()), mx.nd.zeros(())
        x.attach_grad()
        with mx.autograd.record():
            mx.nd.square(x, out=y)
            z[:] = y * 2
        z.backward()
    assert (float(z.asnumpy()), float(x.grad.asnumpy())) == (18, 12)
