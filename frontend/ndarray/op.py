"""The operators of `nd` itself: `nd.op.FullyConnected` is `nd.FullyConnected`."""

from __future__ import annotations

from typing import Any

from .functions import attribute_finder, find_function

__getattr__, __dir__ = attribute_finder("", globals())


def all_finite(data: Any = None, init_output: bool = True, out: Any = None, name: Any = None, **kwargs: Any) -> Any:
    """(1,): 1 where all elements of `data` are finite, else 0; with `init_output` False also 0 where `out` held 0."""
    found = find_function("", "all_finite")(data, out=out if init_output else None, **kwargs)
    return found if init_output else _combined(found, out)


def multi_all_finite(
    *data: Any, num_arrays: int = 1, init_output: bool = True, out: Any = None, name: Any = None, **kwargs: Any
) -> Any:
    """`all_finite` of several arrays."""
    first = out if init_output else None
    found = find_function("", "multi_all_finite")(*data, num_arrays=num_arrays, out=first, **kwargs)
    return found if init_output else _combined(found, out)


def _combined(found: Any, out: Any) -> Any:
    """Write into `out` whether both it and `found` say so."""
    if out is None:
        return found
    out *= found
    return out
