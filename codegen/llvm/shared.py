"""Machine code without constant extents, which programs of any shapes share. It is compiled once per process.

The code is found by a symbol: a prefix and the hash of the kernel's form. A program that is read from the disk cache
adds the code of its kernels, which then serves new shapes too.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...ir.caches import Cache
from .cpu import Cpu

LOOPS, PRODUCTS, DYNAMIC = "g_", "p_", "d_"
"""Prefixes of symbols of shape-free code; the rest is the hash of the kernel's form, or of its code (DYNAMIC)."""

_code: Cache[tuple[str, Cpu], bytes] = Cache("shared code", 1 << 16, len, 64 << 20)


def shared_code(symbol: str, target: Cpu) -> bytes | None:
    """The object that defines a symbol; None if this process does not have it."""
    return _code.find((symbol, target.untuned))


def share_code(symbols: Iterable[str], target: Cpu, code: bytes) -> None:
    """Register an object that defines these symbols. Symbols of code for fixed shapes are ignored."""
    for symbol in symbols:
        if symbol.startswith((LOOPS, PRODUCTS, DYNAMIC)) and shared_code(symbol, target) is None:
            _code.add((symbol, target.untuned), code)
