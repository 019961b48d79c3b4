"""`mxforge.th`: functions of Lua Torch on arrays, which MXNet has only where it is built with that plugin."""

from __future__ import annotations

from typing import NoReturn


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(
        f"mx.th has no {name!r}: it is for functions of Lua Torch, by a plugin that MXNet's wheels do not have either"
    )
