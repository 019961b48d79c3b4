"""Tensors as the execution layer sees them: elements in row-major order in a block of memory."""

from __future__ import annotations

from math import prod
from typing import Any

from ..ir.types import DType, TensorType
from .storage import Storage


class Tensor:
    """A dense tensor. The elements are in C order from `_address` on, inside `_storage`, which views share.

    `_context` names the device of the tensor and its stream of random numbers.
    """

    __slots__ = ("_address", "_context", "_dtype", "_shape", "_storage")

    _storage: Storage
    _address: int
    _shape: tuple[int, ...]
    _dtype: DType
    _context: Any

    def _type(self) -> TensorType:
        return TensorType(self._shape, self._dtype)

    def _nbytes(self) -> int:
        return prod(self._shape) * self._dtype.itemsize
