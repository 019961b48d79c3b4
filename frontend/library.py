"""Libraries of C++ operators. mxforge cannot load them: they are built against MXNet's headers."""

from __future__ import annotations

import os

from .base import MXNetError

__all__ = ["load"]


def load(path: str, verbose: bool = True) -> None:
    """Raises MXNetError: the path is invalid, or the library cannot be used."""
    if not os.path.exists(path):
        raise MXNetError(f"load path {path} does NOT exist")
    if not os.path.isabs(path):
        raise MXNetError(f"load path {path} is not an absolute path")
    if os.path.splitext(path)[1] not in (".so", ".dll"):
        raise MXNetError(f"load path {path} is NOT a library file")
    raise MXNetError(
        f"library.load: {path} is built against MXNet's C++ headers and mxforge cannot load it: replace its "
        "operators by others, or write a CustomOp"
    )
