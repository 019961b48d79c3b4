"""Derives programs from programs. The functions are pure and compile nothing: results equal those of the given programs
bit for bit.

    map_places(program, move)              with other places
    preparation(program)                   the launches of `prepare` alone
    bind(program, parameters, starts, t)   with all that depends on parameters in one block of memory

`program_combination.py` makes one program of several.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from .program import Copy, Launch, Place, Program, Space, Step
from .types import DType, TensorType

Move = Callable[[Place], Place]


def move_step(step: Step, move: Move) -> Step:
    """The step with `move` applied to each place."""
    return (
        move_launch(step, move) if isinstance(step, Launch) else Copy(move(step.target), move(step.source), step.nbytes)
    )


def move_launch(launch: Launch, move: Move) -> Launch:
    """The launch with `move` applied to each place."""
    return replace(launch, arguments=tuple([a if isinstance(a, int) else move(a) for a in launch.arguments]))


def map_places(program: Program, move: Move) -> Program:
    """The program with `move` applied to each place."""
    return replace(
        program,
        steps=tuple(move_step(step, move) for step in program.steps),
        prepare=tuple(move_launch(launch, move) for launch in program.prepare),
    )


def preparation(program: Program) -> Program:
    """The program that prepares: its steps are `prepare`, and its only output is the prepared memory, which is zeros
    before a run."""

    def move(place: Place) -> Place:
        return Place(Space.OUTPUT, 0, place.offset) if place.space is Space.PREPARED else place

    return replace(
        program,
        outputs=(TensorType((program.prepared_bytes,), DType.U8),),
        steps=tuple(move_launch(launch, move) for launch in program.prepare),
        prepare=(),
        groups=(),
        random=None,
        checks=(),
        prepared_bytes=0,
    )


def bind(
    program: Program, parameters: Collection[int], starts: Mapping[tuple[Space, int], int], block: TensorType
) -> Program:
    """The program without the inputs `parameters`, with `block` as the last input. The block holds the prepared memory,
    the constants, and the parameters that steps read: `starts` has the offset of each by (space, index).

    The other inputs keep their order. ValueError if the program replaces a parameter.
    """
    replaced = [i for i in program.state if i in parameters]
    if replaced:
        raise ValueError(f"{program.name} replaces its parameters {replaced}: they cannot be bound")
    rest = [i for i in range(len(program.inputs)) if i not in parameters]
    positions = {old: new for new, old in enumerate(rest)}

    def move(place: Place) -> Place:
        start = starts.get((place.space, place.index))
        if start is not None:
            return Place(Space.INPUT, len(rest), start + place.offset)
        return replace(place, index=positions[place.index]) if place.space is Space.INPUT else place

    return replace(
        map_places(replace(program, prepare=()), move),
        inputs=(*(program.inputs[i] for i in rest), block),
        parameters=frozenset(),
        prepared_bytes=0,
        constants=b"",
        state=tuple(positions[i] for i in program.state),
        random=program.random and replace(program.random, input=positions[program.random.input]),
        elementwise=frozenset(positions[i] for i in program.elementwise if i in positions),
    )
