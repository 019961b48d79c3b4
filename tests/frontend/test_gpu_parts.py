"""Parts of arrays on a GPU: reads and writes give what they give on the host, most without a copy there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.runtime.devices import open_device

pytestmark = pytest.mark.usefixtures("simulated_gpus")
nd = mx.nd
GPU = mx.gpu(0)
START = np.arange(1, 61, dtype=np.float32).reshape(3, 4, 5)
KEYS: dict[str, Any] = {
    "an element": (1, 2, 3),
    "a negative element": (-1, -1, -1),
    "a row": (1, 2),
    "rows of the last axes": (2, slice(1, 3)),
    "a part of a row": (0, 1, slice(1, 4)),
    "everything": slice(None),
    "nothing": slice(2, 2),
    "with an ellipsis": (1, ..., slice(None)),
    "with a new axis": (None, 1),
    "one element of an axis": (slice(1, 2), 0, slice(2, 3)),
}
SCATTERED: dict[str, Any] = {
    "a column": (slice(None), 0),
    "every second": slice(None, None, 2),
    "backwards": slice(None, None, -1),
    "a truth value": (True, 0),
    "a list": [2, 0],
}


def transfers(function: Callable[[], Any]) -> tuple[int, int]:
    """The copies from and to the host that a call makes."""
    stream: Any = open_device("gpu", 0).stream
    before = stream.uploads, stream.downloads
    function()
    return stream.uploads - before[0], stream.downloads - before[1]


def array(context: mx.Context = GPU) -> Any:
    return nd.array(START, ctx=context)


@pytest.mark.parametrize("name", [*KEYS, *SCATTERED])
def test_reads(name: str) -> None:
    key = (KEYS | SCATTERED)[name]
    x, here = array(), array(mx.cpu())
    found, expected = x[key], here[key]
    np.testing.assert_array_equal(expected.asnumpy(), START[key].reshape(expected.shape))
    np.testing.assert_array_equal(found.asnumpy(), expected.asnumpy())
    assert found.shape == expected.shape and found.context == GPU
    if name in KEYS:
        assert transfers(lambda: x[key]) == (0, 0)
        if found.size:
            found += 1
            np.testing.assert_array_equal(x.asnumpy()[key].reshape(-1), found.asnumpy().reshape(-1))


VALUES: dict[str, Callable[[tuple[int, ...], mx.Context], Any]] = {
    "zero": lambda shape, ctx: 0,
    "minus zero": lambda shape, ctx: -0.0,
    "a number": lambda shape, ctx: 7,
    "an array of the device": lambda shape, ctx: nd.full(shape, 9, ctx=ctx),
    "an array of the host": lambda shape, ctx: nd.full(shape, 9),
    "NumPy's": lambda shape, ctx: np.full(shape, 11),
    "integers": lambda shape, ctx: nd.full(shape, 5, ctx=ctx, dtype="int32"),
    "one element": lambda shape, ctx: nd.full((1,), 3, ctx=ctx),
}


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("name", [*KEYS, *SCATTERED])
def test_writes(name: str, value: str) -> None:
    key = (KEYS | SCATTERED)[name]
    shape = START[key].shape or (1,)
    written = []
    for context in (GPU, mx.cpu()):
        x = array(context)
        x[key] = VALUES[value](shape, context)
        written.append(x.asnumpy())
    np.testing.assert_array_equal(np.signbit(written[0]), np.signbit(written[1]))
    np.testing.assert_array_equal(*written)


def test_values_of_the_device_stay_there() -> None:
    x, y, other = array(), nd.ones((4, 5), ctx=GPU), nd.ones((4, 5), ctx=mx.gpu(1)) * 2

    def write() -> None:
        x[0] = y
        x[1] = other
        x[2] = 0

    assert transfers(write) == (0, 0)
    np.testing.assert_array_equal(x.asnumpy(), np.broadcast_to(np.array([1, 2, 0]).reshape(3, 1, 1), START.shape))


def test_an_array_is_written_over_a_part_that_it_shares() -> None:
    x = nd.arange(6, ctx=GPU)
    x[1:] = x[:-1]
    assert x.asnumpy().tolist() == [0, 0, 1, 2, 3, 4]
    x[:] = x
    assert x.asnumpy().tolist() == [0, 0, 1, 2, 3, 4]


def test_a_number_is_written_to_its_part_alone() -> None:
    x = array()

    def write() -> None:
        x[0, 1, 2:4] = 1

    assert transfers(write) == (0, 0)


def test_conversions_and_copies_stay_on_the_device() -> None:
    x, y = nd.array([1.5, -2.5], ctx=GPU), nd.zeros((2,), ctx=GPU)
    assert transfers(lambda: x.astype("int32")) == (0, 0)
    assert x.astype("int32").asnumpy().tolist() == [1, -2]
    assert transfers(lambda: x.copyto(y)) == (0, 0)
    assert y.asnumpy().tolist() == [1.5, -2.5]


def test_a_write_to_a_part_is_seen_by_what_was_prepared_from_it() -> None:
    net = mx.gluon.nn.Dense(2, use_bias=False, in_units=2)
    net.initialize(mx.init.One(), ctx=GPU)
    net.hybridize()
    x = nd.ones((1, 2), ctx=GPU)
    assert net(x).asnumpy().tolist() == [[2, 2]]
    weight = net.weight.data(GPU)
    weight[0] = nd.ones((2,), ctx=GPU) * 3
    weight[1] = 0
    assert net(x).asnumpy().tolist() == [[6, 0]]


def test_keys_outside_of_an_array() -> None:
    x = array()
    with pytest.raises(IndexError):
        x[3, 0]
    with pytest.raises(IndexError):
        x[0, 0, 0, 0] = 1


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["float32", "int64", "float16"])
def test_arrays_of_numpy_go_to_the_device_and_back(order: Any, dtype: str) -> None:
    values = np.asarray(START, dtype, order=order)
    x = nd.array(values, ctx=GPU, dtype=dtype)
    expected = values.copy()
    values[:] = 0
    back = x.asnumpy()
    np.testing.assert_array_equal(back, expected)
    back[:] = 1
    np.testing.assert_array_equal(x.asnumpy(), expected)
