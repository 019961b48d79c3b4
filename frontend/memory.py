"""Memory for arrays; OutOfMemory is an MXNetError."""

from __future__ import annotations

from math import prod

from ..ir.types import DType
from ..runtime.devices import HOST
from ..runtime.errors import raise_as
from ..runtime.memory_limit import require_memory
from .base_errors import MXNetError

__all__ = ["OutOfMemory", "allocate", "allocate_zeroed", "require_room"]


class OutOfMemory(MXNetError, MemoryError):
    """An allocation failed."""

    def of(self, what: str) -> OutOfMemory:
        """This error with `what` before its text."""
        return OutOfMemory(f"{what}: {self}")


raise_as(memory=OutOfMemory)

allocate, allocate_zeroed = HOST.allocate, HOST.allocate_zeroed


def require_room(shape: tuple[int, ...], dtype: DType) -> None:
    """OutOfMemory for an array larger than the machine's memory, before NumPy tries to allocate it."""
    try:
        require_memory(prod(shape) * dtype.itemsize)
    except OutOfMemory as error:
        raise error.of(f"an array of shape {shape} and dtype {dtype.value}") from None
