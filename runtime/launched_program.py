"""Runs programs on devices whose kernels are launched one by one.

A program has one layout of words (`codegen/records.py`). An *instance* has a block of these words: the addresses in its
arena are written once, those in operands for each run. Launches between two steps that the host takes (loops, branches,
calls of Python) are one list, which the device gets in one call.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from ..codegen.records import HOST_STEPS, Layout, Placed, as_launch
from ..codegen.target import ALIGNED_BYTES
from ..ir.program import HostCall, Launch, Loop, Program, Space, all_steps
from ..ir.steps import Collective
from ..ir.types import DType, TensorType
from .checks import verify
from .communicator import combine
from .device import BoundCall, DeviceAddress, DeviceError, DirectCall, Launcher
from .errors import out_of_memory
from .idle import add_allocation, clock
from .launch_list import BoundLaunch, LaunchList
from .loaded_program import LoadedProgram
from .prepared import Prepared, PreparedPool, Version
from .python_functions import call_on_copies
from .storage import Storage
from .tensor_memory import as_memory
from .writes import written_at


class LaunchedProgram(LoadedProgram["DeviceInstance"]):
    """A program on a device, ready to run from any number of threads; implements `Runnable`.

    Kernels require operands at multiples of `ALIGNED_BYTES`. Other operands, for instance views that start at an odd
    element, are copied to and from temporary buffers.
    """

    alignment = ALIGNED_BYTES

    def __init__(self, program: Program, device: Launcher, prepared: PreparedPool | None = None) -> None:
        self.device = device
        super().__init__(program, prepared, device.allocate_zeroed)
        self._code = [device.load_code(code) for code in program.code]
        self.kernels = {symbol: kernel for code in self._code for symbol, kernel in code.items()}
        self._replaced = (*self.state, *self._written_by_functions())
        self.constants = device.allocate(len(program.constants))
        device.write(self.constants.address, program.constants)
        self.layout = Layout(program.prepare, [(step,) for step in program.steps])
        self.operands = self.layout.operands(len(program.inputs), len(program.outputs))
        """The words with addresses of each input and output; see `Layout.memory`."""
        host_steps = any(isinstance(step, HOST_STEPS) for step in (*program.prepare, *program.steps))
        self._is_one_list = not host_steps and not program.checks
        self.scratch_bytes = program.scratch_bytes if self._is_one_list and device.stream is not None else 0
        """The part of the arena that is the device's scratch memory. No other work is started between the launches of a
        list; a program of several lists has an arena of its own."""
        self.instance_bytes -= self.scratch_bytes

    def symbols(self) -> list[tuple[bytes, tuple[str, ...]]]:
        return [(code, tuple(kernels)) for code, kernels in zip(self.program.code, self._code, strict=True)]

    def _make_instance(self) -> DeviceInstance:
        return self.make_instance()

    def make_instance(self) -> DeviceInstance:
        """A new instance. The error for memory that is not available names the program."""
        try:
            return DeviceInstance(self)
        except MemoryError as error:
            raise out_of_memory(f"{self.program.name}: {error}") from error

    def direct_call(self) -> DirectCall:
        """See `Runnable`."""
        return super().direct_call() if self.program.prepare else self.bound_call({}).run

    def bound_call(self, fixed: Mapping[int, DeviceAddress]) -> BoundCall:
        """See `Runnable`. DeviceError for an address that is not in the device's memory."""
        if not self._is_one_list or any(self.value_of(address) % ALIGNED_BYTES for address in fixed.values()):
            return super().bound_call(fixed)
        runs = _BoundRuns(self, {i: self.value_of(address) for i, address in fixed.items()})
        return BoundCall(runs.run, runs.prepare if self.program.prepare else None)

    def value_of(self, address: DeviceAddress) -> int:
        """An address in the device's memory as an integer; DeviceError for any other address."""
        if not isinstance(address, DeviceAddress) or address.device != self.device.name:
            raise self.wrong_device()
        return address.value

    def wrong_device(self) -> DeviceError:
        """The error for an operand of another device."""
        return DeviceError(f"{self.program.name} runs on {self.device.name}: an operand is not in its memory")

    def run(
        self,
        inputs: Sequence[DeviceAddress],
        outputs: Sequence[DeviceAddress],
        parameters_version: Hashable = 0,
        take: Callable[[DeviceInstance], None] | None = None,
    ) -> None:
        """Start a run on tensors at these addresses; see `Runnable`. ValueError for a wrong number of addresses,
        DeviceError for an operand that is not in the device's memory. A program with checks waits for its end. `take`
        takes the steps of an instance whose addresses are written, instead of `DeviceInstance.take`."""
        checks = self.program.checks
        blocks = [self.device.allocate(1) for _ in checks]
        self._run(inputs, (*outputs, *(block.address for block in blocks)), parameters_version, take)
        if checks:
            verify(checks, bytes([self.read_byte(block.address) for block in blocks]))

    def read_byte(self, address: DeviceAddress) -> int:
        """The byte at an address, after all work that was started before."""
        byte = np.empty((1,), np.uint8)
        self.device.read(address, byte)
        return int(byte[0])

    def _run(
        self,
        inputs: Sequence[DeviceAddress],
        outputs: Sequence[DeviceAddress],
        parameters_version: Hashable,
        take: Callable[[DeviceInstance], None] | None,
    ) -> None:
        addresses = (*inputs, *outputs)
        types = (*self.inputs, *self.program.outputs)
        if len(inputs) != len(self.inputs) or len(addresses) != len(types):
            raise ValueError(f"{self.program.name} takes {len(self.inputs)} inputs and {len(self.outputs)} outputs")
        values = [self.value_of(address) for address in addresses]
        staged = {i: self.device.allocate(types[i].nbytes) for i, value in enumerate(values) if value % ALIGNED_BYTES}
        for i, buffer in staged.items():
            self.device.copy(buffer.address, addresses[i], types[i].nbytes)
            values[i] = self.value_of(buffer.address)
        instance = self._take()
        prepared = self._prepared.take(parameters_version)
        instance.place_operands(values, parameters_version, prepared)
        if take is None:
            instance.take(instance.steps)
        else:
            take(instance)
        self._idle.append(instance)
        self._prepared.put(prepared)
        for i in (*self._replaced, *range(len(inputs), len(addresses))):
            if i in staged:
                self.device.copy(addresses[i], staged[i].address, types[i].nbytes)

    def _written_by_functions(self) -> set[int]:
        """The inputs that Python functions can write."""
        calls = [step for step in all_steps(self.program.steps) if isinstance(step, HostCall)]
        places = [call.arguments[i] for call in calls for i in self.program.functions[call.function].writes]
        return {p.index for p in places if p.space is Space.INPUT}


class DeviceInstance:
    """The private memory of one run of a program: an arena, some of which can be the device's scratch memory, and a
    block of the words of its layout."""

    def __init__(self, loaded: LaunchedProgram) -> None:
        self.loaded, self.program, self.device = loaded, loaded.program, loaded.device
        layout = loaded.layout
        block = (ctypes.c_int64 * len(layout.words)).from_buffer_copy(layout.words)
        self.words = memoryview(block).cast("B").cast("q")
        split = loaded.scratch_bytes
        self.scratch = self.device.scratch(split) if split else None
        self.arena = self.device.allocate_zeroed(self.program.arena_bytes - split)
        self.prepared: Storage | None = None
        arena = layout.memory.get((Space.ARENA, 0), ())
        self.place([at for at in arena if at[1] >= split], self.arena.address.value - split)
        if self.scratch is not None:
            self.place([at for at in arena if at[1] < split], self.scratch.address.value)
        self._place_memory(Space.CONSTANT, loaded.constants)
        self.prepare, self.steps = self._in_lists(layout.prepare), self._in_lists(layout.steps)

    def _place_memory(self, space: Space, storage: Storage) -> None:
        self.place(self.loaded.layout.memory.get((space, 0), ()), storage.address.value)

    def place(self, words: Sequence[tuple[int, int]], address: int) -> None:
        """Write addresses in a block of memory that begins at `address`: `words` are as in `Layout.memory`."""
        for word, offset in words:
            self.words[word] = address + offset

    def place_prepared(self, storage: Storage) -> None:
        """Use this prepared memory from now on."""
        if self.prepared is not storage:
            self.prepared = storage
            self._place_memory(Space.PREPARED, storage)

    def place_operands(self, operands: Sequence[int], version: Hashable, prepared: Prepared) -> None:
        """Write the addresses of operands, and prepare if parameters changed."""
        for words, address in zip(self.loaded.operands, operands, strict=True):
            self.place(words, address)
        self.place_prepared(prepared.storage)
        if self.program.prepare and prepared.version != version:
            self.take(self.prepare)
            prepared.set_version(version)

    def _in_lists(self, steps: Sequence[Placed]) -> list[LaunchList | _HostStep]:
        """The steps, with successive launches in one list."""
        lists: list[LaunchList | _HostStep] = []
        launches: list[BoundLaunch] = []
        for placed in steps:
            launch = as_launch(placed.step)
            if isinstance(placed.step, HOST_STEPS):
                lists += [self._list_of(launches)] if launches else []
                lists.append(_HostStep(placed, [self._in_lists(inside) for inside in placed.inside]))
                launches = []
            elif isinstance(launch, Launch) and launch.count:
                kernel = self.loaded.kernels.get(launch.symbol, launch.symbol)
                end = placed.table + len(launch.arguments)
                launches.append(BoundLaunch(placed.step, kernel, launch.count, placed.table, end))
        return [*lists, self._list_of(launches)] if launches or not lists else lists

    def _list_of(self, launches: Sequence[BoundLaunch]) -> LaunchList:
        return LaunchList(launches, self.words, self.program)

    def take(self, steps: Sequence[LaunchList | _HostStep]) -> None:
        """Take steps of this instance, on the addresses in its words."""
        for step in steps:
            if isinstance(step, LaunchList):
                self.device.run(step)
                continue
            match step.placed.step:
                case HostCall() as call:
                    self._call(call, step.placed.table)
                case Collective() as collective:
                    self._combine(collective, step.placed.table)
                case Loop() as loop:
                    self._repeat(loop, step)
                case _:
                    self.take(step.inside[0] if self._is_set(step.placed.table) else step.inside[1])

    def _repeat(self, loop: Loop, step: _HostStep) -> None:
        number = 0
        while number < loop.count and (loop.flag is None or self._is_set(step.placed.table)):
            self.take(step.inside[0])
            for word, stride in step.placed.moves:
                self.words[word] += stride
            number += 1
        for word, stride in step.placed.moves:
            self.words[word] -= stride * number

    def _address(self, word: int) -> DeviceAddress:
        return DeviceAddress(self.device.name, self.words[word])

    def _is_set(self, word: int) -> bool:
        """Whether the byte at the address in a word is not 0; waits for the launches before."""
        return self.loaded.read_byte(self._address(word)) != 0

    def _call(self, call: HostCall, table: int) -> None:
        """Call a Python function on copies of its operands in the host's memory."""
        function = self.program.functions[call.function]
        arguments = [self._address(table + i) for i in range(len(call.arguments))]
        operands = [self._read(a, t) for a, t in zip(arguments, function.inputs, strict=False)]
        results, changed = call_on_copies(function, operands)
        for i, new in changed:
            self.device.write(arguments[i], new)
            written_at(arguments[i])
        targets = arguments[len(function.inputs) :]
        for address, type, value in zip(targets, function.outputs, results, strict=True):
            self.device.write(address, np.ascontiguousarray(as_memory(value, type.dtype)))

    def _combine(self, collective: Collective, table: int) -> None:
        """Combine values in the host's memory."""
        dtype = DType(collective.dtype)
        values = self._read(self._address(table + 1), TensorType((collective.count,), dtype))
        combined = combine(collective.operation, dtype, values)
        if combined is not None:
            self.device.write(self._address(table), np.ascontiguousarray(combined))

    def _read(self, address: DeviceAddress, type: TensorType) -> np.ndarray[Any, Any]:
        memory = np.empty(type.shape, type.dtype.memory)
        self.device.read(address, memory)
        return memory


class _HostStep:
    """A step that the host takes, and the steps in it."""

    __slots__ = ("inside", "placed")

    def __init__(self, placed: Placed, inside: list[list[LaunchList | _HostStep]]) -> None:
        self.placed, self.inside = placed, inside


class _BoundRuns:
    """Runs of a program whose steps are launches, with inputs at fixed addresses. It has instances and prepared memory
    of its own, which `runtime/idle.py` bounds."""

    def __init__(self, loaded: LaunchedProgram, fixed: Mapping[int, int]) -> None:
        self.loaded, self.device, self.name = loaded, loaded.device, loaded.device.name
        self.last_run = clock.now
        self._fixed = [(loaded.operands[i], address) for i, address in fixed.items()]
        self._free = [words for i, words in enumerate(loaded.operands) if i not in fixed]
        self._idle: list[DeviceInstance] = []
        self._prepared: Storage | None = None
        self._version: Hashable = None

    def run(self, *addresses: DeviceAddress) -> None:
        """See `BoundCall`."""
        name, values, bits = self.name, list[int](), 0
        try:
            for address in addresses:
                if address.device != name:
                    raise self.loaded.wrong_device()
                values.append(address.value)
                bits |= address.value
        except AttributeError:  # an address of the host
            raise self.loaded.wrong_device() from None
        if bits % ALIGNED_BYTES:
            raise DeviceError(f"{self.loaded.program.name} takes an operand that is not aligned as a copy")
        self.last_run = clock.now
        try:
            instance = self._idle.pop()
        except IndexError:
            instance = self._new()
        words = instance.words
        for value, places in zip(values, self._free, strict=True):
            for word, offset in places:
                words[word] = value + offset
        self.device.run(instance.steps[0])  # type: ignore[arg-type]
        if instance.prepared is self._prepared:
            self._idle.append(instance)

    def prepare(self, version: Hashable) -> None:
        """See `BoundCall`."""
        self._version = version
        if self._prepared is None:
            self._idle.append(self._new())
        else:
            instance = self._idle.pop() if self._idle else self._new()
            instance.take(instance.prepare)
            self._idle.append(instance)

    def _new(self) -> DeviceInstance:
        """A new instance. Prepared memory that was released is prepared again."""
        program = self.loaded.program
        add_allocation(self, self.loaded.instance_bytes)
        instance = self.loaded.make_instance()
        for words, address in self._fixed:
            instance.place(words, address)
        if program.prepare:
            released = self._prepared is None
            if self._prepared is None:
                add_allocation(self, program.prepared_bytes)
                self._prepared = self.device.allocate_zeroed(program.prepared_bytes)
            instance.place_prepared(self._prepared)
            if released:
                instance.take(instance.prepare)
        return instance

    def idle_bytes(self) -> int:
        """See `Idle`."""
        prepared = 0 if self._prepared is None else self._prepared.nbytes
        return len(self._idle) * self.loaded.instance_bytes + prepared

    def owners(self) -> set[int]:
        """See `Idle`."""
        return {self._version.owner} if self._prepared is not None and isinstance(self._version, Version) else set()

    def release(self) -> None:
        """See `Idle`."""
        self._prepared = None
        self._idle.clear()
