"""Binds the parameters of programs, for compiled folders.

The programs then read all that depends on them from one block of memory, which is computed once. Programs of one model
for several shapes share it: a value that two of them prepare, such as packed weights, is stored once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Mapping, Sequence
from hashlib import blake2b

import numpy as np

from ..ir.program import Place, Program, Space, all_steps, own_places, places_of
from ..ir.program_rewrite import bind, preparation
from ..ir.types import DType, TensorType
from .devices import HOST

ALIGNMENT = 64


def freeze(program: Program, parameters: Mapping[int, np.ndarray]) -> tuple[Program, np.ndarray]:
    """The program without parameters, and the block of bytes that is its last input instead; see `FrozenMemory`."""
    memory = FrozenMemory(parameters)
    return memory.freeze(program), memory.block()


class FrozenMemory:
    """The block of memory that frozen programs of one model share.

    `parameters` holds the values of all inputs that are parameters, by position, in memory as programs read it. The
    block holds the prepared values, the constants, and the parameters that a run reads directly.
    """

    def __init__(self, parameters: Mapping[int, np.ndarray]) -> None:
        self._parameters = parameters
        self._parts: list[np.ndarray] = []
        self._starts: dict[bytes, int] = {}  # of parts, by digest
        self._end = 0
        self._prepared: dict[Hashable, _Moves] = {}
        self._constants: dict[bytes, int] = {}
        self._direct: dict[int, int] = {}

    def freeze(self, program: Program) -> Program:
        """The program without parameters. Its last input is the block, of which it needs the bytes so far; the others
        keep their order. ValueError if the program replaces a parameter."""
        prepared, constants = self._prepared_moves(program), self._constant_start(program.constants)
        for index in sorted({p.index for step in program.steps for p in places_of(step) if self._is_parameter(p)}):
            if index not in self._direct:
                self._direct[index] = self._add(self._parameters[index].reshape(-1).view(np.uint8))

        def moved(place: Place) -> int | None:
            if place.space is Space.PREPARED:
                return prepared.moved(place.offset)
            if place.space is Space.CONSTANT:
                return constants + place.offset
            return self._direct[place.index] + place.offset if self._is_parameter(place) else None

        block = TensorType((max(self._end, ALIGNMENT),), DType.U8)
        return bind(program, self._parameters, moved, block)

    def block(self) -> np.ndarray:
        """The bytes. Never empty."""
        return _joined(self._parts)

    def _is_parameter(self, place: Place) -> bool:
        return place.space is Space.INPUT and place.index in self._parameters

    def _add(self, part: np.ndarray) -> int:
        """The offset of a part; of the one that is stored, if one has the same bytes."""
        digest = blake2b(part.data).digest()
        start = self._starts.get(digest)
        if start is None:
            start = self._starts[digest] = self._end
            self._parts.append(part)
            self._end += _padded(len(part))
        return start

    def _constant_start(self, constants: bytes) -> int:
        start = self._constants.get(constants)
        if start is None:
            start = self._constants[constants] = self._add(np.frombuffer(constants, np.uint8)) if constants else 0
        return start

    def _prepared_moves(self, program: Program) -> _Moves:
        cuts = _cuts(program)
        key = program.prepare, program.constants, program.prepared_bytes, tuple(cuts)
        moves = self._prepared.get(key)
        if moves is None:
            block = _prepared(program, self._parameters)
            ends = [*cuts[1:], len(block)]
            starts = [self._add(block[start:end]) for start, end in zip(cuts, ends, strict=True)]
            moves = self._prepared[key] = _Moves(cuts, starts)
        return moves


class _Moves:
    """Where parts of the prepared memory are in the block: those that begin at `cuts` are at `starts`."""

    def __init__(self, cuts: Sequence[int], starts: Sequence[int]) -> None:
        self._cuts, self._starts = cuts, starts

    def moved(self, offset: int) -> int:
        part = bisect_right(self._cuts, offset) - 1
        return self._starts[part] + offset - self._cuts[part]


def _cuts(program: Program) -> list[int]:
    """The offsets that divide the prepared memory into parts, so that no step accesses more than one part at a place:
    the first is 0. None is inside of a value if what a step accesses is not known."""
    ranges: set[tuple[int, int]] = set()
    for step in all_steps((*program.prepare, *program.steps)):
        places, accesses = own_places(step), program.accesses(step)
        for i, place in enumerate(places):
            if place.space is not Space.PREPARED:
                continue
            if not accesses or place.strides:
                return [0]
            ranges.add((place.offset, place.offset + accesses[i].nbytes))
    cuts, end = [0], 0
    for first, last in sorted(ranges):
        start = first - first % ALIGNMENT
        if start >= end and start > cuts[-1]:
            cuts.append(start)
        end = max(end, last)
    return cuts


def lay_out_parameters(
    parameters: Mapping[int, np.ndarray],
) -> tuple[tuple[tuple[int, int], ...], np.ndarray]:
    """(positions and first bytes of the parameters, the block of bytes that holds them): what a program for a GPU
    reads, which packs them itself."""
    parts = [array.reshape(-1).view(np.uint8) for array in parameters.values()]
    starts = np.cumsum([0, *(_padded(len(part)) for part in parts)]).tolist()
    return tuple(zip(parameters, starts, strict=False)), _joined(parts)


def _prepared(program: Program, parameters: Mapping[int, np.ndarray]) -> np.ndarray:
    """The content of the prepared space after `prepare` has run on these parameters."""
    block = _aligned_zeros(program.prepared_bytes)
    if program.prepare:
        inputs = [parameters[i].ctypes.data if i in parameters else 0 for i in range(len(program.inputs))]
        HOST.load(preparation(program)).run(inputs, [block.ctypes.data])
    return block


def _joined(parts: Sequence[np.ndarray]) -> np.ndarray:
    """One block that holds all parts at multiples of `ALIGNMENT`, and is never empty."""
    block = _aligned_zeros(max(sum(_padded(len(part)) for part in parts), ALIGNMENT))
    start = 0
    for part in parts:
        block[start : start + len(part)] = part
        start += _padded(len(part))
    return block


def _padded(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def _aligned_zeros(nbytes: int) -> np.ndarray:
    padded = np.zeros(nbytes + ALIGNMENT, np.uint8)
    start = -padded.ctypes.data % ALIGNMENT
    return padded[start : start + nbytes]
