"""The objects of the fake CUDA driver (`fake_cuda.py`): codes, contexts, streams and other handles, and work."""

from __future__ import annotations

import ctypes
from collections import Counter, deque
from collections.abc import Callable
from enum import IntEnum
from functools import wraps
from types import SimpleNamespace
from typing import Any, ClassVar
from weakref import WeakValueDictionary

import numpy as np

from .simulated_memory import SimulatedMemory
from .ttir import TtirFunction

_SOURCE, _TARGET = 48 // 8, 136 // 8  # of the addresses in CUDA_MEMCPY3D
_WINDOW = 0x0100_0000_0000  # between the memories of two devices


class CUresult(IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_NOT_INITIALIZED = 3
    CUDA_ERROR_NO_DEVICE = 100
    CUDA_ERROR_INVALID_DEVICE = 101
    CUDA_ERROR_INVALID_IMAGE = 200
    CUDA_ERROR_INVALID_CONTEXT = 201
    CUDA_ERROR_NOT_FOUND = 500
    CUDA_ERROR_NOT_READY = 600
    CUDA_ERROR_ILLEGAL_ADDRESS = 700


class CUdevice_attribute(IntEnum):
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97


class CUmemPool_attribute(IntEnum):
    CU_MEMPOOL_ATTR_RELEASE_THRESHOLD = 4


class CUfunction_attribute(IntEnum):
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8


class CUmemorytype(IntEnum):
    CU_MEMORYTYPE_DEVICE = 2


class CUmemLocationType(IntEnum):
    CU_MEM_LOCATION_TYPE_DEVICE = 1


class CUmemAccess_flags(IntEnum):
    CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3


ATTRIBUTES = {16: 4, 75: 9, 76: 0, 97: 227 << 10}

Work = Callable[[], None]


class Refused(Exception):
    """A call returns an error."""

    def __init__(self, code: int) -> None:
        self.code = code


class Numbered:
    """An object that native code knows by a number."""

    def __int__(self) -> int:
        _numbered[id(self)] = self
        return id(self)


_numbered: WeakValueDictionary[int, Any] = WeakValueDictionary()


def numbered(number: int) -> Any:
    """The object with a number of `Numbered`; None for another number."""
    return _numbered.get(number)


class Struct(Numbered, SimpleNamespace):
    """A structure of parameters. Native code changes the addresses of copies and fills in its memory."""

    def getPtr(self) -> int:
        self.memory = (ctypes.c_int64 * 32)()
        self.numbers[ctypes.addressof(self.memory)] = self
        return ctypes.addressof(self.memory)

    numbers: ClassVar[WeakValueDictionary[int, Any]] = WeakValueDictionary()

    def read_memory(self) -> None:
        """Take the addresses that native code has written."""
        if "dstDevice" in vars(self):
            self.srcDevice, self.dstDevice = self.memory[_SOURCE], self.memory[_TARGET]
        elif "dst" in vars(self):
            self.dst = self.memory[0]


class Function(Numbered, SimpleNamespace):
    """A function of a module."""


class Node(Numbered):
    """A node of a graph."""


class Handle(Numbered):
    """An object of the driver. `kind` is in `live()` until it is destroyed."""

    def __init__(self, kind: str, context: Context, **fields: Any) -> None:
        self.kind, self.context, self.is_live = kind, context, True
        self.__dict__.update(fields)
        context.live[kind] += 1

    def destroy(self, kind: str) -> None:
        require(self.kind == kind and self.is_live)
        self.is_live = False
        self.context.live[kind] -= 1


class Context(Numbered):
    """The primary context of a device."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.memory = SimulatedMemory(0x7000_0000_0000 + number * _WINDOW)
        self.freed: set[int] = set()  # blocks whose free is queued
        self.live: Counter[str] = Counter()


class Stream(Handle):
    """The queue of a stream."""

    def __init__(self, context: Context) -> None:
        super().__init__("stream", context)
        self.queue: deque[tuple[Work, Any]] = deque()  # with an object that the work marks as reached
        self.started = 0

    def start(self, work: Work, marker: Marker | None = None) -> None:
        self.started += marker is None
        self.queue.append((work, marker))


class Marker:
    """A point in the work of a stream."""

    def __init__(self, stream: Stream) -> None:
        self.stream, self.reached, self.number = stream, False, stream.started


def require(condition: object, code: int = CUresult.CUDA_ERROR_INVALID_VALUE) -> None:
    if not condition:
        raise Refused(code)


def driver_call(function: Callable[..., Any]) -> Callable[..., tuple[Any, ...]]:
    """A function of the driver, from one that returns its results and raises Refused."""
    name = function.__name__

    @wraps(function)
    def called(self: Any, *arguments: Any) -> tuple[Any, ...]:
        with self.lock:
            try:
                self.begin(name, arguments)
                result = function(self, *arguments)
            except Refused as refused:
                return CUresult(refused.code), None
        results = result if isinstance(result, tuple) else () if result is None else (result,)
        return (CUresult(0), *results)

    return called


def copying(to: Context, target: int, source_context: Context, source: int, nbytes: int) -> Work:
    return lambda: to.memory.store(target, source_context.memory.bytes_at(source, nbytes).copy())


def storing(context: Context, target: int, content: bytes) -> Work:
    return lambda: context.memory.store(target, np.frombuffer(content, np.uint8))


def filling(context: Context, target: int, value: int, nbytes: int) -> Work:
    def fill() -> None:
        context.memory.bytes_at(target, nbytes)[:] = value

    return fill


def parameter_values(function: TtirFunction, parameters: int) -> list[int]:
    """The values of a kernel's parameters. The two that Triton adds are null."""
    count = len(function.arguments)
    pointers = (ctypes.c_void_p * (count + 2)).from_address(parameters)
    require(all(pointers))
    sizes = [8 if argument.is_pointer else int(argument.type[1:]) // 8 for argument in function.arguments]
    values = [
        int.from_bytes(ctypes.string_at(at or 0, size), "little", signed=not argument.is_pointer)
        for at, size, argument in zip(pointers, sizes, function.arguments, strict=False)
    ]
    added = [ctypes.c_int64.from_address(at).value for at in pointers[count:]]
    require(added == [0, 0])
    return values
