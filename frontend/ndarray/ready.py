"""Fast paths: calls of short programs as plain functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...ir.types import TensorType
from ...runtime.device import DeviceError
from ..memory import allocate
from .array_classes import array_class

if TYPE_CHECKING:
    from .ndarray import NDArray

Elsewhere = Callable[[tuple["NDArray", ...]], "NDArray"]
"""The call for arrays that are not in host memory: `direct` raises DeviceError for their addresses."""


def fast_unary(direct: Callable[..., None], type: TensorType, elsewhere: Elsewhere) -> Callable[[NDArray], NDArray]:
    new, cls = object.__new__, array_class()
    shape, dtype, nbytes = type.shape, type.dtype, type.nbytes

    def call(x: NDArray) -> NDArray:
        storage = allocate(nbytes)
        result = new(cls)
        result._storage = storage
        result._address = address = storage.address
        result._shape = shape
        result._dtype = dtype
        result._context = x._context
        try:
            direct(x._address, address)
        except DeviceError:
            return elsewhere((x,))
        return result

    return call


def fast_binary(
    direct: Callable[..., None], type: TensorType, elsewhere: Elsewhere
) -> Callable[[NDArray, NDArray], NDArray]:
    new, cls = object.__new__, array_class()
    shape, dtype, nbytes = type.shape, type.dtype, type.nbytes

    def call(x: NDArray, y: NDArray) -> NDArray:
        storage = allocate(nbytes)
        result = new(cls)
        result._storage = storage
        result._address = address = storage.address
        result._shape = shape
        result._dtype = dtype
        result._context = x._context
        try:
            direct(x._address, y._address, address)
        except DeviceError:
            return elsewhere((x, y))
        return result

    return call


def fast_call(direct: Callable[..., None], type: TensorType, elsewhere: Elsewhere) -> Callable[..., NDArray]:
    """For any number of operands, at least one."""
    new, cls = object.__new__, array_class()
    shape, dtype, nbytes = type.shape, type.dtype, type.nbytes

    def call(*arrays: NDArray) -> NDArray:
        storage = allocate(nbytes)
        result = new(cls)
        result._storage = storage
        result._address = address = storage.address
        result._shape = shape
        result._dtype = dtype
        result._context = arrays[0]._context
        try:
            direct(*[a._address for a in arrays], address)
        except DeviceError:
            return elsewhere(arrays)
        return result

    return call
