"""`mx.sym.npx.image`: operators on images. Functions are created when they are first accessed."""

from __future__ import annotations

from typing import Any

from ...generated_functions import Row
from ...numpy_rows import IMAGE
from ..numpy.functions import NPX

__all__ = IMAGE.split()  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name not in IMAGE.split():
        raise AttributeError(f"module 'mxforge.symbol.numpy_extension.image' has no attribute {name!r}", name=name)
    function = globals()[name] = NPX.listed(Row(name, f"_npx__image_{name}", ()))
    return function


def __dir__() -> list[str]:
    return list(IMAGE.split())
