"""`mxforge.init`: they fill new parameters, chosen by the end of the name or by its `__init__` attribute."""

from __future__ import annotations

from typing import Any

from .. import registry
from ..base import string_types
from ..util import is_np_array
from .base import InitDesc, Initializer, _register, alias, create, register
from .fillers import (
    Bilinear,
    Constant,
    LSTMBias,
    MSRAPrelu,
    Normal,
    One,
    Orthogonal,
    Uniform,
    Xavier,
    Zero,
)
from .fused_rnn import FusedRNN
from .mixtures import Load, Mixed


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in ("ndarray", "random"):
        return import_module(f"..{name}", __package__)
    if name in ("NDArray", "load"):
        return getattr(import_module("..ndarray", __package__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
