"""The classes of arrays by storage type. The classes register themselves here, so that modules below NDArray can
create arrays without importing it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from math import prod
from typing import TYPE_CHECKING, Any, TypeVar

from ...ir.caches import Cache
from ...ir.types import DType
from ...runtime.storage import Storage
from ..context import GPU, Context, device_of
from ..memory import OutOfMemory, allocate, allocate_zeroed

if TYPE_CHECKING:
    from .ndarray import NDArray

_C = TypeVar("_C", bound=type)
_classes: dict[str, Any] = {}


def register_array_class(stype: str) -> Callable[[_C], _C]:
    """A decorator that registers the class of arrays of a storage type."""

    def register(cls: _C) -> _C:
        _classes[stype] = cls
        return cls

    return register


@cache
def array_class(stype: str = "default") -> type[NDArray]:
    """The class of arrays of a storage type; "default" is dense, and "numpy" is dense and of `mx.np`."""
    if stype == "numpy":
        import_module(".numpy_array", __package__)  # programs without mx.np do not load it
    return _classes[stype]


def is_numpy(array: Any) -> bool:
    """True for arrays of `mx.np`."""
    return getattr(array, "_class", None) is not None


@cache
def number_class() -> type[NDArray]:
    """The class of numbers in arithmetic with arrays."""

    dense: Any = array_class()

    class Number(dense):
        """A Python number as an array of shape ()."""

        __slots__ = ()

    return Number


_copies: Cache[tuple[int, int], tuple[NDArray, NDArray]] = Cache("numbers")
"""Numbers with copies on GPUs, by the id of the number and of the GPU."""


def number_on(number: NDArray, context: Context) -> NDArray:
    """A number of the host on a GPU. The copy is made once: callers must not write to it."""
    key = id(number), context.device_id
    known = _copies.recent.get(key) or _copies.get(key, lambda: (number, _copy_on(number, context)))
    return known[1]


def _copy_on(number: NDArray, context: Context) -> NDArray:
    copy = number.as_in_context(context)
    copy.__class__ = number_class()
    return copy


def empty_array(shape: tuple[int, ...], dtype: DType, context: Context, cls: type[NDArray] | None = None) -> NDArray:
    """A new dense array, of `cls` or of `mx.nd`, with uninitialized elements. OutOfMemory if it does not fit into
    memory."""
    try:
        nbytes = prod(shape) * dtype.itemsize
        storage = allocate(nbytes) if context.device_typeid != GPU else device_of(context).allocate(nbytes)
    except OutOfMemory as error:
        raise error.of(f"an array of shape {shape} and dtype {dtype.value}") from None
    return array_at(storage, storage.address, shape, dtype, context, cls)


def zero_array(shape: tuple[int, ...], dtype: DType, context: Context, cls: type[NDArray] | None = None) -> NDArray:
    """As `empty_array`, of zeros. The system maps pages of a large array when they are first written."""
    try:
        nbytes = prod(shape) * dtype.itemsize
        on_host = context.device_typeid != GPU
        storage = allocate_zeroed(nbytes) if on_host else device_of(context).allocate_zeroed(nbytes)
    except OutOfMemory as error:
        raise error.of(f"an array of shape {shape} and dtype {dtype.value}") from None
    return array_at(storage, storage.address, shape, dtype, context, cls)


def array_at(
    storage: Storage,
    address: int,
    shape: tuple[int, ...],
    dtype: DType,
    context: Context,
    cls: type[NDArray] | None = None,
) -> NDArray:
    """A dense array on the memory at `address` in `storage`. Fast paths (`fast_paths.py`) do the same themselves."""
    array = object.__new__(cls or array_class())
    array._storage, array._address, array._shape = storage, address, shape
    array._dtype, array._context = dtype, context
    return array
