"""Restores names that newer versions of Python and NumPy removed, for programs and packages that use MXNet.

`mxforge exec` and `import mxforge.as_mxnet` restore them; `import mxforge` does not. Existing names are not replaced.
"""

from __future__ import annotations

import collections
import collections.abc
import inspect
import sys
from collections import namedtuple
from importlib import import_module
from typing import Any

_ArgSpec = namedtuple("ArgSpec", "args varargs keywords defaults")


def _getargspec(func: Any) -> _ArgSpec:
    """The first four fields of `inspect.getfullargspec`."""
    return _ArgSpec(*inspect.getfullargspec(func)[:4])


def restore_in_python() -> None:
    """Restore `collections.Iterable` and similar names, and `inspect.getargspec`.

    Also imports `multiprocessing.pool`, as MXNet does.
    """
    import_module("multiprocessing.pool")
    for name in collections.abc.__all__:
        _restore(collections, name, getattr(collections.abc, name))
    _restore(inspect, "ArgSpec", _ArgSpec)
    _restore(inspect, "getargspec", _getargspec)


# Names of NumPy 1.x: a Python type, or a name of NumPy 2. NumPy 2 has `np.bool` again, but not as Python's type.
_NUMPY = {
    "int": int,
    "float": float,
    "complex": complex,
    "object": object,
    "str": str,
    "unicode": str,
    "float_": "float64",
    "complex_": "complex128",
    "string_": "bytes_",
    "unicode_": "str_",
    "Inf": "inf",
    "Infinity": "inf",
    "infty": "inf",
    "PINF": "inf",
    "NaN": "nan",
    "product": "prod",
    "cumproduct": "cumprod",
    "sometrue": "any",
    "alltrue": "all",
    "round_": "round",
    "row_stack": "vstack",
    "trapz": "trapezoid",
}


def restore_in_numpy() -> None:
    """Restore `np.float`, `np.int`, `np.NaN`, `np.product` and other names."""
    import numpy as np

    for name, target in _NUMPY.items():
        _restore(np, name, getattr(np, target) if isinstance(target, str) else target)
    _restore(np, "NINF", -np.inf)
    _restore(np, "asscalar", lambda a: a.item())
    _restore(np, "asfarray", lambda a, dtype=np.float64: np.asarray(a, dtype))
    _restore(np, "in1d", lambda a, b, **kwargs: np.isin(np.ravel(a), b, **kwargs))


def _restore(module: Any, name: str, value: Any) -> None:
    # not hasattr: NumPy's __getattr__ handles removed names
    if name not in vars(module) and not _is_submodule(module, name):
        setattr(module, name, value)


def _is_submodule(module: Any, name: str) -> bool:
    return f"{module.__name__}.{name}" in sys.modules
