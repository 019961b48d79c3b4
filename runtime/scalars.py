"""The memory of the scalar parameters of a call."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from ..codegen.target import ALIGNED_BYTES
from .device import Address, Device
from .errors import invalid_value
from .storage import Storage

if TYPE_CHECKING:
    from ..ir.dialects.mx.operator import Operator


class Block:
    """Memory for the numbers of one call: the address of each number, and the bytes that were last written."""

    __slots__ = ("addresses", "content", "storage")

    def __init__(self, storage: Storage, count: int) -> None:
        self.storage, self.content = storage, b""
        self.addresses: list[Address] = [storage.address + i * ALIGNED_BYTES for i in range(count)]


class ScalarBlock:
    """Blocks of memory of a device for the scalar parameters of a call. `free` holds blocks that no run uses.

    `format` has an "f" for each float32 and a "q" for each int64.
    """

    def __init__(self, format: str, device: Device) -> None:
        self.count = len(format)
        padding = ALIGNED_BYTES - 8
        self._pack = struct.Struct("".join(f"{'f4x' if f == 'f' else 'q'}{padding}x" for f in format)).pack
        self._device = device
        self.free: list[Block] = []

    @staticmethod
    def of(operator: Operator, device: Device) -> ScalarBlock:
        from ..ir.dialects.mx.builder import scalar_values

        values = scalar_values(operator).values()
        return ScalarBlock("".join("q" if isinstance(v, int) else "f" for v in values), device)

    def filled(self, values: Sequence[float]) -> Block:
        """A block with these values, which the caller returns to `free` when the run has started."""
        try:
            content = self._pack(*values)
        except (struct.error, OverflowError) as error:
            raise invalid_value(f"the numbers {tuple(values)} do not fit: {error}") from None
        try:
            block = self.free.pop()
        except IndexError:
            block = Block(self._device.allocate(len(content)), self.count)
        if block.content != content:
            self._device.write(block.storage.address, content)
            block.content = content
        return block


@cache
def checks_scalars(cls: type[Operator]) -> bool:
    """True if an operator can refuse values of its scalar parameters."""
    from ..ir.dialects.mx.operator import Operator

    return cls.check is not Operator.check or cls.require_shapes is not Operator.require_shapes
