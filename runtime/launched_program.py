"""Runs a program on a device whose kernels are launched one by one, from Python. Each launch gets the addresses of its
places.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from operator import mul
from typing import Any

import numpy as np

from ..codegen.target import ALIGNED_BYTES
from ..ir.program import (
    Branch,
    Copy,
    Fill,
    HostCall,
    HostFunction,
    Launch,
    Loop,
    Place,
    Program,
    Space,
    Step,
    all_steps,
)
from ..ir.types import TensorType
from .checks import verify
from .device import DeviceAddress, DeviceError, Launcher
from .loaded_program import LoadedProgram
from .prepared import Prepared, PreparedPool
from .python_functions import call_on_copies
from .tensor_memory import as_memory
from .writes import written_at


class LaunchedProgram(LoadedProgram["DeviceInstance"]):
    """A program on a device, ready to run from any number of threads; implements `Runnable`.

    Kernels require operands at multiples of `ALIGNED_BYTES`. Other operands, for instance views that start at an odd
    element, are copied to and from temporary buffers.
    """

    def __init__(self, program: Program, device: Launcher, prepared: PreparedPool | None = None) -> None:
        self.device = device
        super().__init__(program, prepared, device.allocate_zeroed)
        self._code = [device.load_code(code) for code in program.code]
        self.kernels = {symbol: kernel for code in self._code for symbol, kernel in code.items()}
        self._replaced = (*self.state, *self._written_by_functions())
        self.constants = device.allocate(len(program.constants))
        device.write(self.constants.address, program.constants)

    def symbols(self) -> list[tuple[bytes, tuple[str, ...]]]:
        return [(code, tuple(kernels)) for code, kernels in zip(self.program.code, self._code, strict=True)]

    def _make_instance(self) -> DeviceInstance:
        return DeviceInstance(self)

    def run(
        self, inputs: Sequence[DeviceAddress], outputs: Sequence[DeviceAddress], parameters_version: Hashable = 0
    ) -> None:
        """Start a run on tensors at these addresses; see `Runnable`. ValueError for a wrong number of addresses,
        DeviceError for an operand that is not in the device's memory. A program with checks waits for its end."""
        checks = self.program.checks
        blocks = [self.device.allocate(1) for _ in checks]
        self._run(inputs, (*outputs, *(block.address for block in blocks)), parameters_version)
        if checks:
            verify(checks, bytes([self.read_byte(block.address) for block in blocks]))

    def read_byte(self, address: DeviceAddress) -> int:
        """The byte at an address, after all work that was started before."""
        byte = np.empty((1,), np.uint8)
        self.device.read(address, byte)
        return int(byte[0])

    def _run(
        self, inputs: Sequence[DeviceAddress], outputs: Sequence[DeviceAddress], parameters_version: Hashable
    ) -> None:
        addresses = (*inputs, *outputs)
        types = (*self.inputs, *self.program.outputs)
        if len(inputs) != len(self.inputs) or len(addresses) != len(types):
            raise ValueError(f"{self.program.name} takes {len(self.inputs)} inputs and {len(self.outputs)} outputs")
        for address in addresses:
            if not isinstance(address, DeviceAddress) or address.device != self.device.name:
                raise DeviceError(f"{self.program.name} runs on {self.device.name}: an operand is not in its memory")
        staged = {i: self.device.allocate(types[i].nbytes) for i, a in enumerate(addresses) if a.value % ALIGNED_BYTES}
        operands = [staged[i].address if i in staged else a for i, a in enumerate(addresses)]
        for i in staged:
            self.device.copy(operands[i], addresses[i], types[i].nbytes)
        instance = self._take()
        prepared = self._prepared.take(parameters_version)
        instance.run(operands, parameters_version, prepared)
        self._idle.append(instance)
        self._prepared.put(prepared)
        for i in (*self._replaced, *range(len(inputs), len(addresses))):
            if i in staged:
                self.device.copy(addresses[i], operands[i], types[i].nbytes)

    def _written_by_functions(self) -> set[int]:
        """The inputs that Python functions can write."""
        calls = [step for step in all_steps(self.program.steps) if isinstance(step, HostCall)]
        places = [call.arguments[i] for call in calls for i in self.program.functions[call.function].writes]
        return {p.index for p in places if p.space is Space.INPUT}


class DeviceInstance:
    """The private memory of one run of a program."""

    def __init__(self, loaded: LaunchedProgram) -> None:
        self.loaded, self.program, self.device = loaded, loaded.program, loaded.device
        arena = self.device.allocate_zeroed(self.program.arena_bytes)
        self.spaces = {Space.ARENA: arena, Space.CONSTANT: loaded.constants}

    def run(self, operands: Sequence[DeviceAddress], version: Hashable, prepared: Prepared) -> None:
        """Prepare if parameters changed, and take all steps."""
        self.spaces[Space.PREPARED] = prepared.storage
        if self.program.prepare and prepared.version != version:
            self._take(self.program.prepare, operands)
            prepared.set_version(version)
        self._take(self.program.steps, operands)

    def _take(self, steps: Sequence[Step], operands: Sequence[DeviceAddress], numbers: tuple[int, ...] = ()) -> None:
        """Take steps in the iterations `numbers` of the loops around them, the outermost first."""

        def address(place: Place) -> DeviceAddress:
            return self._address(place, operands, numbers)

        for step in steps:
            match step:
                case Launch():
                    arguments = [a if isinstance(a, int) else address(a) for a in step.arguments]
                    self._launch(step, arguments)
                case HostCall():
                    self._call(self.program.functions[step.function], [address(a) for a in step.arguments])
                case Copy():
                    self.device.copy(address(step.target), address(step.source), step.nbytes)
                case Fill():
                    self.device.write(address(step.target), bytes(step.nbytes))
                case Loop():
                    self._repeat(step, operands, numbers)
                case Branch():
                    taken = step.then if self._is_set(address(step.flag)) else step.otherwise
                    self._take(taken, operands, numbers)

    def _launch(self, launch: Launch, arguments: Sequence[DeviceAddress | int]) -> None:
        if launch.count:
            self.device.launch(self.loaded.kernels[launch.symbol], launch.count, arguments)

    def _repeat(self, loop: Loop, operands: Sequence[DeviceAddress], numbers: tuple[int, ...]) -> None:
        number = 0
        while number < loop.count:
            if loop.flag is not None and not self._is_set(self._address(loop.flag, operands, numbers)):
                return
            self._take(loop.body, operands, (*numbers, number))
            number += 1

    def _address(self, place: Place, operands: Sequence[DeviceAddress], numbers: tuple[int, ...]) -> DeviceAddress:
        moved = sum(map(mul, place.strides, numbers))
        match place.space:
            case Space.INPUT:
                start = operands[place.index]
            case Space.OUTPUT:
                start = operands[len(self.program.inputs) + place.index]
            case _:
                start = self.spaces[place.space].address
        return start + (place.offset + moved)

    def _is_set(self, address: DeviceAddress) -> bool:
        """Whether the byte at an address is not 0; waits for the launches before."""
        return self.loaded.read_byte(address) != 0

    def _call(self, function: HostFunction, arguments: Sequence[DeviceAddress]) -> None:
        """Call a Python function on copies of its operands in the host's memory."""
        operands = [self._read(a, t) for a, t in zip(arguments, function.inputs, strict=False)]
        found, changed = call_on_copies(function, operands)
        for i, new in changed:
            self.device.write(arguments[i], new)
            written_at(arguments[i])
        targets = arguments[len(function.inputs) :]
        for address, type, value in zip(targets, function.outputs, found, strict=True):
            self.device.write(address, np.ascontiguousarray(as_memory(value, type.dtype)))

    def _read(self, address: DeviceAddress, type: TensorType) -> np.ndarray[Any, Any]:
        memory = np.empty(type.shape, type.dtype.memory)
        self.device.read(address, memory)
        return memory
