"""The operators of `nd`: `nd.op.FullyConnected` is `nd.FullyConnected`."""

from __future__ import annotations

from typing import Any

from .functions import attribute_finder, find_function

__getattr__, __dir__ = attribute_finder("", globals())


def all_finite(data: Any = None, init_output: bool = True, out: Any = None, name: Any = None, **kwargs: Any) -> Any:
    """An array of shape (1,): 1 if all elements of `data` are finite, else 0.

    Args:
        data: The array.
        init_output: False to combine the result with the value of `out`: 0 stays 0.
        out: An array that receives the result.
    """
    found = find_function("", "all_finite")(data, out=out if init_output else None, **kwargs)
    return found if init_output else _combined(found, out)


def multi_all_finite(
    *data: Any, num_arrays: int = 1, init_output: bool = True, out: Any = None, name: Any = None, **kwargs: Any
) -> Any:
    """`all_finite` for several arrays: 1 if all elements of all arrays are finite."""
    first = out if init_output else None
    found = find_function("", "multi_all_finite")(*data, num_arrays=num_arrays, out=first, **kwargs)
    return found if init_output else _combined(found, out)


def _combined(found: Any, out: Any) -> Any:
    """Multiply `out` by `found`; returns `found` without `out`."""
    if out is None:
        return found
    out *= found
    return out
