"""`mxforge.ndarray.contrib` by the name that it had before."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    from importlib import import_module

    return getattr(import_module("..ndarray.contrib", __package__), name)


def __dir__() -> list[str]:
    from importlib import import_module

    return dir(import_module("..ndarray.contrib", __package__))
