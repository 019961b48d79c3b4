"""Names that MXNet's modules have of each other: other people's code finds them where MXNet happens to import them."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

_NATIVE = "c_array c_array_buf c_handle_array c_str c_str_array check_call numeric_types py_str string_types"


def borrow(module: str, **places: str) -> Callable[[str], Any]:
    """The `__getattr__` of `module`: names of `base`, and those in `places`, as "ndarray" or "ndarray:NDArray" below
    the folder of the frontends."""
    root = module.partition(".frontend")[0] + ".frontend"
    known = {**{name: f"base:{name}" for name in _NATIVE.split()}, **places}

    def find(name: str) -> Any:
        if name not in known:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        place, _, member = known[name].partition(":")
        found = import_module(f"{root}.{place}")
        return getattr(found, member) if member else found

    return find
