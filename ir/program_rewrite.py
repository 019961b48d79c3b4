"""Derives programs from programs. The functions are pure and compile nothing: results equal those of the given programs
bit for bit.

    move_steps(steps, move)                steps with other places
    map_places(program, move)              a program with other places
    preparation(program)                   the steps of `prepare` alone
    bind(program, parameters, moved, t)    with all that depends on parameters in one block of memory
    combine_outputs(program, buckets)      with buckets of outputs combined over a group of processes

`program_combination.py` makes one program of several.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

from .places import Move
from .program import Copy, Place, Program, Space, Step
from .step_accesses import group_steps, last_accesses
from .step_fields import FieldType, Layers, fields_of
from .steps import Collective
from .types import DType, TensorType


def move_step(step: Step, move: Move) -> Step:
    """The step with `move` applied to each place, also in the steps in it."""
    kind: Any = step.__class__
    return kind(*[_moved(type, getattr(step, name), move) for name, type in fields_of(kind).all.items()])


def _moved(type: FieldType, value: Any, move: Move) -> Any:
    return move_steps(value, move) if type.has_steps else type.moved(value, move)


def move_steps(steps: Iterable[Step], move: Move) -> tuple[Step, ...]:
    """The steps with `move` applied to each place."""
    return tuple([move_step(step, move) for step in steps])


def name_steps(steps: Iterable[Step], layers: Sequence[int], unnamed: tuple[int, ...]) -> tuple[Step, ...]:
    """The steps with layer i at position `layers[i]` of the names of another program. What computes no layer gets the
    layers `unnamed`."""

    def named(step: Step) -> Step:
        fields, changed = fields_of(step.__class__), dict[str, Any]()
        for name in fields.steps:
            changed[name] = name_steps(getattr(step, name), layers, unnamed)
        for name in fields.layers:
            own: Layers = getattr(step, name)
            changed[name] = tuple([layers[i] for i in own]) or unnamed
        return replace(step, **changed) if changed else step

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
    program: Program, parameters: Collection[int], moved: Callable[[Place], int | None], block: TensorType
) -> Program:
    """The program without the inputs `parameters`, with `block` as the last input. The block holds the prepared memory,
    the constants, and the parameters that steps read: `moved` returns the offset in it of such a place, None for
    others.

    The other inputs keep their order. ValueError if the program replaces a parameter.
    """
    replaced = [i for i in program.state if i in parameters]
    if replaced:
        raise ValueError(f"{program.name} replaces its parameters {replaced}: they cannot be bound")
    rest = [i for i in range(len(program.inputs)) if i not in parameters]
    positions = {old: new for new, old in enumerate(rest)}

    def move(place: Place) -> Place:
        offset = moved(place)
        if offset is not None:
            return replace(place, space=Space.INPUT, index=len(rest), offset=offset)
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


def combine_outputs(program: Program, buckets: Sequence[Sequence[int]], operation: str = "sum") -> Program:
    """The program with one more output for each bucket of outputs, which have one dtype: their values one after
    another, combined over all members of a group. A bucket is combined as soon as its outputs and those of the buckets
    before it have their values: gradients are sent while others are computed.

    ValueError for an output that no step writes.
    """
    final, added = last_accesses(program), dict[int, list[Step]]()
    types: list[TensorType] = []
    reached = 0
    for number, bucket in enumerate(buckets, len(program.outputs)):
        start, offset = Place(Space.OUTPUT, number), 0
        for position in bucket:
            if position not in final:
                raise ValueError(f"{program.name}: no step writes output {position}")
            reached, nbytes = max(reached, final[position]), program.outputs[position].nbytes
            copy = Copy(start.at(offset), Place(Space.OUTPUT, position), nbytes)
            added.setdefault(final[position], []).append(copy)
            offset += nbytes
        dtype = program.outputs[bucket[0]].dtype
        types.append(TensorType((offset // dtype.itemsize,), dtype))
        layers: Layers = getattr(program.steps[reached], "layers", ())
        combined = Collective(operation, dtype.value, start, start, types[-1].size, layers=layers)
        added.setdefault(reached, []).append(combined)
    steps = [step for n, own in enumerate(program.steps) for step in (own, *added.get(n, ()))]
    combining = replace(program, steps=tuple(steps), outputs=(*program.outputs, *types), groups=())
    return group_steps(combining) if program.groups else combining
