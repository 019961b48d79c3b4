"""`mxforge.sym`: symbols, and one function for each of MXNet's operators, which is created on first access."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..generated_functions import names_of as _names_of
from . import _internal, contrib, image, linalg, op, random, sparse
from .creation import (
    arange,
    eye,
    full,
    histogram,
    hypot,
    linspace,
    maximum,
    minimum,
    ones,
    pow,
    power,
    split_v2,
    zeros,
)
from .symbol import NotImplementedForSymbol, Symbol, fromjson, load, load_json
from .variable import Group, Variable, var

if TYPE_CHECKING:
    from .op import *  # noqa: F403  # pyright: ignore[reportMissingModuleSource]


def __getattr__(name: str) -> Any:
    function = globals()[name] = getattr(op, name)
    return function


def __dir__() -> list[str]:
    return sorted({*globals(), *_names_of("")})
