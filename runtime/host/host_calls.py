"""Calls Python from compiled programs: functions, with arrays in and out, and collectives.

No exception can pass through native code. So an exception is stored, and raised when the program has ended.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...codegen.records import COLLECTIVE, host_symbol, reduction_of
from ...ir.program import HostFunction
from ..communicator import combine_at
from ..python_functions import call_on_copies
from ..tensor_memory import as_memory, memory_at
from ..writes import written_at

_KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int32)


class HostCalls:
    """The Python functions of one program as kernels, and its collectives. A launch of one runs on the thread that runs
    the program."""

    def __init__(self, functions: tuple[HostFunction, ...]) -> None:
        self._raised = threading.local()
        kernels = {host_symbol(i): _KERNEL(self._kernel(f)) for i, f in enumerate(functions)}
        self._kernels = {**kernels, COLLECTIVE: _KERNEL(self._combine)}
        self.addresses = {
            name: ctypes.cast(kernel, ctypes.c_void_p).value or 0 for name, kernel in self._kernels.items()
        }
        """The addresses of the kernels by their symbols."""

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

    def _catch(self, call: Callable[[], None], results: Sequence[np.ndarray[Any, Any]] = ()) -> None:
        """Call, unless an earlier call of this run failed. After an exception, which `finish` raises, results are 0."""
        try:
            if self._raised.error is not None:
                raise RuntimeError("an earlier function failed")
            call()
        except BaseException as error:
            self._raised.error = self._raised.error or error
            for result in results:
                result[...] = 0

    def _combine(self, arguments: int, begin: int, end: int, worker: int) -> None:
        target, source, count, *reduction = (ctypes.c_int64 * 5).from_address(arguments)
        operation, dtype = reduction_of(*reduction)
        self._catch(lambda: combine_at(target, source, operation, dtype, count))

    def _kernel(self, function: HostFunction) -> Any:
        types = (*function.inputs, *function.outputs)

        def call(arguments: int, begin: int, end: int, worker: int) -> None:
            addresses = (ctypes.c_int64 * len(types)).from_address(arguments)
            arrays = [memory_at(a, t.shape, t.dtype) for a, t in zip(addresses, types, strict=True)]
            operands, results = arrays[: len(function.inputs)], arrays[len(function.inputs) :]

            def compute() -> None:
                values, changed = call_on_copies(function, operands)
                for i, new in changed:
                    operands[i][...] = new
                    written_at(addresses[i])
                for target, type, value in zip(results, function.outputs, values, strict=True):
                    np.copyto(target, as_memory(value, type.dtype), casting="no")

            self._catch(compute, results)

        return call
