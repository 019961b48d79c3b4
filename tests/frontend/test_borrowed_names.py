"""Names that MXNet's modules import from other modules are found in the same modules."""

from __future__ import annotations

import ctypes
from typing import Any

import mxforge as mx
import pytest
from mxforge import nd

mxnet: Any = mx  # type checkers do not see borrowed names


def test_borrowed_names_are_the_same_objects() -> None:
    import os

    assert mxnet.test_utils.os is os and mxnet.autograd.NDArray is nd.NDArray and mxnet.nd.ndarray.py_slice is slice
    assert mx.base.NDArrayHandle is ctypes.c_void_p and mxnet.gluon.nn.basic_layers.nd is nd
    assert mxnet.autograd._LIB is mx.base._LIB and mxnet.nd._internal.CachedOp is nd.CachedOp
    assert mxnet.io.utils._has_instance([("x", nd.ones(2))], nd.NDArray) and "os" in dir(mxnet.test_utils)
    assert [name for name, _ in mxnet.io.io._init_data([nd.ones(2), nd.ones(2)], False, "data")] == [
        "_0_data",
        "_1_data",
    ]
    with pytest.raises(AttributeError, match=r"module 'mxforge.autograd' has no attribute 'nonsense'"):
        mxnet.autograd.nonsense  # noqa: B018


def test_the_operator_of_cached_ops_requires_a_graph() -> None:
    for call in (mxnet.sym._internal._CachedOp, mxnet.nd._internal._CachedOp):
        with pytest.raises(mx.MXNetError, match="no graph"):
            call()
