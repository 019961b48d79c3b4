"""Runs a program on a device whose kernels are launched one by one, from Python. Each launch gets the addresses of its
places.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from ..codegen.target import ALIGNED_BYTES
from ..ir.program import Copy, HostFunction, Launch, Place, Program, Space, Step
from ..ir.types import TensorType
from .checks import verify
from .device import DeviceAddress, DeviceError, Launcher
from .loaded_program import LoadedProgram
from .prepared import Prepared, PreparedPool
from .python_functions import call_on_copies
from .storage import Storage
from .tensor_memory import as_memory
from .writes import written_at

Argument = DeviceAddress | int


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
        self.functions = {f.symbol: f for f in program.functions}
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
            verify(checks, b"".join(self._flag(block) for block in blocks))

    def _flag(self, block: Storage) -> bytes:
        flag = np.empty((1,), np.uint8)
        self.device.read(block.address, flag)
        return flag.tobytes()

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
        calls = [
            (launch.arguments, self.functions[launch.symbol])
            for launch in self.program.launches
            if launch.symbol in self.functions
        ]
        places = [arguments[i] for arguments, function in calls for i in function.writes]
        return {p.index for p in places if isinstance(p, Place) and p.space is Space.INPUT}


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

    def _take(self, steps: Sequence[Step], operands: Sequence[DeviceAddress]) -> None:
        for step in steps:
            if isinstance(step, Copy):
                target, source = (self._address(place, operands) for place in (step.target, step.source))
                self.device.copy(target, source, step.nbytes)
            else:
                self._launch(step, operands)

    def _launch(self, launch: Launch, operands: Sequence[DeviceAddress]) -> None:
        kernels: Mapping[str, Any] = self.loaded.kernels
        arguments = [a if isinstance(a, int) else self._address(a, operands) for a in launch.arguments]
        function = self.loaded.functions.get(launch.symbol)
        if function is not None:
            self._call(function, arguments)
        elif launch.count:
            self.device.launch(kernels[launch.symbol], launch.count, arguments)

    def _address(self, place: Place, operands: Sequence[DeviceAddress]) -> DeviceAddress:
        match place.space:
            case Space.INPUT:
                return operands[place.index] + place.offset
            case Space.OUTPUT:
                return operands[len(self.program.inputs) + place.index] + place.offset
            case _:
                return self.spaces[place.space].address + place.offset

    def _call(self, function: HostFunction, arguments: Sequence[Argument]) -> None:
        """Call a Python function on copies of its operands in the host's memory."""
        operands = [self._read(a, t) for a, t in zip(arguments, function.inputs, strict=False)]
        found, changed = call_on_copies(function, operands)
        for i, new in changed:
            self.device.write(arguments[i], new)
            written_at(arguments[i])
        targets = arguments[len(function.inputs) :]
        for address, type, value in zip(targets, function.outputs, found, strict=True):
            self.device.write(address, np.ascontiguousarray(as_memory(value, type.dtype)))

    def _read(self, address: Argument, type: TensorType) -> np.ndarray[Any, Any]:
        memory = np.empty(type.shape, type.dtype.memory)
        self.device.read(address, memory)
        return memory
