"""Runs a program launch by launch, so that its memory can be read in between."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.program import Place
from .allocator import allocate_zeroed
from .executable import Executable


class SteppedRun:
    """One run of a program on operands at fixed addresses. Launches that prepare are numbered first, then the others.

    The caller runs each launch once, in order, and then `finish`. Programs whose steps run in groups are not supported;
    the compiler makes none, and its copies follow the launches.
    """

    def __init__(self, executable: Executable, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        program = executable.program
        if program.groups:
            raise ValueError(f"{program.name} has groups of steps")
        self._executable = executable
        self._prepared = allocate_zeroed(program.prepared_bytes)
        self._instance = executable.take_instance()
        self._instance.begin([*inputs, *outputs], self._prepared)

    def run(self, launch: int) -> None:
        """Run a launch, with all threads. An exception of a Python function that it calls is raised."""
        with self._executable.calling_python():
            self._instance.run_one(launch)

    def address(self, place: Place) -> int:
        """The address of a place."""
        return self._instance.address(place)

    def finish(self) -> None:
        """Copy the outputs that no launch computes, replace the inputs that a run updates, and give the memory back."""
        program = self._executable.program
        first = len(program.prepare) + len(program.computations)
        for number in range(first, len(program.prepare) + len(program.steps)):
            self._instance.run_one(number)
        self._executable.give_instance(self._instance)
