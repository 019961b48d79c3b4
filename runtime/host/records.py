"""Lays out the launches of a program in memory, in the form that the thread pool reads (`native/pool.c`).

    block = | records: 4 words each | tables: 1 word per argument | pieces: 4 words each |      in 8-byte words

A record is one launch, or a group of launches that run together. The record of a group launches the kernel `mxf_pieces`
over a table of pieces; a piece is a part of one of these launches that one thread runs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence

from ...codegen.llvm.pool import CHUNK_ALIGNMENT, COPY, RECORD_WORDS
from ...ir.program import Copy, Launch, Place, Space, Step

WORD = 8
_COPIED = 64 << 10  # the fewest bytes of a copy that one thread copies

Group = Sequence[Launch]


def as_launch(step: Step) -> Launch:
    """The launch that takes a step: of a kernel of the thread pool for a copy."""
    return Launch(COPY, (step.target, step.source), step.nbytes, _COPIED) if isinstance(step, Copy) else step


class Records:
    """The records of groups of launches. `words` is the block, `address` where it starts.

    `patches[i]` lists (word, offset in bytes) of the arguments that point into operand i; operands are inputs, then
    outputs. `prepared` lists those that point into prepared memory, `scratch` those that point into scratch memory of a
    run. Other arguments are written at once.
    """

    def __init__(
        self,
        groups: Sequence[Group],
        operands: tuple[int, int],
        own_address: Callable[[Place], int | None],
        addresses: Mapping[str, int],
        pieces_kernel: int,
        shared: bool = True,
    ) -> None:
        """`operands` are the numbers of inputs and outputs, `addresses` those of all symbols. `own_address` is the
        address of a place in memory of the program, None for any other place. Threads share groups of several launches
        if `shared`."""
        self.patches: list[list[tuple[int, int]]] = [[] for _ in range(sum(operands))]
        self.prepared: list[tuple[int, int]] = []
        self.scratch: list[tuple[int, int]] = []
        self._inputs, self._own_address, self._addresses = operands[0], own_address, addresses
        self._pieces_kernel, self._shared = pieces_kernel, shared
        tables = sum(len(launch.arguments) for group in groups for launch in group)
        size = RECORD_WORDS * (len(groups) + sum(_pieces_of(group) for group in groups)) + tables
        self._block = (ctypes.c_int64 * max(size, 1))()
        self.address = ctypes.addressof(self._block)
        self.words = memoryview(self._block).cast("B").cast("q")
        self._table = RECORD_WORDS * len(groups)  # the next free word
        self._piece = self._table + tables
        for number, group in enumerate(groups):
            self._put(number * RECORD_WORDS, self._alone(group[0]) if len(group) == 1 else self._together(group))
        del self._own_address  # a method of an object that holds this one: memory is freed at once

    def record(self, number: int) -> int:
        """The address of a record."""
        return self.address + number * RECORD_WORDS * WORD

    def _put(self, word: int, record: tuple[int, int, int, int]) -> None:
        for i, value in enumerate(record):
            self.words[word + i] = value

    def _alone(self, launch: Launch) -> tuple[int, int, int, int]:
        return self._addresses[launch.symbol], self._table_of(launch), launch.count, launch.grain

    def _together(self, group: Group) -> tuple[int, int, int, int]:
        start, count = self.address + self._piece * WORD, _pieces_of(group)
        for launch in group:
            kernel, table, length = self._addresses[launch.symbol], self._table_of(launch), _piece_length(launch)
            for begin in range(0, launch.count, length):
                self._put(self._piece, (kernel, table, begin, min(begin + length, launch.count)))
                self._piece += RECORD_WORDS
        return self._pieces_kernel, start, count, 1 if self._shared else count

    def _table_of(self, launch: Launch) -> int:
        """Write the arguments of a launch; returns the address of the table."""
        start = self._table
        for argument in launch.arguments:
            self.words[self._table] = argument if isinstance(argument, int) else self._initial(argument)
            self._table += 1
        return self.address + start * WORD

    def _initial(self, place: Place) -> int:
        """The address of a place in the program's memory; 0 for a place that is not known, whose word is patched
        later."""
        own = self._own_address(place)
        if own is not None:
            return own
        if place.space in (Space.PREPARED, Space.ARENA):
            found = self.prepared if place.space is Space.PREPARED else self.scratch
            found.append((self._table, place.offset))
            return 0
        operand = place.index if place.space is Space.INPUT else self._inputs + place.index
        self.patches[operand].append((self._table, place.offset))
        return 0


def _piece_length(launch: Launch) -> int:
    """The iterations of a launch in one piece: its grain. Long pieces start at aligned units, as long chunks do."""
    aligned = 1 if launch.grain < CHUNK_ALIGNMENT else CHUNK_ALIGNMENT
    return -(-launch.grain // aligned) * aligned


def _pieces_of(group: Group) -> int:
    """The number of pieces of a group; a launch alone has none."""
    return 0 if len(group) == 1 else sum(-(-launch.count // _piece_length(launch)) for launch in group)
