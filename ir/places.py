"""Places in the memory of a program, and what steps do with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum

from .lazy_dataclass import dataclass


class Space(Enum):
    """The memory that holds a place: a tensor of the caller, or a block that the program owns."""

    INPUT = "input"
    OUTPUT = "output"
    ARENA = "arena"
    PREPARED = "prepared"
    CONSTANT = "constant"

    __hash__ = object.__hash__


class Column(int):
    """In the place of a number of a program that differs from shape to shape: its position among these numbers (see
    `codegen/dynamic_program.py`). A program with columns is only laid out."""

    def __bool__(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Place:
    """`index` is the position of an INPUT or OUTPUT and 0 elsewhere; `offset` counts bytes.

    Inside of loops, `strides` are the bytes by which the place moves from one iteration to the next, by loop, the
    outermost first; 0 for further loops.
    """

    space: Space
    index: int = 0
    offset: int = 0
    strides: tuple[int, ...] = ()

    def at(self, offset: int) -> Place:
        """The place `offset` bytes after this one."""
        return replace(self, offset=self.offset + offset)

    def reach(self, counts: Sequence[int]) -> tuple[int, int]:
        """The least and the largest offset of this place in loops with so many iterations, the outermost first."""
        ways = [stride * max(count - 1, 0) for stride, count in zip(self.strides, counts, strict=False)]
        return self.offset + sum(min(n, 0) for n in ways), self.offset + sum(max(n, 0) for n in ways)

    def behind(self, start: Place) -> Place:
        """This place of an operand or a block of memory that begins at `start`, which does not move."""
        return Place(start.space, start.index, start.offset + self.offset, self.strides)

    def text(self) -> str:
        """The place in one word: `input0+0`, `arena+4096`, with `+256*i0` if it moves by 256 bytes with each iteration
        of the outermost loop."""
        position = str(self.index) if self.space in (Space.INPUT, Space.OUTPUT) else ""
        moves = "".join(f"{stride:+}*i{depth}" for depth, stride in enumerate(self.strides) if stride)
        return f"{self.space.value}{position}+{self.offset}{moves}"


Move = Callable[[Place], Place]


@dataclass(frozen=True, slots=True)
class Access:
    """What a step does with the `nbytes` bytes that begin at a place."""

    nbytes: int
    reads: bool
    writes: bool

    def text(self) -> str:
        """The access in one word: `r64`, `w64` or `rw64`."""
        return f"{'r' * self.reads}{'w' * self.writes}{self.nbytes}"


def reading(nbytes: int) -> Access:
    """An access that only reads."""
    return Access(nbytes, reads=True, writes=False)


def writing(nbytes: int) -> Access:
    """An access that replaces all bytes, whatever they were."""
    return Access(nbytes, reads=False, writes=True)
