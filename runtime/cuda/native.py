"""Lists of launches as the native code takes them (`runtime/host/native/cuda_launches.c`)."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable
from functools import cache
from typing import Any

from ..host.loader import load_object
from ..host.native_objects import CUDA_LAUNCHES, native_object
from .driver import MINIMUM, ok

KERNEL, COPY, FILL = range(3)

_FUNCTIONS = (
    *("cuLaunchKernel", "cuMemcpyDtoDAsync", "cuMemsetD8Async"),
    *("cuGraphExecKernelNodeSetParams", "cuGraphExecMemcpyNodeSetParams", "cuGraphExecMemsetNodeSetParams"),
    "cuGraphLaunch",
)


class NativeLaunch(ctypes.Structure):
    """`struct launch`."""

    _fields_ = tuple(
        (name, ctypes.c_int64)
        for name in "kind function size threads shared parameters first end node node_parameters".split()
    )


class NativeList(ctypes.Structure):
    """`struct list` without its launches."""

    _fields_ = tuple((name, ctypes.c_int64) for name in "driver stream context executable words seen launches".split())


@cache
def functions() -> tuple[Callable[[int], int], Callable[[int], int]]:
    """(start, replay): functions of the address of a list, without Python's lock. The result is 0, or an error and, in
    the upper half, the number of its launch plus 1."""
    machine = platform.machine().replace("arm64", "aarch64")
    code = load_object(native_object(CUDA_LAUNCHES, f"{machine}-linux"), lambda name: 0)
    code.keep_forever()
    prototype = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
    return prototype(code.address("mxf_cuda_start")), prototype(code.address("mxf_cuda_replay"))


def driver_functions(driver: Any) -> Any:
    """`struct driver`: the addresses of the driver's functions, of the version that mxforge needs at least."""
    addresses = [ok(driver.cuGetProcAddress(name.encode(), MINIMUM, 0))[0] for name in _FUNCTIONS]
    return (ctypes.c_int64 * len(addresses))(*map(int, addresses))


def new_list(count: int) -> tuple[NativeList, Any]:
    """A list with memory for its launches, and these."""
    block = (ctypes.c_char * (ctypes.sizeof(NativeList) + count * ctypes.sizeof(NativeLaunch)))()
    launches = (NativeLaunch * count).from_buffer(block, ctypes.sizeof(NativeList))
    return NativeList.from_buffer(block), launches
