"""Binds the parameters of a program, for compiled folders.

The program then reads all that depends on them from one block of memory, which is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import numpy as np

from ..ir.program import Copy, Launch, Place, Program, Space
from ..ir.types import DType, TensorType

ALIGNMENT = 64


def freeze(program: Program, parameters: Mapping[int, np.ndarray]) -> tuple[Program, np.ndarray]:
    """The program without parameters, and the block of bytes that is its last input instead.

    `parameters` holds the values of all inputs that are parameters, by position, in memory as the program reads it. The
    other inputs keep their order. The block holds the prepared values, the constants, and the parameters that a run
    reads directly. ValueError if the program replaces a parameter.
    """
    replaced = [i for i in program.state if i in parameters]
    if replaced:
        raise ValueError(f"{program.name} replaces its parameters {replaced}: they cannot be bound")
    direct = sorted({p.index for p in _places(program) if p.space is Space.INPUT and p.index in parameters})
    parts = {
        (Space.PREPARED, 0): _prepared(program, parameters),
        (Space.CONSTANT, 0): np.frombuffer(program.constants, np.uint8),
        **{(Space.INPUT, i): parameters[i].reshape(-1).view(np.uint8) for i in direct},
    }
    starts, block = _laid_out(parts)
    rest = [i for i in range(len(program.inputs)) if i not in parameters]
    positions = {old: new for new, old in enumerate(rest)}

    def move(place: Place) -> Place:
        start = starts.get((place.space, place.index))
        if start is not None:
            return Place(Space.INPUT, len(rest), start + place.offset)
        return replace(place, index=positions[place.index]) if place.space is Space.INPUT else place

    frozen = replace(
        program,
        inputs=(*(program.inputs[i] for i in rest), TensorType(block.shape, DType.U8)),
        parameters=frozenset(),
        launches=_moved(program.launches, move),
        prepare=(),
        copies=tuple(Copy(move(c.target), move(c.source), c.nbytes) for c in program.copies),
        prepared_bytes=0,
        constants=b"",
        state=tuple(positions[i] for i in program.state),
        random=program.random and replace(program.random, input=positions[program.random.input]),
        elementwise=frozenset(positions[i] for i in program.elementwise if i in positions),
    )
    return frozen, block


def _moved(launches: Iterable[Launch], move: Callable[[Place], Place]) -> tuple[Launch, ...]:
    """The launches with `move` applied to each place."""
    return tuple(
        replace(launch, arguments=tuple(a if isinstance(a, int) else move(a) for a in launch.arguments))
        for launch in launches
    )


def _places(program: Program) -> list[Place]:
    """All places that a run reads or writes."""
    arguments = [a for launch in program.launches for a in launch.arguments if isinstance(a, Place)]
    return arguments + [place for copy in program.copies for place in (copy.target, copy.source)]


def _prepared(program: Program, parameters: Mapping[int, np.ndarray]) -> np.ndarray:
    """The content of the prepared space after `prepare` has run on these parameters."""
    block = _aligned_zeros(program.prepared_bytes)
    if not program.prepare:
        return block
    from .executable import Executable

    def move(place: Place) -> Place:
        return Place(Space.OUTPUT, 0, place.offset) if place.space is Space.PREPARED else place

    preparation = replace(
        program,
        outputs=(TensorType(block.shape, DType.U8),),
        launches=_moved(program.prepare, move),
        prepare=(),
        copies=(),
        random=None,
        checks=(),
        prepared_bytes=0,
    )
    inputs = [parameters[i].ctypes.data if i in parameters else 0 for i in range(len(program.inputs))]
    Executable(preparation).run(inputs, [block.ctypes.data])
    return block


def _laid_out(parts: Mapping[tuple[Space, int], np.ndarray]) -> tuple[dict[tuple[Space, int], int], np.ndarray]:
    """The offset of each part, and one block that holds all parts and is never empty."""
    starts: dict[tuple[Space, int], int] = {}
    end = 0
    for key, part in parts.items():
        starts[key] = end
        end += -(-len(part) // ALIGNMENT) * ALIGNMENT
    block = _aligned_zeros(max(end, ALIGNMENT))
    for key, part in parts.items():
        block[starts[key] : starts[key] + len(part)] = part
    return starts, block


def _aligned_zeros(nbytes: int) -> np.ndarray:
    padded = np.zeros(nbytes + ALIGNMENT, np.uint8)
    start = -padded.ctypes.data % ALIGNMENT
    return padded[start : start + nbytes]
