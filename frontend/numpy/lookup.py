"""Finds the functions of `mx.np` by name: operators, functions that choose one, and functions of NumPy itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from ..generated_functions import Function
from ..ndarray.functions import function_of, splitter
from ..numpy_functions import bound
from ..numpy_functions import names as shared_names
from .fallback import FALLBACK, from_numpy
from .functions import NP, operator_function
from .functions import names as operator_names

MODULE = "mxforge.numpy"

MORE = frozenset(
    """
    bincount blackman broadcast_arrays delete diag_indices_from hamming hanning histogram insert may_share_memory
    meshgrid percentile polyval quantile resize set_printoptions shares_memory unique unravel_index
    """.split()
)
"""The functions of `more.py`."""


@cache
def operator_named(name: str) -> Function:
    """The function of an operator, by the operator's name, on arrays of `mx.np`."""
    from ...ir.dialects.mx.operator import lookup
    from ..generated_functions import Arguments

    cls = lookup(name)
    return function_of(cls, splitter(Arguments(cls, name, NP.values, ("out", "name"))), True)


def find(name: str) -> Callable[..., Any] | None:
    """The function of this name; None if `mx.np` has none."""
    function = operator_function(name) or bound(name, operator_named, MODULE)
    if function is not None:
        return function
    if name in FALLBACK:
        return from_numpy(name)
    return vars(import_module(".more", __package__))[name] if name in MORE else None


def names() -> set[str]:
    """The names of all functions."""
    return {*operator_names(), *shared_names(), *MORE, *FALLBACK}
