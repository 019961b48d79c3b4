"""LLVM, as Python sees it: whoever imports this file loads the library, so only what compiles does, and late."""

# pyright: reportMissingTypeStubs=false
# (llvmlite has no types)

from __future__ import annotations

from llvmlite import binding

__all__ = ["binding"]
