"""`mx.np`: NumPy's interface for arrays of MXNet. Functions are created when they are first accessed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as _onp

from ..namespace.attribute_error import attribute_error
from ..ndarray.numpy_array import ndarray
from .creation import (
    arange,
    array,
    empty,
    empty_like,
    eye,
    full,
    full_like,
    identity,
    indices,
    linspace,
    logspace,
    ones,
    ones_like,
    zeros,
    zeros_like,
)

pi, e, inf, nan, newaxis = _onp.pi, _onp.e, _onp.inf, _onp.nan, None
NAN = NaN = _onp.nan
PINF, NINF, PZERO, NZERO = _onp.inf, -_onp.inf, 0.0, -0.0
float16, float32, float64 = _onp.float16, _onp.float32, _onp.float64
int8, int32, int64, uint8, bool_, bool = _onp.int8, _onp.int32, _onp.int64, _onp.uint8, _onp.bool_, _onp.bool_
dtype, finfo = _onp.dtype, _onp.finfo

_MODULES = ("linalg", "random")


def __getattr__(name: str) -> Any:
    from .lookup import find

    if name in _MODULES:
        return import_module(f".{name}", __name__)
    function = find(name)
    if function is None:
        raise attribute_error("mxforge", "numpy", name)
    globals()[name] = function
    return function


def __dir__() -> list[str]:
    from .lookup import names

    return sorted({*(n for n in globals() if not n.startswith("_")), *names(), *_MODULES})
