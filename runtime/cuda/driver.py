"""The CUDA driver, through the package cuda-bindings. It is imported and started when a GPU is first requested.

    start()           the module `cuda.bindings.driver`, ready for calls
    enter(context)    makes a context the current one of this thread
    ok(result)        the results of a call; CudaError if it failed

A function of the module returns a tuple: an error code, 0 for success, and the results.
"""

from __future__ import annotations

import importlib
import os
import threading
from typing import Any

from ..errors import device_failed

OUT_OF_MEMORY, NO_DEVICE, NOT_READY = 2, 100, 600

LOST = frozenset({214, 220, 700, 702, 710, 714, 715, 716, 717, 718, 719})
"""Errors after which no call of this process works on the device, such as an access to an illegal address."""

MINIMUM = 12000
"""The oldest version of CUDA whose drivers load the cubins that Triton compiles: 1000 * major + 10 * minor."""

_INSTALL = "install NVIDIA's driver, version 525 or newer (https://www.nvidia.com/drivers)"


class NoCuda(Exception):
    """CUDA cannot be used. The message is the reason, and what to install."""


class CudaError(Exception):
    """A call of the driver failed, with the error code `code`."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class _Current(threading.local):
    """The current context of each thread."""

    context: Any = None


class _State:
    """The module of the driver, if it is started; whether that was before a fork."""

    def __init__(self) -> None:
        self.module: Any = None
        self.current = _Current()
        self.forked = False

    def in_child(self) -> None:
        """Forget what a forked child does not have."""
        self.forked, self.current = self.module is not None, _Current()


_state = _State()


def start() -> Any:
    """The functions and constants of the driver. NoCuda if there is none. In a child of a process that started it, the
    error of `errors.device_failed`."""
    if _state.forked:
        raise device_failed(
            "this process was forked after CUDA had started, so it cannot use GPUs: use cpu() in it, start it with the "
            "method 'spawn', or fork before the first use of a GPU"
        )
    if _state.module is None:
        _state.module = _start()
    return _state.module


def _start() -> Any:
    try:
        driver = importlib.import_module("cuda.bindings.driver")
    except ModuleNotFoundError:
        raise NoCuda("the package cuda-bindings is not installed: pip install mxforge[cuda]") from None
    try:
        result = driver.cuInit(0)
    except Exception as error:  # the package has no class for a library that cannot be loaded
        raise NoCuda(f"the library of the NVIDIA driver (libcuda.so.1) cannot be loaded: {_INSTALL}") from error
    if result[0] == NO_DEVICE:
        raise NoCuda("the NVIDIA driver finds no GPU: see nvidia-smi, and CUDA_VISIBLE_DEVICES in the environment")
    try:
        ok(result, driver)
        version = int(ok(driver.cuDriverGetVersion(), driver))
    except CudaError as error:
        raise NoCuda(f"the NVIDIA driver cannot be started: {error}") from None
    if version < MINIMUM:
        raise NoCuda(f"the NVIDIA driver is for CUDA {version // 1000}.{version % 1000 // 10}: {_INSTALL}")
    return driver


def is_forked() -> bool:
    """True in a child of a process that started the driver: no call is possible."""
    return _state.forked


def enter(context: Any) -> None:
    """Make `context` the current one of this thread. The driver requires this of every thread that calls it."""
    current = _state.current
    if current.context is not context:
        ok(start().cuCtxSetCurrent(context))
        current.context = context


def ok(result: tuple[Any, ...], driver: Any = None) -> Any:
    """The result of a call, or a tuple of several. CudaError if it failed."""
    if result[0]:
        raise CudaError(int(result[0]), describe(result[0], driver or start()))
    return result[1] if len(result) == 2 else result[1:]


def describe(code: Any, driver: Any) -> str:
    """The name and the meaning of an error code."""
    known = driver.CUresult(int(code))
    texts = [found for error, found in (driver.cuGetErrorName(known), driver.cuGetErrorString(known)) if not error]
    return ": ".join(text.decode() for text in texts if text) or f"error {int(code)}"


def _in_child() -> None:
    _state.in_child()


os.register_at_fork(after_in_child=_in_child)
