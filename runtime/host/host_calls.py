"""Calls Python functions from compiled programs, and passes arrays in and out.

No exception can pass through native code. So an exception is stored, and raised when the program has ended.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.program import HostFunction
from ...ir.types import DType, TensorType
from ..writes import written_at

Array = np.ndarray[Any, Any]
_KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int32)


class HostCalls:
    """The Python functions of one program as kernels. A launch of one runs on the thread that runs the program."""

    def __init__(self, functions: tuple[HostFunction, ...]) -> None:
        self._raised = threading.local()
        self._kernels = {f.symbol: _KERNEL(self._kernel(f)) for f in functions}
        found = {name: ctypes.cast(kernel, ctypes.c_void_p).value for name, kernel in self._kernels.items()}
        self.addresses = {name: address or 0 for name, address in found.items()}
        """The addresses of the kernels by symbol."""

    def begin(self) -> BaseException | None:
        """Start a run on this thread. Returns the exception of the run that is in progress around it, for `finish`."""
        outer: BaseException | None = getattr(self._raised, "error", None)
        self._raised.error = None
        return outer

    def finish(self, outer: BaseException | None) -> None:
        """Finish the run: raise the exception that a function raised in it, and restore `outer`."""
        error: BaseException | None = self._raised.error
        self._raised.error = outer
        if error is not None:
            raise error

    def _kernel(self, function: HostFunction) -> Any:
        types = (*function.inputs, *function.outputs)

        def call(arguments: int, begin: int, end: int, worker: int) -> None:
            addresses = (ctypes.c_int64 * len(types)).from_address(arguments)
            arrays = [_at(address, type) for address, type in zip(addresses, types, strict=True)]
            operands, results = arrays[: len(function.inputs)], arrays[len(function.inputs) :]
            try:
                if self._raised.error is not None:
                    raise RuntimeError("an earlier function failed")
                found, changed = call_on_copies(function, operands)
                for i, new in changed:
                    operands[i][...] = new
                    written_at(addresses[i])
                for target, type, value in zip(results, function.outputs, found, strict=True):
                    np.copyto(target, as_memory(value, type), casting="no")
            except BaseException as error:
                self._raised.error = self._raised.error or error
                for target in results:
                    target[...] = 0

        return call


def call_on_copies(
    function: HostFunction, operands: Sequence[Array]
) -> tuple[Sequence[Array], list[tuple[int, Array]]]:
    """The results of a function for operands in memory, and the memory's new content for the operands that it wrote."""
    copies = [*map(read_memory, operands, function.inputs)]
    found = function.function(*copies)
    new = [(i, as_memory(copies[i], function.inputs[i])) for i in function.writes]
    return found, [(i, array) for i, array in new if not np.array_equal(_bytes(array), _bytes(operands[i]))]


def _bytes(array: Array) -> Array:
    return array.reshape(-1).view(np.uint8)


def memory_dtype(type: TensorType) -> np.dtype[Any]:
    """NumPy's dtype of a tensor's memory; uint16 for BF16, which NumPy does not have."""
    return np.dtype(np.uint16) if type.dtype is DType.BF16 else type.dtype.numpy


def _at(address: int, type: TensorType) -> np.ndarray[Any, Any]:
    """The memory of a tensor."""
    dtype = memory_dtype(type)
    if not type.size:
        return np.empty(type.shape, dtype)
    memory: Any = (ctypes.c_char * type.nbytes).from_address(address)
    return np.ndarray(type.shape, dtype, memory)


def read_memory(memory: np.ndarray[Any, Any], type: TensorType) -> np.ndarray[Any, Any]:
    """A copy of a tensor for a function, BF16 as float32. It is a copy because the program reuses its memory."""
    if type.dtype is not DType.BF16:
        return memory.copy()
    return (memory.astype(np.uint32) << 16).view(np.float32)


def as_memory(value: np.ndarray[Any, Any], type: TensorType) -> np.ndarray[Any, Any]:
    """A function's result in the format of the tensor's memory: BF16 is rounded to nearest even."""
    if type.dtype is not DType.BF16:
        return value
    words = np.ascontiguousarray(value, np.float32).view(np.uint32)
    rounded = np.where(np.isnan(value), words | 0x400000, words + 0x7FFF + ((words >> 16) & 1))
    return (rounded >> 16).astype(np.uint16)
