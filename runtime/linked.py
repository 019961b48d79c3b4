"""Links programs into one, which runs them in order by one native call.

The linked program owns the buffers through which they exchange values. It consists of compiled programs: it has their
machine code and compiles nothing, so its results equal theirs bit for bit. A backward pass is such a program
(`frontend/ndarray/linked_tape.py`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from ..ir.lazy_dataclass import dataclass
from ..ir.program import Place, Program, Space
from ..passes.assign_offsets import Block, assign_offsets
from .arena import Arena
from .device import Runnable
from .executable import Executable, Instance, is_observed
from .idle import add_allocation, clock
from .storage import Storage, allocate, allocate_zeroed
from .threads import RECORD_BYTES, get_pool


@dataclass(frozen=True)
class Part:
    """One program of a linked program. `inputs` and `outputs` are the numbers of the values that it reads and computes.
    Several parts can have the same program."""

    executable: Executable
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def can_be_linked(program: Runnable) -> bool:
    """True for a program of the host that calls no Python function, takes no random key, has no checks, and copies only
    to outputs."""
    if not isinstance(program, Executable) or program.random is not None:
        return False
    if program.program.functions or program.program.checks:
        return False
    return all(copy.target.space is Space.OUTPUT and not copy.target.offset for copy in program.program.copies)


class LinkedProgram:
    """Parts in order. The values 0 to `inputs` - 1 are the caller's; a part computes each other value, or it is zeros.

    `outputs` are the values that a run returns. `state` lists the inputs that a run replaces: the caller passes each of
    them once, and no other input that shares memory with it. Threads never share an instance.
    """

    def __init__(self, parts: Sequence[Part], inputs: int, outputs: Sequence[int], sizes: Sequence[int]) -> None:
        """`sizes` are the bytes of all values."""
        self.parts, self.inputs, self.outputs, self.sizes = tuple(parts), inputs, tuple(outputs), tuple(sizes)
        self.state = tuple(dict.fromkeys(part.inputs[i] for part in parts for i in part.executable.state))
        self.last_run = clock.now
        self._plan = _Plan(self)
        self._idle: list[_LinkedInstance] = []
        for part in self.parts:  # from now on they run here, in other memory
            part.executable.release()

    def run(self, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """Run on tensors at these addresses. Outputs must not share memory with each other or with inputs."""
        self.last_run = clock.now
        try:
            instance = self._idle.pop()
        except IndexError:
            add_allocation(self, self._plan.own_bytes)
            instance = _LinkedInstance(self, self._plan)
        instance.run([*inputs, *outputs])
        self._idle.append(instance)

    # -- see `Idle`

    def idle_bytes(self) -> int:
        return len(self._idle) * self._plan.own_bytes

    def owners(self) -> set[int]:
        return set()

    def release(self) -> None:
        self._idle.clear()


class _Plan:
    """Where the values of a linked program are, apart from the inputs: at `offsets` in a buffer, in a caller's output
    (`direct`), or where the part that returns them copies them from (`aliases`)."""

    def __init__(self, linked: LinkedProgram) -> None:
        self.offsets: dict[int, int] = {}
        self.aliases: dict[int, tuple[int, Place]] = {}  # (the number of the part, a place in it)
        self.direct: dict[int, int] = {}  # the position among the outputs
        for number, part in enumerate(linked.parts):
            for copy in part.executable.program.copies:
                self.aliases[part.outputs[copy.target.index]] = number, copy.source
        computed = {v for part in linked.parts for v in part.outputs} - set(self.aliases)
        for position, value in enumerate(linked.outputs):
            if value in computed:
                self.direct.setdefault(value, position)
        self.buffer_bytes = self._assign(linked)
        programs = {id(p.executable): p.executable.program for p in linked.parts}.values()
        self.scratch_bytes = max((p.scratch_bytes for p in programs if _can_share(p)), default=0)
        self.own_bytes = self.buffer_bytes + self.scratch_bytes + sum(map(_private_bytes, programs))

    def _assign(self, linked: LinkedProgram) -> int:
        """Place the values that need a buffer; those that no part computes are never written. Returns the bytes."""
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        for number, part in enumerate(linked.parts):
            for value in part.outputs:
                first.setdefault(value, number)
            for value in (*part.inputs, *part.outputs):
                last[self._root(linked, value)] = number
        for value in linked.outputs:
            last[self._root(linked, value)] = len(linked.parts)
        blocks = {
            value: Block(linked.sizes[value], first[value], end) if value in first else _zeros(linked, value)
            for value, end in last.items()
            if value >= linked.inputs and value not in self.direct and value not in self.aliases
        }
        size, _ = assign_offsets(list(blocks.values()))
        self.offsets = {value: block.offset for value, block in blocks.items()}
        return size

    def _root(self, linked: LinkedProgram, value: int) -> int:
        """The value whose memory holds `value`, if it is a copy of another one."""
        while value in self.aliases:
            number, place = self.aliases[value]
            copied = operand_at(linked.parts[number], place)
            if copied is None:
                break
            value = copied
        return value


def _can_share(program: Program) -> bool:
    """True if other parts read nothing in the program's own memory after it ran."""
    return not any(copy.source.space in (Space.ARENA, Space.PREPARED) for copy in program.copies)


def _private_bytes(program: Program) -> int:
    """The memory of a program that other programs do not share."""
    shared = program.scratch_bytes if _can_share(program) else 0
    return program.arena_bytes - shared + program.prepared_bytes


def operand_at(part: Part, place: Place) -> int | None:
    """The value of a place among the operands of a part; None for the part's own memory."""
    if place.space is Space.INPUT:
        return part.inputs[place.index]
    return part.outputs[place.index] if place.space is Space.OUTPUT else None


def _zeros(linked: LinkedProgram, value: int) -> Block:
    return Block(linked.sizes[value], 0, len(linked.parts), "zeros")


class _LinkedInstance:
    """The private memory of one run: an instance of each part, whose records are copied into one table."""

    def __init__(self, linked: LinkedProgram, plan: _Plan) -> None:
        self._buffer = allocate_zeroed(plan.buffer_bytes)
        self._scratch = allocate(plan.scratch_bytes)
        self._memory: dict[int, tuple[Arena, Storage]] = {}  # the arena and the prepared block of each program
        linked_parts = [self._instance(part.executable) for part in linked.parts]
        self._instances = [instance for instance, _ in linked_parts]
        self._addresses = [0] * (linked.inputs + len(linked.outputs))
        self._patches: list[list[tuple[memoryview, int, int]]] = [[] for _ in self._addresses]
        self._linked, self._plan = linked, plan
        for part, instance in zip(linked.parts, self._instances, strict=True):
            for value, patches in zip((*part.inputs, *part.outputs), instance.patches, strict=True):
                self._bind(value, instance.words, patches)
        self._copies = self._final_copies()
        records = b"".join([found for _, found in linked_parts])
        self._records = ctypes.create_string_buffer(records, len(records))
        self._call = ctypes.c_void_p(ctypes.addressof(self._records)), ctypes.c_int64(len(records) // RECORD_BYTES)
        self._native = get_pool().run

    def _instance(self, executable: Executable) -> tuple[Instance, bytes]:
        """An instance of a part, and its records. Parts run one after another, so they share scratch memory, and those
        with the same program all memory, unless others read it later."""
        program = executable.program
        memory = self._memory.get(id(executable))
        if memory is None:
            scratch = self._scratch if _can_share(program) else allocate(program.scratch_bytes)
            memory = Arena(program, scratch), allocate_zeroed(program.prepared_bytes)
        if _can_share(program):
            self._memory[id(executable)] = memory
        instance = executable.instance_on(memory[0])
        return instance, instance.link(memory[1])

    def _bind(self, value: int, words: memoryview, patches: Sequence[tuple[int, int]]) -> None:
        """Make the arguments at `patches` point to a value: now, or when a run knows the caller's address."""
        operand, address = self._locate(value)
        for word, offset in patches:
            if operand is None:
                words[word] = address + offset
            else:
                self._patches[operand].append((words, word, address + offset))

    def _locate(self, value: int) -> tuple[int | None, int]:
        """(the caller's tensor or None, the address or the offset in that tensor) of a value."""
        offset = 0
        while value in self._plan.aliases:
            number, place = self._plan.aliases[value]
            copied = operand_at(self._linked.parts[number], place)
            if copied is None:
                return None, self._instances[number].own_address(place) + offset
            value, offset = copied, offset + place.offset
        if value < self._linked.inputs:
            return value, offset
        if value in self._plan.direct:
            return self._linked.inputs + self._plan.direct[value], offset
        return None, self._buffer.address + self._plan.offsets[value] + offset

    def _final_copies(self) -> list[tuple[int, int | None, int, int]]:
        """(output, tensor or None, address, bytes) of each output that is not computed in place."""
        return [
            (self._linked.inputs + position, *self._locate(value), self._linked.sizes[value])
            for position, value in enumerate(self._linked.outputs)
            if self._plan.direct.get(value) != position
        ]

    def run(self, addresses: list[int]) -> None:
        if addresses != self._addresses:
            for operand, (new, old) in enumerate(zip(addresses, self._addresses, strict=True)):
                if new != old:
                    for words, word, offset in self._patches[operand]:
                        words[word] = new + offset
            self._addresses = addresses
        if is_observed():
            for instance in self._instances:
                instance.run_linked()
        else:
            self._native(*self._call)
        for target, operand, address, nbytes in self._copies:
            source = address if operand is None else addresses[operand] + address
            ctypes.memmove(addresses[target], source, nbytes)
