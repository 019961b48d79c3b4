"""The classes of arrays by storage type, for the modules that NDArray is built on: they make arrays without importing
the class, which registers itself here."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any, TypeVar

from ...ir.types import DType
from ...runtime.storage import Storage
from ..context import GPU, Context, device_of
from ..memory import OutOfMemory, allocate

if TYPE_CHECKING:
    from .ndarray import NDArray

_C = TypeVar("_C", bound=type)
_classes: dict[str, Any] = {}


def register_array_class(stype: str) -> Callable[[_C], _C]:
    """A decorator: the class of arrays of a storage type."""

    def register(cls: _C) -> _C:
        _classes[stype] = cls
        return cls

    return register


@cache
def array_class(stype: str = "default") -> type[NDArray]:
    """The class of arrays of a storage type; dense arrays have the type "default"."""
    return _classes[stype]


@cache
def number_class() -> type[NDArray]:
    """The class of numbers that take part in the arithmetic of arrays."""

    dense: Any = array_class()

    class Number(dense):
        """A Python number as an array without axes."""

        __slots__ = ()

    return Number


def empty_array(shape: tuple[int, ...], dtype: DType, context: Context) -> NDArray:
    """A new dense array of arbitrary content."""
    array = object.__new__(array_class())
    try:
        nbytes = prod(shape) * dtype.itemsize
        storage = allocate(nbytes) if context.device_typeid != GPU else device_of(context).allocate(nbytes)
    except OutOfMemory as error:
        raise error.of(f"an array of shape {shape} and dtype {dtype.value}") from None
    array._storage, array._address, array._shape = storage, storage.address, shape
    array._dtype, array._context = dtype, context
    return array


def array_at(storage: Storage, address: int, shape: tuple[int, ...], dtype: DType, context: Context) -> NDArray:
    """The dense array at `address` inside `storage`."""
    array = object.__new__(array_class())
    array._storage, array._address, array._shape = storage, address, shape
    array._dtype, array._context = dtype, context
    return array
