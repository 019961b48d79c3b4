"""Finds the functions of `mx.np` by name: operators, functions that choose one, and functions of NumPy itself."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from ..numpy_functions import names as shared_names
from .fallback import FALLBACK, from_numpy
from .functions import names as operator_names
from .functions import operator_function, operator_named
from .remembered import remembered

MODULE = "mxforge.numpy"

MORE = frozenset(
    """
    blackman broadcast_arrays delete hamming hanning histogram insert may_share_memory meshgrid resize set_printoptions
    shares_memory unravel_index
    """.split()
)
"""The functions of `more.py`."""

ARRAY_API = frozenset(
    """
    asarray boolean_dtypes can_cast fill_diagonal floating_dtypes from_dlpack iinfo int16 integer_dtypes numeric_dtypes
    tril_indices triu_indices uint16 uint32 uint64
    """.split()
)
"""The names of `array_api.py`."""

FINANCE = frozenset("mirr npv pmt ppmt pv rate".split())
"""The functions of `finance.py`."""

_MODULES = {"array_api": ARRAY_API, "finance": FINANCE, "more": MORE}


def find(name: str) -> Callable[..., Any] | None:
    """The function of this name; None if `mx.np` has none."""
    function = operator_function(name) or remembered(name, operator_named, MODULE)
    if function is not None:
        return function
    if name in FALLBACK:
        return from_numpy(name)
    module = next((module for module, members in _MODULES.items() if name in members), None)
    return None if module is None else vars(import_module(f".{module}", __package__))[name]


def names() -> set[str]:
    """The names of all functions."""
    return {*operator_names(), *shared_names(), *FALLBACK, *MORE, *ARRAY_API, *FINANCE}
