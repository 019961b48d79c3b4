"""`mx.np.linalg`. Functions are created when they are first accessed."""

from __future__ import annotations

from typing import Any

import numpy as _onp

from ..numpy_functions import module_members
from .fallback import LINALG as _LINALG
from .fallback import from_numpy as _from_numpy
from .functions import operator_named
from .remembered import remembered as _remembered

_find, _listed = module_members(globals(), "linalg", operator_named, "mxforge.numpy.linalg", make=_remembered)


def __getattr__(name: str) -> Any:
    if name in _LINALG:
        function = globals()[name] = _from_numpy(name, _onp.linalg)
        return function
    return __dir__() if name == "__all__" else _find(name)


def __dir__() -> list[str]:
    return sorted({*_listed(), *_LINALG})
