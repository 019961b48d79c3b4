"""`mx.npx`: neural operators on arrays of `mx.np`, and the switches of the NumPy mode."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ..context import (
    Context,
    Device,
    cpu,
    cpu_pinned,
    current_context,
    current_device,
    gpu,
    gpu_memory_info,
    num_gpus,
)
from ..generated_functions import Row
from ..numpy_functions import names
from ..numpy_rows import EXTENSIONS as _EXTENSIONS
from ..util import (
    get_cuda_compute_capability,
    is_np_array,
    is_np_default_dtype,
    is_np_shape,
    reset_np,
    set_np,
    set_np_default_dtype,
    use_np,
    use_np_array,
    use_np_shape,
)
from .control_flow import cond, foreach, while_loop
from .files import load, save, savez, waitall

_MODULES = ("image", "random")
_OF_ND = ("from_numpy", "to_dlpack_for_read", "to_dlpack_for_write")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f".{name}", __name__)
    from ..numpy.functions import NPX, operator_named
    from ..numpy.remembered import remembered

    if name == "from_dlpack":
        function: Any = import_module("..numpy.array_api", __package__).from_dlpack
    elif name in _OF_ND:
        function = getattr(import_module("..numpy.legacy", __package__).OPERATORS, name)
    elif name in _EXTENSIONS:
        function = NPX.listed(Row(name, _EXTENSIONS[name], ()))
    else:
        function = remembered(name, operator_named, "mxforge.numpy_extension", "npx")
    if function is None:
        raise AttributeError(f"module 'mxforge.numpy_extension' has no attribute {name!r}", name=name)
    function.__name__ = function.__qualname__ = name
    globals()[name] = function
    return function


def __dir__() -> list[str]:
    return sorted({*_EXTENSIONS, *names("npx"), *_MODULES, *_OF_ND, "from_dlpack"})
