"""Binds the parameters of a program, for compiled folders.

The program then reads all that depends on them from one block of memory, which is computed once.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..ir.program import Program, Space, places_of
from ..ir.program_rewrite import bind, preparation
from ..ir.types import DType, TensorType
from .devices import HOST

ALIGNMENT = 64


def freeze(program: Program, parameters: Mapping[int, np.ndarray]) -> tuple[Program, np.ndarray]:
    """The program without parameters, and the block of bytes that is its last input instead.

    `parameters` holds the values of all inputs that are parameters, by position, in memory as the program reads it. The
    other inputs keep their order. The block holds the prepared values, the constants, and the parameters that a run
    reads directly. ValueError if the program replaces a parameter.
    """
    places = [place for step in program.steps for place in places_of(step)]
    direct = sorted({p.index for p in places if p.space is Space.INPUT and p.index in parameters})
    parts = {
        (Space.PREPARED, 0): _prepared(program, parameters),
        (Space.CONSTANT, 0): np.frombuffer(program.constants, np.uint8),
        **{(Space.INPUT, i): parameters[i].reshape(-1).view(np.uint8) for i in direct},
    }
    starts, block = _laid_out(parts)
    return bind(program, parameters, starts, TensorType(block.shape, DType.U8)), block


def lay_out_parameters(
    parameters: Mapping[int, np.ndarray],
) -> tuple[tuple[tuple[int, int], ...], np.ndarray]:
    """(positions and first bytes of the parameters, the block of bytes that holds them): what a program for a GPU
    reads, which packs them itself."""
    parts = {(Space.INPUT, i): array.reshape(-1).view(np.uint8) for i, array in parameters.items()}
    starts, block = _laid_out(parts)
    return tuple((i, start) for (_, i), start in starts.items()), block


def _prepared(program: Program, parameters: Mapping[int, np.ndarray]) -> np.ndarray:
    """The content of the prepared space after `prepare` has run on these parameters."""
    block = _aligned_zeros(program.prepared_bytes)
    if program.prepare:
        inputs = [parameters[i].ctypes.data if i in parameters else 0 for i in range(len(program.inputs))]
        HOST.load(preparation(program)).run(inputs, [block.ctypes.data])
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
