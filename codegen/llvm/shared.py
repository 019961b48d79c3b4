"""The machine code that programs share: shape-free kernels, each compiled once per process.

A program from the disk cache contains the code of its kernels, which then serves new shapes too.
"""

from __future__ import annotations

from collections.abc import Iterable

from .cpu import Cpu

LOOPS, PRODUCTS, DYNAMIC = "g_", "p_", "d_"
"""Prefixes of symbols of shape-free code; the rest is the hash of the kernel's form, or of its code (DYNAMIC)."""

NESTED = "n_"
"""The prefix of symbols that only a function of the same object calls; the rest is the hash of the code."""

_code: dict[tuple[str, Cpu], bytes] = {}  # a few kilobytes each, one for each form in use


def shared_code(symbol: str, target: Cpu) -> bytes | None:
    """The object that defines a symbol; None if this process does not have it."""
    return _code.get((symbol, target))


def share_code(symbols: Iterable[str], target: Cpu, code: bytes) -> None:
    """Register an object that defines these symbols. Symbols of code for fixed shapes are ignored."""
    for symbol in symbols:
        if symbol.startswith((LOOPS, PRODUCTS, DYNAMIC)):
            _code.setdefault((symbol, target), code)
