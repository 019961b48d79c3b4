"""Gluon's blocks under MXNet's module name, with the other names that third-party code imports from it."""

from __future__ import annotations

from .. import initializer, ndarray, symbol  # noqa: F401
from .. import name as _name  # noqa: F401
from ..base import MXNetError, mx_real_t  # noqa: F401
from ..ndarray import NDArray  # noqa: F401
from ..symbol import Symbol, load_json  # noqa: F401
from ..util import is_np_array, np_array, np_shape  # noqa: F401
from .hybrid_block import HybridBlock
from .parameter import DeferredInitializationError, Parameter  # noqa: F401
from .parameter_dict import ParameterDict  # noqa: F401
from .plain_block import Block
from .structure import BlockScope as _BlockScope  # noqa: F401
from .structure import flatten as _flatten  # noqa: F401
from .structure import kinds_and_first as _gather_type_ctx_info  # noqa: F401
from .structure import regroup as _regroup  # noqa: F401
from .symbol_block import SymbolBlock
from .symbol_block import common_prefix as _common_prefix  # noqa: F401
from .utils import (  # noqa: F401
    HookHandle,
    _brief_print_list,
    _check_all_np_ndarrays,
    _check_same_symbol_type,
    _indent,
)

__all__ = ["Block", "HybridBlock", "SymbolBlock"]
