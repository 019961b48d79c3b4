"""Programs of one computation for several shapes, in memory: those that prepare the same share what they prepare."""

from __future__ import annotations

from typing import Any
from weakref import WeakValueDictionary

from ..ir.locks import ForkSafeLock
from ..ir.program import Program, Step
from .device import Device
from .loaded_program import LoadedProgram
from .prepared import PreparedPool
from .program_bytes import count_program


class SharedPrograms:
    """Loads programs on a device."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._lock = ForkSafeLock()
        self._prepared: WeakValueDictionary[tuple[tuple[Step, ...], bytes], PreparedPool] = WeakValueDictionary()

    def load(self, program: Program) -> LoadedProgram[Any]:
        """A program in memory. Programs with the same preparation and constants share their prepared memory."""
        key = program.prepare, program.constants
        with self._lock:
            pool = self._prepared.get(key)
            if pool is None:
                pool = self._prepared[key] = PreparedPool(program.prepared_bytes, self._device.allocate_zeroed)
        loaded = self._device.load(program, pool)
        count_program(loaded)
        return loaded
