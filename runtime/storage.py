"""Buffers of devices, and their content as NumPy arrays.

The host's buffers come from `host/allocator.py`, or share the memory of NumPy arrays.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .device import Address, Device, DeviceAddress

if TYPE_CHECKING:
    import numpy.typing as npt


class Storage:
    """A buffer of `nbytes` at `address` in the memory of `device`, freed with the last reference to this. On the host
    the address is a multiple of 64, except for memory of NumPy."""

    __slots__ = ("address", "nbytes")

    device: Device  # the class attribute is the host, set by runtime/devices.py
    address: Address
    nbytes: int

    def __repr__(self) -> str:
        return f"Storage({self.nbytes} bytes at {self.address:#x})"


class DeviceStorage(Storage):
    """A buffer of a device other than the host; `free` returns its memory to the device."""

    __slots__ = ("_free", "device")

    def __init__(
        self, device: Device, address: DeviceAddress, nbytes: int, free: Callable[[DeviceAddress], None]
    ) -> None:
        self.device, self.address, self.nbytes, self._free = device, address, nbytes, free

    def __repr__(self) -> str:
        return f"Storage({self.nbytes} bytes at {self.address.value:#x} of {self.device.name})"

    def __del__(self) -> None:
        self._free(self.address)


class _WrappedStorage(Storage):
    """Memory that belongs to a NumPy array."""

    __slots__ = ("array",)

    array: npt.NDArray[Any]


def size_of_block(nbytes: int) -> int:
    """The block size of the class that serves `nbytes`: at most a quarter more; up to 1 KiB less than 64 bytes more."""
    if nbytes <= 1024:
        return max(-(-nbytes // 64), 1) * 64
    step = 1 << ((nbytes - 1).bit_length() - 3)  # a quarter of the power of two below
    return -(-nbytes // step) * step


def storage_of(content: npt.NDArray[Any], device: Device) -> Storage:
    """A buffer of a device with the content of a C-contiguous array."""
    buffer = device.allocate(content.nbytes)
    device.write(buffer.address, content)
    return buffer


LARGE = 1 << 20
"""Bytes of a copy that threads share."""


def copy_between(to: Device, target: Address, source_device: Device, source: Address, nbytes: int) -> None:
    """Copy from one device's memory to another's. Devices of one kind copy without the host, which does not wait."""
    if to is source_device:
        to.copy(target, source, nbytes)
    elif isinstance(source, int):
        to.write(target, _host_bytes(source, nbytes))
    elif isinstance(target, int):
        source_device.read(source, _host_bytes(target, nbytes))
    elif type(to) is type(source_device) and to.stream is not None and source_device.stream is not None:
        source_device.stream.wait(to.stream.record())  # work on what `target` held before
        source_device.stream.copy_to(to, target.value, source.value, nbytes)
        to.stream.wait(source_device.stream.record())
    else:
        content = np.empty(nbytes, np.uint8)
        source_device.read(source, content)
        to.write(target, content)


def _host_bytes(address: int, nbytes: int) -> npt.NDArray[np.uint8]:
    return np.frombuffer(_window_type(nbytes).from_address(address), np.uint8, nbytes)


def wrap_numpy(array: npt.NDArray[Any]) -> Storage:
    """The memory of `array`, which the result keeps alive. ValueError unless it is writable and C-contiguous."""
    interface = array.__array_interface__  # several times faster than array.ctypes and array.flags
    address, read_only = interface["data"]
    if read_only or interface["strides"] is not None:
        raise ValueError("only a writable, C-contiguous array can be shared; copy this one (numpy.array(x, order='C'))")
    storage = _WrappedStorage()
    storage.address, storage.nbytes, storage.array = address, array.nbytes, array
    return storage


def writable_view(array: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
    """A writable view of `array`, even if `array` is flagged read-only; None if its memory is read-only."""
    if array.flags.writeable or not array.size:
        return array.view()
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    try:
        if owner.base is not None and memoryview(owner.base).readonly:  # pyright: ignore[reportArgumentType]
            return None
    except TypeError:  # memory of an object without the buffer protocol
        return None
    window: Any = _window_type(array.nbytes).from_address(array.__array_interface__["data"][0])
    window.owner = array
    return np.ndarray(array.shape, array.dtype, window)


def as_numpy(storage: Storage, dtype: npt.DTypeLike, shape: Sequence[int], offset: int = 0) -> npt.NDArray[Any]:
    """A view of the storage from byte `offset` on, which keeps it alive; for another device's memory a read-only copy.
    ValueError if it does not fit.
    """
    if isinstance(storage, _WrappedStorage):
        window: Any = storage.array.reshape(-1).view(np.uint8)
    else:
        try:
            window = _window_type(storage.nbytes).from_address(storage.address)
        except TypeError:  # a DeviceAddress
            return _copy_of(storage, dtype, shape, offset)
        window.storage = storage
    view = np.ndarray(tuple(shape), dtype, window, offset)
    if offset + view.nbytes > storage.nbytes:
        raise ValueError(f"{view.nbytes} bytes from byte {offset} on do not fit a storage of {storage.nbytes}")
    return view


def _copy_of(storage: Storage, dtype: npt.DTypeLike, shape: Sequence[int], offset: int) -> npt.NDArray[Any]:
    """The content of `storage` from byte `offset` on, as a read-only array of the host."""
    copy = np.empty(tuple(shape), dtype)
    if offset + copy.nbytes > storage.nbytes:
        raise ValueError(f"{copy.nbytes} bytes from byte {offset} on do not fit a storage of {storage.nbytes}")
    storage.device.read(storage.address + offset, copy)
    copy.flags.writeable = False
    return copy


@functools.lru_cache(4096)
def _window_type(nbytes: int) -> Any:
    return _block_type(size_of_block(nbytes))


@functools.cache
def _block_type(size: int) -> Any:
    """One array type per size class, a few hundred in all: ctypes never frees an array type."""
    return ctypes.c_char * size
