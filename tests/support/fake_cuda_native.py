"""The functions of the fake CUDA driver (`fake_cuda.py`) that native code calls: their types and their arguments."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from .fake_cuda_objects import Struct, numbered

_I32, _I64, _HANDLE = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_void_p


def _prototype(*types: Any) -> Any:
    return ctypes.CFUNCTYPE(ctypes.c_int32, *types)


def _kernel(function: int, *rest: int) -> tuple[Any, ...]:
    *sizes, stream, parameters, extra = rest
    return numbered(function), *sizes, numbered(stream), parameters, extra or 0


def _move(*arguments: int) -> tuple[Any, ...]:
    return *arguments[:-1], numbered(arguments[-1])


def _node(executable: int, node: int, parameters: int, *context: int) -> tuple[Any, ...]:
    params = Struct.numbers[parameters]
    params.read_memory()
    return numbered(executable), numbered(node), params, *map(numbered, context)


def _graph(executable: int, stream: int) -> tuple[Any, ...]:
    return numbered(executable), numbered(stream)


NATIVE: dict[str, tuple[Any, Callable[..., tuple[Any, ...]]]] = {
    "cuLaunchKernel": (_prototype(_HANDLE, *[_I32] * 7, _HANDLE, _HANDLE, _HANDLE), _kernel),
    "cuMemcpyDtoDAsync": (_prototype(_I64, _I64, _I64, _HANDLE), _move),
    "cuMemsetD8Async": (_prototype(_I64, ctypes.c_uint8, _I64, _HANDLE), _move),
    "cuGraphExecKernelNodeSetParams": (_prototype(_HANDLE, _HANDLE, _HANDLE), _node),
    "cuGraphExecMemcpyNodeSetParams": (_prototype(_HANDLE, _HANDLE, _HANDLE, _HANDLE), _node),
    "cuGraphExecMemsetNodeSetParams": (_prototype(_HANDLE, _HANDLE, _HANDLE, _HANDLE), _node),
    "cuGraphLaunch": (_prototype(_HANDLE, _HANDLE), _graph),
}
