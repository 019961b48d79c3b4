"""Every operator as a function of symbols under MXNet's full name, such as `_internal._plus_scalar`."""

from __future__ import annotations

from typing import Any, NoReturn

from ..attribute import AttrScope  # noqa: F401 (a name of MXNet)
from ..base import MXNetError
from ..name import NameManager  # noqa: F401 (a name of MXNet)
from .ops import attribute_finder
from .symbol import Symbol as SymbolBase  # noqa: F401 (a name of MXNet)

__getattr__, __dir__ = attribute_finder("_internal", globals())


def _CachedOp(*data: Any, **kwargs: Any) -> NoReturn:
    """Raises MXNetError, as in MXNet: the operator needs the graph that a CachedOp holds."""
    raise MXNetError("_CachedOp has no graph: call mx.nd.CachedOp(symbol)")


_CachedOpThreadSafe = _CachedOp
