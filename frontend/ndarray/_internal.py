"""The operators whose names start with an underscore, such as `nd._internal._plus_scalar`: building blocks of other
functions."""

from __future__ import annotations

from typing import Any, NoReturn

from ..base import MXNetError
from .functions import attribute_finder

__getattr__, __dir__ = attribute_finder("_internal", globals())


def _CachedOp(*data: Any, **kwargs: Any) -> NoReturn:
    """Raises MXNetError, as in MXNet: the operator needs the graph that a CachedOp holds."""
    raise MXNetError("_CachedOp has no graph: call mx.nd.CachedOp(symbol)")


_CachedOpThreadSafe = _CachedOp


def _set_value(src: float, out: Any = None, name: Any = None) -> Any:
    """Fill `out` with a number."""
    if out is None:
        raise MXNetError("_set_value: Set value target must not be empty: out is not given")
    out[:] = float(src)
    return out
