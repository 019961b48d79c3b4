"""Shares memory of arrays with other libraries through DLPack."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.types import DType
from ...runtime.devices import HOST
from ...runtime.storage import wrap_numpy
from ..base import MXNetError
from ..context import cpu
from ..dtypes import dtype_of
from .array_classes import array_at

if TYPE_CHECKING:
    from .ndarray import NDArray

__all__ = ["from_dlpack", "to_dlpack_for_read", "to_dlpack_for_write"]


def to_dlpack(data: NDArray) -> Any:
    """A DLPack capsule that shares the memory of `data` and keeps it alive. MXNetError for bfloat16."""
    return exported(data)


def exported(data: NDArray, **kwargs: Any) -> Any:
    """NumPy's DLPack capsule for the memory of an array. `kwargs` are the arguments of `__dlpack__`. MXNetError for
    bfloat16 and for arrays on other devices."""
    if data._dtype is DType.BF16:
        raise MXNetError("bfloat16 arrays cannot be shared through DLPack: NumPy has no such dtype")
    if data._storage.device is not HOST:
        raise MXNetError(f"arrays on {data.context} cannot be shared through DLPack: copy to mx.cpu() first")
    return data._memory().__dlpack__(**kwargs)


to_dlpack_for_read = to_dlpack_for_write = to_dlpack


class _Capsule:
    """A capsule wrapped in the protocol from which NumPy imports."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def from_dlpack(dlpack: Any) -> NDArray:
    """An array that shares the memory of a DLPack capsule or of an object with `__dlpack__`. AssertionError for a used
    capsule and for other objects. ValueError unless the memory is C-contiguous."""
    if not hasattr(dlpack, "__dlpack__") and '"dltensor"' not in repr(dlpack):
        raise AssertionError(
            f"Invalid DLPack Tensor. DLTensor capsules can be consumed only once, and {dlpack!r} is not an unused one"
        )
    shared = np.from_dlpack(dlpack if hasattr(dlpack, "__dlpack__") else _Capsule(dlpack))
    if not shared.flags.c_contiguous:
        raise ValueError("only C-contiguous arrays can be shared; copy this one first")
    storage = wrap_numpy(_writable(shared))
    return array_at(storage, storage.address, shared.shape, dtype_of(shared.dtype), cpu())


def _writable(shared: np.ndarray) -> np.ndarray:
    """The same memory as a writable array: NumPy imports capsules read-only, MXNet does not."""
    if shared.flags.writeable or not shared.size:
        return shared
    memory: Any = (ctypes.c_char * shared.nbytes).from_address(shared.__array_interface__["data"][0])
    memory.owner = shared
    return np.ndarray(shared.shape, shared.dtype, memory)
