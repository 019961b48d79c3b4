"""The interface of tensors that the runtime requires: row-major elements in a block of memory."""

from __future__ import annotations

from math import prod
from typing import Any

from ..ir.types import DType, TensorType
from .device import Address
from .storage import Storage


class Tensor:
    """A dense tensor. The elements are in C order from `_address` on, inside `_storage`, which views share.

    `_context` names the tensor's device and stream of random numbers; `_storage.device` is the device.
    """

    __slots__ = ("_address", "_context", "_dtype", "_shape", "_storage")

    _storage: Storage
    _address: Address
    _shape: tuple[int, ...]
    _dtype: DType
    _context: Any

    @property
    def _on_host(self) -> bool:
        """True if the host can dereference the address."""
        return self._address.__class__ is int

    def _type(self) -> TensorType:
        return TensorType(self._shape, self._dtype)

    def _nbytes(self) -> int:
        return prod(self._shape) * self._dtype.itemsize
