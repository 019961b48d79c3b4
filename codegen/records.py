"""Lays out the steps of a program in one block of 8-byte words: the form in which every device takes them.

    block = | records: 4 words each | tables and pieces |
    record:            kernel | table | count | grain
    table of a launch: 1 word per argument
    table of a loop:   flag | count | records | their number | moves | (address of a word, stride) per move
    table of a branch: flag | records | their number | records otherwise | their number
    piece:             kernel | table | begin | end

The thread pool of the host (`runtime/host/native/pool.h`) runs the records. Other devices are given the tables of
launches (`runtime/launch_list.py`): the arguments of a launch are consecutive words, and addresses are integers.

A record is one step, or a group of launches that run together: a launch of `PIECES` over a table of pieces, which are
parts of these launches. A loop or a branch launches a kernel that runs the records in it. A loop changes the words that
hold a place which moves from one iteration to the next.

A `Layout` is made once for a program. Its words have no addresses. It lists the words that hold those of memory, of
kernels and of other words, and each block of memory with these words gets its own.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..ir.places import Column
from ..ir.program import Branch, Copy, Fill, HostCall, Launch, Loop, Place, Space, Step
from ..ir.steps import REDUCTIONS, Collective
from ..ir.types import DType

RECORD_WORDS = 4
"""The size of a record and of a piece in 8-byte words."""

KERNELS = PIECES, COPY, FILL, LOOP, BRANCH = "mxf_pieces", "mxf_copy", "mxf_fill", "mxf_loop", "mxf_branch"
"""Kernels that are not in the code of programs: the pieces of several launches, a copy of bytes, zeros, and the records
of a loop or a branch. The arguments of a copy are the target and the source, that of zeros is the target; the count is
in bytes."""

COLLECTIVE = "collective"
"""The kernel of collectives. Its arguments are the target, the source, the count, and the numbers of `reduction_of`."""

HOST_CALLS = HostCall | Collective
"""The kinds of steps that call Python."""

HOST_STEPS = HOST_CALLS | Loop | Branch
"""The kinds of steps that a device leaves to the host."""

COPIED = 64 << 10
"""The fewest bytes of a copy that one thread copies."""
_ALIGNED = 64  # long pieces begin at multiples of it, as the chunks of a launch do

_DTYPES = list(DType)

Group = Sequence[Step]

Memory = tuple[Space, int]
"""A block of memory: its space, and the position of an input or output."""


def as_launch(step: Step) -> Launch | Loop | Branch:
    """The launch that takes a step: of one of `KERNELS` for a copy, of a function of the program for a call of Python,
    of COLLECTIVE for a collective. Loops and branches remain."""
    match step:
        case Launch():  # first: nearly all steps are launches
            return step
        case Copy():
            return Launch(COPY, (step.target, step.source), step.nbytes, COPIED)
        case Fill():
            return Launch(FILL, (step.target,), step.nbytes, COPIED)
        case HostCall():
            return Launch(host_symbol(step.function), step.arguments, 1, 1, step.kind, step.layers)
        case Collective():
            numbers = step.count, REDUCTIONS.index(step.operation), _DTYPES.index(DType(step.dtype))
            return Launch(COLLECTIVE, (step.target, step.source, *numbers), 1, 1, step.kind, step.layers)
        case _:
            return step


def host_symbol(function: int) -> str:
    """The name of a Python function of a program among the symbols of its code."""
    return f"host{function}"


def reduction_of(operation: int, dtype: int) -> tuple[str, DType]:
    """The operation and the dtype of a launch of COLLECTIVE, from its last two arguments."""
    return REDUCTIONS[operation], _DTYPES[dtype]


class Placed(NamedTuple):
    """A step and the first word of its table. `inside` are the lists of steps in a loop or a branch, `moves` the words
    that a loop changes, with their strides."""

    step: Step
    table: int
    inside: tuple[tuple[Placed, ...], ...] = ()
    moves: tuple[tuple[int, int], ...] = ()


class Layout:
    """The words of groups of steps. The first words are the records of `prepare` and of `groups`.

    `memory` lists, for each block of memory, the words that hold an address in it, with the offset in bytes. `kernels`
    lists the words that hold the address of a kernel, with its symbol. `links` lists the words that hold the address of
    another word of the block, with its number. If steps have columns in the place of numbers (`Dynamic.with_columns`),
    `columns` lists the words that hold such a number, with its column; offsets can be columns too.
    """

    def __init__(self, prepare: Sequence[Step], groups: Sequence[Group], shared: bool = True) -> None:
        """Threads share groups of several launches if `shared`."""
        self.words = array("q")
        self.memory: dict[Memory, list[tuple[int, int]]] = defaultdict(list)
        self.kernels: list[tuple[int, str]] = []
        self.links: list[tuple[int, int]] = []
        self.columns: list[tuple[int, Column]] = []
        self._shared = shared
        self._moves: list[list[tuple[int, int]]] = []  # of the open loops: the words that move, and their strides
        alone = [(step,) for step in prepare]
        _, placed = self._list([*alone, *groups])
        self.prepare, self.steps = placed[: len(prepare)], placed[len(prepare) :]

    def operands(self, inputs: int, outputs: int) -> list[Sequence[tuple[int, int]]]:
        """The words that hold addresses in each input and then in each output, as in `memory`."""
        operands = [*((Space.INPUT, i) for i in range(inputs)), *((Space.OUTPUT, i) for i in range(outputs))]
        return [self.memory.get(operand, ()) for operand in operands]

    def _take(self, words: int) -> int:
        start = len(self.words)
        self.words.frombytes(bytes(8 * words))
        return start

    def _put(self, word: int, values: Iterable[int]) -> None:
        for i, value in enumerate(values, word):
            self.words[i] = value
            if isinstance(value, Column):
                self.columns.append((i, value))

    def _list(self, groups: Sequence[Group]) -> tuple[int, tuple[Placed, ...]]:
        """Write the records of groups; returns the word of the first, and the steps."""
        start = self._take(RECORD_WORDS * len(groups))
        placed: list[Placed] = []
        for record, group in enumerate(groups):
            word = start + record * RECORD_WORDS
            placed += [self._alone(word, group[0])] if len(group) == 1 else self._together(word, group)
        return start, tuple(placed)

    def _record(self, word: int, kernel: str, table: int, count: int, grain: int) -> None:
        self.kernels.append((word, kernel))
        self.links.append((word + 1, table))
        self.words[word + 2] = count
        self.words[word + 3] = grain
        if count.__class__ is not int or grain.__class__ is not int:
            self._put(word + 2, (count, grain))

    def _alone(self, word: int, step: Step) -> Placed:
        match as_launch(step):
            case Launch() as launch:
                placed = Placed(step, self._table_of(launch))
                self._record(word, launch.symbol, placed.table, launch.count, launch.grain)
            case Loop() as loop:
                placed = self._loop(loop)
                self._record(word, LOOP, placed.table, 1, 1)
            case Branch() as branch:
                placed = self._branch(branch)
                self._record(word, BRANCH, placed.table, 1, 1)
        return placed

    def _together(self, word: int, group: Group) -> list[Placed]:
        """The record of several launches; loops and branches are groups of their own."""
        launches = [(step, launch) for step in group if isinstance(launch := as_launch(step), Launch)]
        count = sum(-(-launch.count // _piece_length(launch)) for _, launch in launches)
        piece = start = self._take(RECORD_WORDS * count)
        placed: list[Placed] = []
        for step, launch in launches:
            placed.append(Placed(step, self._table_of(launch)))
            length = _piece_length(launch)
            for begin in range(0, launch.count, length):
                self._record(piece, launch.symbol, placed[-1].table, begin, min(begin + length, launch.count))
                piece += RECORD_WORDS
        self._record(word, PIECES, start, count, 1 if self._shared else count)
        return placed

    def _table_of(self, launch: Launch) -> int:
        start = self._take(len(launch.arguments))
        words = self.words
        for word, argument in enumerate(launch.arguments, start):
            if argument.__class__ is int:  # nearly all arguments are
                words[word] = argument  # type: ignore[call-overload]
            elif isinstance(argument, int):
                self._put(word, (argument,))
            else:
                self._place(argument, word)
        return start

    def _loop(self, loop: Loop) -> Placed:
        self._moves.append([])
        records, body = self._list([(step,) for step in loop.body])
        moves = tuple(self._moves.pop())
        start = self._take(5 + 2 * len(moves))
        if loop.flag is not None:
            self._place(loop.flag, start)
        self.links.append((start + 2, records))
        self._put(start + 1, (loop.count, 0, len(loop.body), len(moves)))
        for at, (word, stride) in zip(range(start + 5, len(self.words), 2), moves, strict=True):
            self.links.append((at, word))
            self._put(at + 1, (stride,))
        return Placed(loop, start, (body,), moves)

    def _branch(self, branch: Branch) -> Placed:
        start = self._take(5)
        self._place(branch.flag, start)
        inside: list[tuple[Placed, ...]] = []
        for at, steps in zip((start + 1, start + 3), (branch.then, branch.otherwise), strict=True):
            records, placed = self._list([(step,) for step in steps])
            self.links.append((at, records))
            self.words[at + 1] = len(steps)
            inside.append(placed)
        return Placed(branch, start, tuple(inside))

    def _place(self, place: Place, word: int) -> None:
        """Note that a word holds the address of a place."""
        if place.strides:
            for moves, stride in zip(self._moves, place.strides, strict=False):
                if stride:
                    moves.append((word, stride))
        self.memory[place.space, place.index].append((word, place.offset))


def _piece_length(launch: Launch) -> int:
    """The iterations of a launch in one piece: its grain."""
    return launch.grain if launch.grain < _ALIGNED else -(-launch.grain // _ALIGNED) * _ALIGNED
