"""Symbolic numbers (`ir/symbolic.py`) in kernels for any shapes: the text of a function names them, and its launches
pass them as arguments. Symbolic constants are written as numbers, since kernels for known channels are faster.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from math import prod
from typing import Any

from ...ir.symbolic import deferred, symbols_of
from ...ir.types import DType
from ..generalize import bits_of

_NAMED = re.compile(r"\b_v[0-9]+\b")
"""A symbolic number in the text of a function before `named_numbers`: the name that its trace gives it."""


def factors_of(symbol: Any) -> Iterator[tuple[tuple[str, ...], int]]:
    """A symbolic integer as a sum: the names of the numbers in each product that can change, and the rest of it."""
    fixed = symbol.trace.fixed
    for names, coefficient in symbol.polynomial.items():
        known = prod(fixed[n] for n in names if n in fixed)
        yield tuple(f"_{n}" for n in names if n not in fixed), coefficient * known


def is_fixed(symbol: Any) -> bool:
    """True if a symbolic number is a constant."""
    return symbol.name in symbol.trace.fixed


def bits_at_run_time(symbol: Any, dtype: DType) -> str:
    """The name of an argument of 64 bits that holds a symbolic number in `dtype`."""
    bits: Any = deferred(bits_of, symbol, dtype)
    return f"_{bits.name}"


def named_numbers(lines: Iterable[str], fresh: Any, kernel: object) -> tuple[list[str], dict[str, int]]:
    """The lines with names that depend on the order of the numbers alone, and the numbers by these names. `fresh` makes
    unused names; `kernel` has at least one of the numbers."""
    lines = list(lines)
    used = dict.fromkeys(name for line in lines for name in _NAMED.findall(line))
    if not used:
        return lines, {}
    trace = next(symbols_of((kernel,))).trace
    names = {name: fresh("number") for name in used}
    numbers = {new: trace.named(name[1:]) for name, new in names.items()}
    return [_NAMED.sub(lambda match: names[match[0]], line) for line in lines], numbers
