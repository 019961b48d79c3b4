"""The functions of NCCL, NVIDIA's library for sums over GPUs, by ctypes. It is loaded when it is first needed."""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from ..ir.types import DType
from .communicator import CommunicationError

SUCCESS, IN_PROGRESS = 0, 7
OPERATIONS = {"sum": 0, "max": 2, "min": 3, "mean": 4}
DTYPES = {
    **{DType.I8: 0, DType.U8: 1, DType.I32: 2, DType.U32: 3, DType.I64: 4, DType.U64: 5},
    **{DType.F16: 6, DType.F32: 7, DType.F64: 8, DType.BF16: 9},
}
ID_BYTES = 128

_FILE = "libnccl.so.2"
_MAGIC, _VERSION, _UNDEFINED = 0xCAFEBEEF, 21700, -(1 << 31)
"""Of `ncclConfig_t`: its mark, the version of NCCL whose fields it has, and the value of fields that are not set."""

_int, _size, _pointer = ctypes.c_int, ctypes.c_size_t, ctypes.c_void_p


class UniqueId(ctypes.Structure):
    """`ncclUniqueId`."""

    _fields_ = (("bytes", ctypes.c_char * ID_BYTES),)


class Config(ctypes.Structure):
    """`ncclConfig_t` as of NCCL 2.17; later ones take it too."""

    _fields_ = (
        ("size", _size),
        ("magic", ctypes.c_uint),
        ("version", ctypes.c_uint),
        ("blocking", _int),
        ("cga_cluster_size", _int),
        ("min_ctas", _int),
        ("max_ctas", _int),
        ("net_name", _pointer),
    )


_COMBINATION = (_pointer, _pointer, _size, _int, _int, _pointer, _pointer)
SIGNATURES: dict[str, tuple[Any, ...]] = {
    "ncclGetUniqueId": (ctypes.POINTER(UniqueId),),
    "ncclCommInitRankConfig": (ctypes.POINTER(_pointer), _int, UniqueId, _int, ctypes.POINTER(Config)),
    "ncclCommGetAsyncError": (_pointer, ctypes.POINTER(_int)),
    "ncclCommAbort": (_pointer,),
    "ncclAllReduce": _COMBINATION,
    "ncclReduceScatter": _COMBINATION,
    "ncclAllGather": (_pointer, _pointer, _size, _int, _pointer, _pointer),
    "ncclBroadcast": _COMBINATION,
}
"""The types of the arguments of functions that return `ncclResult_t`."""


class NcclLibrary:
    """NCCL. `stream` arguments are those of devices with a `handle`; addresses are integers."""

    def __init__(self, find: Callable[[str], int]) -> None:
        """`find` returns the address of a function."""
        self._functions = {name: ctypes.CFUNCTYPE(_int, *types)(find(name)) for name, types in SIGNATURES.items()}
        self._text = ctypes.CFUNCTYPE(ctypes.c_char_p, _int)(find("ncclGetErrorString"))
        self._last = ctypes.CFUNCTYPE(ctypes.c_char_p, _pointer)(find("ncclGetLastError"))

    def unique_id(self) -> bytes:
        """What the members of a new group share."""
        own = UniqueId()
        self.check(self._functions["ncclGetUniqueId"](ctypes.byref(own)), None)
        return bytes(own)

    def open(self, device: Any, members: int, identity: bytes, rank: int) -> int:
        """Begin to make this process a member of a group, with the GPU `device`: returns at once."""
        device.enter()
        handle = _pointer()
        config = Config(ctypes.sizeof(Config), _MAGIC, _VERSION, 0, *[_UNDEFINED] * 3, None)
        shared = UniqueId.from_buffer_copy(identity)
        result = self._functions["ncclCommInitRankConfig"](
            ctypes.byref(handle), members, shared, rank, ctypes.byref(config)
        )
        self.check(result, None)
        return handle.value or 0

    def state(self, handle: int) -> int:
        """`IN_PROGRESS` while something goes on that the caller must wait for before its next call; an error's code."""
        state = _int()
        self._functions["ncclCommGetAsyncError"](handle, ctypes.byref(state))
        return state.value

    def abort(self, handle: int) -> None:
        """End a group whose members do not answer; what it started on the device ends too."""
        self._functions["ncclCommAbort"](handle)

    def all_reduce(self, device: Any, handle: int, address: int, count: int, dtype: int, operation: int) -> int:
        """Start to combine elements in place."""
        device.enter()
        stream = int(device.stream.handle)
        return self._functions["ncclAllReduce"](address, address, count, dtype, operation, handle, stream)

    def reduce_scatter(
        self, device: Any, handle: int, source: int, target: int, count: int, dtype: int, operation: int
    ) -> int:
        """Start to combine elements, of which this member gets `count` at `target`."""
        device.enter()
        stream = int(device.stream.handle)
        return self._functions["ncclReduceScatter"](source, target, count, dtype, operation, handle, stream)

    def all_gather(self, device: Any, handle: int, source: int, target: int, count: int, dtype: int) -> int:
        """Start to write the `count` elements of each member to `target`."""
        device.enter()
        return self._functions["ncclAllGather"](source, target, count, dtype, handle, int(device.stream.handle))

    def broadcast(self, device: Any, handle: int, address: int, count: int, dtype: int, root: int) -> int:
        """Start to replace elements by those of a member."""
        device.enter()
        return self._functions["ncclBroadcast"](address, address, count, dtype, root, handle, int(device.stream.handle))

    def check(self, result: int, handle: int | None) -> None:
        """CommunicationError for the code of an error."""
        if result not in (SUCCESS, IN_PROGRESS):
            more = (self._last(handle) or b"").decode().strip()
            text = (self._text(result) or b"").decode()
            raise CommunicationError(f"NCCL: {text}" + (f": {more}" if more else ""))


@cache
def load() -> NcclLibrary:
    """The library of the package nvidia-nccl, or of the system. CommunicationError with what to install."""
    try:
        library = ctypes.CDLL(_file())
    except OSError as error:
        raise CommunicationError(f"NCCL cannot be loaded ({error}): pip install 'mxforge[nccl]'") from None
    return NcclLibrary(lambda name: ctypes.cast(getattr(library, name), _pointer).value or 0)


def _file() -> str:
    try:
        package = importlib.util.find_spec("nvidia.nccl")
    except ModuleNotFoundError:
        return _FILE
    folders = [] if package is None else list(package.submodule_search_locations or ())
    paths = [Path(folder) / "lib" / _FILE for folder in folders]
    return next((str(path) for path in paths if path.is_file()), _FILE)
