"""`mxforge.th`: functions of Lua Torch on arrays, which MXNet has only if it is built with the Torch plugin."""

from __future__ import annotations

from typing import NoReturn


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(
        f"mx.th has no {name!r}: functions of Lua Torch need a plugin that MXNet's wheels do not contain either"
    )
