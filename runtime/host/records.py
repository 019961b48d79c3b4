"""Lays out the steps of a program in memory, in the form that the thread pool reads (`native/pool.c`).

    block = | records: 4 words each | tables and pieces |      in 8-byte words
    table of a launch: 1 word per argument
    table of a loop:   flag | count | records | their number | moves | (address of a word, stride) per move
    table of a branch: flag | records | their number | records otherwise | their number

A record is one step, or a group of launches that run together. The record of a group launches the kernel `mxf_pieces`
over a table of pieces, 4 words each; a piece is a part of one of these launches that one thread runs. A loop or a
branch launches a kernel that runs the records in it. Words that hold a place which moves from one iteration of a loop
to the next are changed by the loop's kernel.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping, Sequence

from ...codegen.llvm.pool import BRANCH, CHUNK_ALIGNMENT, COPY, FILL, LOOP, RECORD_WORDS
from ...ir.program import Branch, Copy, Fill, HostCall, Launch, Loop, Place, Space, Step, places_of

WORD = 8
_COPIED = 64 << 10  # the fewest bytes of a copy that one thread copies

Group = Sequence[Step]


def as_launch(step: Step) -> Launch | Loop | Branch:
    """The launch that takes a step: of a kernel of the thread pool for a copy, of a function of the program for a call
    of Python. Loops and branches remain."""
    match step:
        case Copy():
            return Launch(COPY, (step.target, step.source), step.nbytes, _COPIED)
        case Fill():
            return Launch(FILL, (step.target,), step.nbytes, _COPIED)
        case HostCall():
            return Launch(host_symbol(step.function), step.arguments, 1, 1, step.kind, step.layers)
        case _:
            return step


def host_symbol(function: int) -> str:
    """The name of a Python function of a program among the symbols of its code."""
    return f"host{function}"


class Records:
    """The records of groups of steps. `words` is the block, `address` where it starts.

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
        self._moves: list[list[tuple[int, int]]] = []  # of the open loops: the words that move, and their strides
        self._block = (ctypes.c_int64 * max(_words_of(groups), 1))()
        self.address = ctypes.addressof(self._block)
        self.words = memoryview(self._block).cast("B").cast("q")
        self._next = 0  # the next free word
        self._list(groups)
        del self._own_address  # a method of an object that holds this one: memory is freed at once

    def record(self, number: int) -> int:
        """The address of a record."""
        return self.address + number * RECORD_WORDS * WORD

    def _take(self, words: int) -> int:
        start = self._next
        self._next += words
        return start

    def _at(self, word: int) -> int:
        return self.address + word * WORD

    def _put(self, word: int, values: Iterable[int]) -> None:
        for i, value in enumerate(values):
            self.words[word + i] = value

    def _list(self, groups: Sequence[Group]) -> tuple[int, int]:
        """Write the records of groups; returns the address of the first and their number."""
        start = self._take(RECORD_WORDS * len(groups))
        for number, group in enumerate(groups):
            record = self._alone(group[0]) if len(group) == 1 else self._together(group)
            self._put(start + number * RECORD_WORDS, record)
        return self._at(start), len(groups)

    def _alone(self, step: Step) -> tuple[int, int, int, int]:
        match as_launch(step):
            case Loop() as loop:
                return self._addresses[LOOP], self._loop(loop), 1, 1
            case Branch() as branch:
                return self._addresses[BRANCH], self._branch(branch), 1, 1
            case launch:
                return self._addresses[launch.symbol], self._table_of(launch), launch.count, launch.grain

    def _together(self, group: Group) -> tuple[int, int, int, int]:
        launches, count = _launches_of(group), _pieces_of(group)
        start = piece = self._take(RECORD_WORDS * count)
        for launch in launches:
            kernel, table, length = self._addresses[launch.symbol], self._table_of(launch), _piece_length(launch)
            for begin in range(0, launch.count, length):
                self._put(piece, (kernel, table, begin, min(begin + length, launch.count)))
                piece += RECORD_WORDS
        return self._pieces_kernel, self._at(start), count, 1 if self._shared else count

    def _table_of(self, launch: Launch) -> int:
        """Write the arguments of a launch; returns the address of the table."""
        start = self._take(len(launch.arguments))
        for word, argument in enumerate(launch.arguments, start):
            self.words[word] = argument if isinstance(argument, int) else self._initial(argument, word)
        return self._at(start)

    def _loop(self, loop: Loop) -> int:
        moving = _moving(loop.body, len(self._moves))
        start = self._take(_LOOP_WORDS + 2 * moving)
        flag = 0 if loop.flag is None else self._initial(loop.flag, start)
        self._moves.append([])
        body = self._list([(step,) for step in loop.body])
        moves = self._moves.pop()
        words = [n for word, stride in moves for n in (self._at(word), stride)]
        self._put(start, (flag, loop.count, *body, len(moves), *words))
        return self._at(start)

    def _branch(self, branch: Branch) -> int:
        start = self._take(_BRANCH_WORDS)
        flag = self._initial(branch.flag, start)
        lists = [n for steps in (branch.then, branch.otherwise) for n in self._list([(step,) for step in steps])]
        self._put(start, (flag, *lists))
        return self._at(start)

    def _initial(self, place: Place, word: int) -> int:
        """The address of a place in the program's memory; 0 for a place that is not known, whose word is patched
        later."""
        for moves, stride in zip(self._moves, place.strides, strict=False):
            if stride:
                moves.append((word, stride))
        own = self._own_address(place)
        if own is not None:
            return own
        if place.space in (Space.PREPARED, Space.ARENA):
            found = self.prepared if place.space is Space.PREPARED else self.scratch
            found.append((word, place.offset))
            return 0
        operand = place.index if place.space is Space.INPUT else self._inputs + place.index
        self.patches[operand].append((word, place.offset))
        return 0


_LOOP_WORDS, _BRANCH_WORDS = 5, 5  # of their tables, without moves


def _words_of(groups: Sequence[Group], depth: int = 0) -> int:
    """The words of the records of groups inside of `depth` loops, and of all that they refer to."""
    return sum(RECORD_WORDS * (1 + _pieces_of(group)) + sum(_table_words(s, depth) for s in group) for group in groups)


def _table_words(step: Step, depth: int) -> int:
    match as_launch(step):
        case Loop() as loop:
            inside = _words_of([(s,) for s in loop.body], depth + 1)
            return _LOOP_WORDS + 2 * _moving(loop.body, depth) + inside
        case Branch() as branch:
            return _BRANCH_WORDS + _words_of([(s,) for s in (*branch.then, *branch.otherwise)], depth)
        case launch:
            return len(launch.arguments)


def _moving(steps: Sequence[Step], depth: int) -> int:
    """How many places move with the loop that `depth` others contain."""
    return sum(1 for step in steps for p in places_of(step) if len(p.strides) > depth and p.strides[depth])


def _launches_of(group: Group) -> list[Launch]:
    """The launches of a group; loops and branches are groups of their own."""
    return [launch for step in group if isinstance(launch := as_launch(step), Launch)]


def _piece_length(launch: Launch) -> int:
    """The iterations of a launch in one piece: its grain. Long pieces start at aligned units, as long chunks do."""
    aligned = 1 if launch.grain < CHUNK_ALIGNMENT else CHUNK_ALIGNMENT
    return -(-launch.grain // aligned) * aligned


def _pieces_of(group: Group) -> int:
    """The number of pieces of a group; a launch alone has none."""
    return 0 if len(group) == 1 else sum(-(-x.count // _piece_length(x)) for x in _launches_of(group))
