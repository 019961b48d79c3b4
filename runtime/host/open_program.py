"""Programs whose numbers are operands of a run, for shapes that may not return: nothing is made for a shape."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence

from ...codegen.records import HOST_CALLS, Layout
from ...ir.assign_offsets import ALIGNMENT
from ...ir.places import Column
from ...ir.program import Program, Space, all_steps
from ..device import Numbers
from .arena import scratch_pool
from .executable import Executable, filled, is_observed, load_code
from .records import Records
from .threads import get_pool


class OpenExecutable:
    """See `runtime.device.OpenProgram`. A run writes numbers and addresses into the same records. The arena and the
    prepared memory are scratch memory too, which is cleared as that of a new instance is."""

    def __init__(self, columns: Program, built: Callable[[Numbers], Program]) -> None:
        """`built` returns the program with certain numbers, for runs whose launches are observed."""
        self._built, self._pool = built, get_pool()
        self._code = load_code(columns.code)
        self._constants = filled(columns.constants)
        self._layout = layout = Layout(columns.prepare, [(step,) for step in columns.steps])
        self._count = ctypes.c_int64(len(columns.prepare) + len(columns.steps))
        self._sizes = columns.arena_bytes, columns.scratch_bytes, columns.prepared_bytes
        operands = layout.operands(len(columns.inputs), len(columns.outputs))
        own = [layout.memory.get((space, 0), ()) for space in (Space.ARENA, Space.PREPARED)]
        patches = [(word, i, offset) for i, words in enumerate((*operands, *own)) for word, offset in words]
        self._fixed = [patch for patch in patches if not isinstance(patch[2], Column)]
        self._moved = [(word, i, offset) for word, i, offset in patches if isinstance(offset, Column)]
        self._idle: list[_Records] = []

    def run(self, addresses: list[int], numbers: Numbers) -> None:
        """See `OpenProgram`."""
        if is_observed():
            program = self._built(numbers)
            inputs = len(program.inputs)
            Executable(program).run(addresses[:inputs], addresses[inputs:])
            return
        arena, scratch, prepared = [numbers[n] if isinstance(n, Column) else n for n in self._sizes]
        start = -(-arena // ALIGNMENT) * ALIGNMENT
        block = scratch_pool.take(start + prepared) if arena or prepared else None
        if block is not None:
            ctypes.memset(block.address + scratch, 0, start + prepared - scratch)
            addresses += (block.address, block.address + start)
        else:
            addresses += (0, 0)  # of values without elements
        self._run(addresses, numbers)
        if block is not None:
            scratch_pool.put(block)

    def _run(self, addresses: Sequence[int], numbers: Numbers) -> None:
        try:
            records = self._idle.pop()
        except IndexError:
            records = self._new_records()
        words = records.words
        for word, operand, offset in self._fixed:
            words[word] = addresses[operand] + offset
        for word, operand, column in self._moved:
            words[word] = addresses[operand] + numbers[column]
        for word, column in self._layout.columns:
            words[word] = numbers[column]
        self._pool.run(records.first, self._count)
        self._idle.append(records)

    def _new_records(self) -> _Records:
        symbols = {name: address for loaded in self._code for name, address in loaded.symbols.items()}
        records = _Records(self._layout, symbols | self._pool.kernels)
        records.place(self._layout.memory.get((Space.CONSTANT, 0), ()), self._constants.address)
        return records


class _Records(Records):
    """Records with the address of the first as an argument of a native call."""

    def __init__(self, layout: Layout, addresses: Mapping[str, int]) -> None:
        super().__init__(layout, addresses)
        self.first = ctypes.c_void_p(self.address)


def can_be_open(columns: Program) -> bool:
    """True for a program whose runs need only operands in row-major order, numbers and memory of their own: it has no
    parameters, whose packed forms runs would share, and calls no Python."""
    blocked = any(t.layout is not None for t in (*columns.inputs, *columns.outputs))
    steps = all_steps((*columns.prepare, *columns.steps))
    calls = columns.functions or columns.checks or any(isinstance(step, HOST_CALLS) for step in steps)
    return not (blocked or calls or columns.groups or columns.parameters)
