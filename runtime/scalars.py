"""The memory of the scalar parameters of a call."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from .checks import value_error
from .device import Address, Device
from .host.device import HOST
from .storage import storage_of

if TYPE_CHECKING:
    from ..ir.dialects.mx.operator import Operator


class ScalarBlock:
    """Memory blocks for the scalar parameters of a call, 8 bytes each. `free` holds blocks that no run uses."""

    def __init__(self, format: str) -> None:
        self.count = len(format)
        self._pack = struct.Struct("".join("f4x" if f == "f" else "q" for f in format)).pack_into
        self.free: list[tuple[Any, list[Address]]] = []

    @staticmethod
    def of(operator: Operator, device: Device) -> ScalarBlock:
        from ..ir.dialects.mx.builder import scalar_values

        return ScalarBlock.on(
            device, "".join("q" if isinstance(v, int) else "f" for v in scalar_values(operator).values())
        )

    @staticmethod
    def on(device: Device, format: str) -> ScalarBlock:
        """Blocks for numbers in the memory of a device; `format` has an "f" for each float32 and a "q" for each
        int64."""
        return ScalarBlock(format) if device is HOST else DeviceScalars(format, device)

    def filled(self, values: Sequence[float]) -> tuple[tuple[Any, list[Address]], list[Address]]:
        """A block with these values, which the caller returns to `free`, and the addresses of the values."""
        try:
            block = self.free.pop()
        except IndexError:
            memory = (ctypes.c_int64 * self.count)()
            start = ctypes.addressof(memory)
            block = memory, [start + 8 * i for i in range(self.count)]
        try:
            self._pack(block[0], 0, *values)
        except (struct.error, OverflowError) as error:
            raise value_error(f"the numbers {tuple(values)} do not fit: {error}") from None
        return block, block[1]


class DeviceScalars(ScalarBlock):
    """Scalar parameters in the memory of another device: each run has its own buffer for each number."""

    def __init__(self, format: str, device: Device) -> None:
        super().__init__(format)
        self.host, self.device = ScalarBlock(format), device

    def filled(self, values: Sequence[float]) -> tuple[tuple[Any, list[Address]], list[Address]]:
        self.free.clear()
        block, _ = self.host.filled(values)
        self.host.free.append(block)
        buffers = [storage_of(word, self.device) for word in np.array(block[0], np.int64).reshape(-1, 1)]
        addresses = [b.address for b in buffers]
        return (buffers, addresses), addresses


@cache
def checks_scalars(cls: type[Operator]) -> bool:
    """True if an operator can refuse values of its scalar parameters."""
    from ..ir.dialects.mx.operator import Operator

    return cls.check is not Operator.check or cls.require_shapes is not Operator.require_shapes
