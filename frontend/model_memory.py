"""The memory of the operands of compiled models: on the host, or on another device.

memory_on(context)   the memory of the device of a context
HostMemory           operands are the arrays of the caller, if these have the right types
DeviceMemory         operands are copied to the device, and results to the host if the caller passed no NDArray
SharedBindings       binds the same memory once for several programs
"""

from __future__ import annotations

import sys
from typing import Any, Protocol

import numpy as np

from ..ir.types import TensorType
from ..runtime.compiled_folder import Argument
from ..runtime.device import Address, Device
from ..runtime.devices import HOST
from ..runtime.storage import as_numpy
from .base import MXNetError
from .context import GPU, Context, current_context, device_of
from .dtypes import from_memory, to_memory
from .memory import allocate

_NDARRAY_MODULE = f"{__package__}.ndarray"
_LARGE = 64 << 10

Placed = tuple[Address, object]
"""An address, and the object that keeps its memory alive."""


class Result(Protocol):
    """The memory of a result."""

    address: Address

    def value(self) -> Any:
        """The result of a run that was started: an NDArray or a NumPy array."""
        ...


class ModelMemory(Protocol):
    """The memory of one device."""

    device: Device

    def bind(self, array: np.ndarray) -> Placed:
        """The elements of a row-major array, which no run changes."""
        ...

    def operand(self, value: Any, argument: Argument) -> Placed:
        """The elements of an input. MXNetError if it has another shape than the argument."""
        ...

    def result(self, type: TensorType, as_ndarray: bool) -> Result:
        """Memory for a result, which is an NDArray or a NumPy array."""
        ...


def memory_on(context: Context | None) -> ModelMemory:
    """The memory of the device of a context; that of the host for None. MXNetError for a GPU that does not exist."""
    if context is None or context.device_typeid != GPU:
        return HostMemory()
    return DeviceMemory(device_of(context), context)


class _ArrayResult:
    """A new NDArray."""

    def __init__(self, type: TensorType, context: Context) -> None:
        from .ndarray.array_classes import empty_array

        self._array = empty_array(type.shape, type.dtype, context)
        self.address: Address = self._array._address

    def value(self) -> Any:
        return self._array


class HostMemory:
    """Implements `ModelMemory` on the host: operands are not copied if they have the right dtype and are row-major."""

    device: Device = HOST

    def bind(self, array: np.ndarray) -> Placed:
        return _address(array), array

    def operand(self, value: Any, argument: Argument) -> Placed:
        type = argument.type
        if is_ndarray(value) and value._dtype is type.dtype and value._shape == type.shape and value._on_host:
            return value._address, value
        array = _row_major(value, argument)
        return _address(array), array

    def result(self, type: TensorType, as_ndarray: bool) -> Result:
        return _ArrayResult(type, current_context()) if as_ndarray else _HostResult(type)


class _HostResult:
    """A NumPy array. A large one is in pooled memory: the first use of new pages is slow."""

    def __init__(self, type: TensorType) -> None:
        self._type = type
        if type.nbytes < _LARGE:
            self._memory = np.empty(type.shape, type.dtype.memory)
            self.address: Address = _address(self._memory)
        else:
            storage = allocate(type.nbytes)
            self._memory, self.address = as_numpy(storage, type.dtype.memory, type.shape), storage.address

    def value(self) -> np.ndarray:
        return from_memory(self._memory, self._type.dtype)


class DeviceMemory:
    """Implements `ModelMemory` on a device that has memory of its own. NDArrays on it are not copied."""

    def __init__(self, device: Device, context: Context) -> None:
        self.device, self._context = device, context

    def bind(self, array: np.ndarray) -> Placed:
        storage = self.device.allocate(array.nbytes)
        self.device.write(storage.address, np.ascontiguousarray(array))
        return storage.address, storage

    def operand(self, value: Any, argument: Argument) -> Placed:
        type = argument.type
        if is_ndarray(value) and value._dtype is type.dtype and value._shape == type.shape:
            if value._storage.device is self.device:
                return value._address, value
            return self.bind(value._memory())
        return self.bind(_row_major(value, argument))

    def result(self, type: TensorType, as_ndarray: bool) -> Result:
        return _ArrayResult(type, self._context) if as_ndarray else _DeviceResult(type, self.device)


class SharedBindings:
    """The memory of a device for several programs of one model: an array that several bind is placed once. The arrays
    are views of memory that outlives this object."""

    def __init__(self, memory: ModelMemory) -> None:
        self.device = memory.device
        self.operand, self.result = memory.operand, memory.result
        self._memory = memory
        self._bound: dict[tuple[int, int], Placed] = {}

    def bind(self, array: np.ndarray) -> Placed:
        """See `ModelMemory`."""
        key = _address(array), array.nbytes
        if key not in self._bound:
            self._bound[key] = self._memory.bind(array)
        return self._bound[key]


class _DeviceResult:
    """A block of the device, which is read when its value is used."""

    def __init__(self, type: TensorType, device: Device) -> None:
        self._type, self._storage = type, device.allocate(type.nbytes)
        self.address: Address = self._storage.address

    def value(self) -> np.ndarray:
        memory = np.empty(self._type.shape, self._type.dtype.memory)
        self._storage.device.read(self.address, memory)
        return from_memory(memory, self._type.dtype)


def is_ndarray(value: Any) -> bool:
    """True for an NDArray. Returns False if NDArray's module is not imported."""
    module = sys.modules.get(_NDARRAY_MODULE)
    return module is not None and isinstance(value, module.NDArray)


def _row_major(value: Any, argument: Argument) -> np.ndarray:
    """The elements in row-major memory of the argument's dtype (bfloat16 as bits); a copy only if it is necessary."""
    type = argument.type
    array = np.asarray(value.asnumpy() if is_ndarray(value) else value)
    if array.shape != type.shape:
        raise MXNetError(f"input {argument.name!r} has shape {type.shape}, not {array.shape}")
    if array.dtype != type.dtype.memory:
        array = to_memory(array, type.dtype)
    # several times faster than array.flags
    return array if array.__array_interface__["strides"] is None else np.ascontiguousarray(array)


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]
