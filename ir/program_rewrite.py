"""Derives programs from programs. The functions are pure and compile nothing: results equal those of the given programs
bit for bit.

    move_steps(steps, move)                steps with other places
    map_places(program, move)              a program with other places
    preparation(program)                   the steps of `prepare` alone
    bind(program, parameters, starts, t)   with all that depends on parameters in one block of memory

`program_combination.py` makes one program of several.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from .program import Branch, Copy, Fill, HostCall, Launch, Loop, Place, Program, Space, Step
from .types import DType, TensorType

Move = Callable[[Place], Place]


def move_step(step: Step, move: Move) -> Step:
    """The step with `move` applied to each place, also in the steps in it."""
    match step:
        case Launch():
            return replace(step, arguments=tuple([a if isinstance(a, int) else move(a) for a in step.arguments]))
        case HostCall():
            return replace(step, arguments=tuple(map(move, step.arguments)))
        case Copy():
            return Copy(move(step.target), move(step.source), step.nbytes)
        case Fill():
            return Fill(move(step.target), step.nbytes)
        case Loop():
            flag = None if step.flag is None else move(step.flag)
            return replace(step, body=move_steps(step.body, move), flag=flag)
        case Branch():
            then, otherwise = move_steps(step.then, move), move_steps(step.otherwise, move)
            return replace(step, flag=move(step.flag), then=then, otherwise=otherwise)


def move_steps(steps: Iterable[Step], move: Move) -> tuple[Step, ...]:
    """The steps with `move` applied to each place."""
    return tuple([move_step(step, move) for step in steps])


def name_steps(steps: Iterable[Step], layers: Sequence[int], unnamed: tuple[int, ...]) -> tuple[Step, ...]:
    """The steps with layer i at position `layers[i]` of the names of another program. What computes no layer gets the
    layers `unnamed`."""

    def named(step: Step) -> Step:
        match step:
            case Copy() | Fill():
                return step
            case Loop():
                step = replace(step, body=name_steps(step.body, layers, unnamed))
            case Branch():
                then, otherwise = (name_steps(x, layers, unnamed) for x in (step.then, step.otherwise))
                step = replace(step, then=then, otherwise=otherwise)
            case _:
                pass
        return replace(step, layers=tuple([layers[i] for i in step.layers]) or unnamed)

    return tuple([named(step) for step in steps])


def map_places(program: Program, move: Move) -> Program:
    """The program with `move` applied to each place."""
    return replace(
        program,
        steps=move_steps(program.steps, move),
        prepare=move_steps(program.prepare, move),
    )


def preparation(program: Program) -> Program:
    """The program that prepares: its steps are `prepare`, and its only output is the prepared memory, which is zeros
    before a run."""

    def move(place: Place) -> Place:
        return replace(place, space=Space.OUTPUT) if place.space is Space.PREPARED else place

    return replace(
        program,
        outputs=(TensorType((program.prepared_bytes,), DType.U8),),
        steps=move_steps(program.prepare, move),
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
            return replace(place, space=Space.INPUT, index=len(rest), offset=start + place.offset)
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
