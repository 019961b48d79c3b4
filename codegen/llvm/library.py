"""LLVM's Python binding. Importing this file loads the library, so only functions that compile import it."""

# pyright: reportMissingTypeStubs=false
# (llvmlite has no types)

from __future__ import annotations

from llvmlite import binding

__all__ = ["binding"]
