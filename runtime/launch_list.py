"""Launches that a device takes in one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..ir.program import Program, Step
from ..ir.program_graph import launch_order


class BoundLaunch(NamedTuple):
    """A launch of a kernel over a grid of `size`. Its arguments are the words [first, end) of the list.

    `kernel` is one of `Launcher.load_code`, or COPY or FILL (`codegen/records.py`) with a number of bytes as size, and
    `step` the step of the program that is launched.
    """

    step: Step
    kernel: Any
    size: int
    first: int
    end: int


class LaunchList:
    """Launches in order, with the words of their arguments: addresses in the device's memory and other numbers, as
    integers of 64 bits.

    `words` is a block of memory of the host. It belongs to one run at a time, which writes addresses into it and then
    passes the list to `Launcher.run`. Later runs can write other addresses. `kept` is for the device: what it keeps for
    this list from run to run, such as a graph of the launches and the words for which it was made. A list whose run
    raised an error is not run again. Errors name the `program` of the launches.
    """

    __slots__ = ("kept", "launches", "program", "words")

    def __init__(self, launches: Sequence[BoundLaunch], words: memoryview, program: Program) -> None:
        self.launches, self.words, self.program = tuple(launches), words, program
        self.kept: Any = None

    def edges(self) -> list[tuple[int, int]]:
        """The edges of the graph of these launches, by their numbers: the second one runs after the first one.
        Launches that no path connects can run at the same time. There are as few edges as possible."""
        return launch_order(self.program, [launch.step for launch in self.launches])
