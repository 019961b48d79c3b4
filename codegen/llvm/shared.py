"""The machine code that programs share: shape-free kernels, each compiled once in the life of a process.

A program that comes from the disk cache brings the code of its kernels along, which then serves new shapes too.
"""

from __future__ import annotations

from collections.abc import Iterable

from .cpu import Cpu

LOOPS, PRODUCTS, DYNAMIC = "g_", "p_", "d_"
"""How symbols of shape-free code begin; the rest is the hash of their form, or of the code itself (DYNAMIC)."""

NESTED = "n_"
"""How those begin that only a function of the same object calls: the rest is the hash of the code."""

_code: dict[tuple[str, Cpu], bytes] = {}  # a few kilobytes each, one for each form in use


def shared_code(symbol: str, target: Cpu) -> bytes | None:
    """The object that defines a symbol, if this process has it."""
    return _code.get((symbol, target))


def share_code(symbols: Iterable[str], target: Cpu, code: bytes) -> None:
    """Note that an object defines these symbols; those of code for fixed shapes are left out."""
    for symbol in symbols:
        if symbol.startswith((LOOPS, PRODUCTS, DYNAMIC)):
            _code.setdefault((symbol, target), code)
