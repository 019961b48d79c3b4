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
    finite = find_function("", "all_finite")(data, out=out if init_output else None, **kwargs)
    return finite if init_output else _combined(finite, out)


def multi_all_finite(
    *data: Any, num_arrays: int = 1, init_output: bool = True, out: Any = None, name: Any = None, **kwargs: Any
) -> Any:
    """`all_finite` for several arrays: 1 if all elements of all arrays are finite."""
    first = out if init_output else None
    finite = find_function("", "multi_all_finite")(*data, num_arrays=num_arrays, out=first, **kwargs)
    return finite if init_output else _combined(finite, out)


def _combined(finite: Any, out: Any) -> Any:
    """Multiply `out` by `finite`; returns `finite` without `out`."""
    if out is None:
        return finite
    out *= finite
    return out
