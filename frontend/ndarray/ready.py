"""Fast paths: calls of tiny programs of one or two operands as plain functions."""

from __future__ import annotations

from collections.abc import Callable

from ...ir.types import TensorType
from ..memory import allocate
from .ndarray import NDArray


def fast_unary(direct: Callable[..., None], type: TensorType) -> Callable[[NDArray], NDArray]:
    new, shape, dtype, nbytes = object.__new__, type.shape, type.dtype, type.nbytes

    def call(x: NDArray) -> NDArray:
        storage = allocate(nbytes)
        result = new(NDArray)
        result._storage = storage
        result._address = address = storage.address
        result._shape = shape
        result._dtype = dtype
        result._context = x._context
        direct(x._address, address)
        return result

    return call


def fast_binary(direct: Callable[..., None], type: TensorType) -> Callable[[NDArray, NDArray], NDArray]:
    new, shape, dtype, nbytes = object.__new__, type.shape, type.dtype, type.nbytes

    def call(x: NDArray, y: NDArray) -> NDArray:
        storage = allocate(nbytes)
        result = new(NDArray)
        result._storage = storage
        result._address = address = storage.address
        result._shape = shape
        result._dtype = dtype
        result._context = x._context
        direct(x._address, y._address, address)
        return result

    return call
