"""Gives random programs inputs of other extents."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import mxforge as mx
import numpy as np
from random_program_forms import Block, arrays, results
from random_programs import Array, Program

TRIALS, WANTED = 6, 2
MOST_ELEMENTS, LARGEST = 200_000, 1e4


def resized(program: Program) -> tuple[Program, ...]:
    """The program with inputs of other extents and what it then gives; to be called under the reference target.

    Equal extents stay equal, and 0 and 1 stay what they are. Extents that a step refuses are left out, and numbers with
    which an eager loop runs no step: it returns an empty list, as in MXNet.
    """
    return tuple(found for found, _ in zip(_accepted(program), range(WANTED), strict=False))


def _accepted(program: Program) -> Iterator[Program]:
    rng = np.random.default_rng(program.seed)
    for _ in range(TRIALS):
        inputs, block = other_inputs(program, rng), Block(program)
        block.hybridize()
        try:
            program.run(mx.nd, arrays(inputs))
            expected = tuple(results(block, inputs))
        except (mx.MXNetError, ValueError, TypeError, IndexError):
            continue
        if all(_is_moderate(y) for y in expected):
            yield replace(program, inputs=inputs, expected=expected)


def other_inputs(program: Program, rng: np.random.Generator) -> tuple[Array, ...]:
    """Inputs of other extents; equal extents stay equal, and 0 and 1 stay what they are."""
    extents = sorted({n for x in program.inputs for n in x.shape if n > 1})
    changed = set(extents) if rng.random() < 0.3 else {int(rng.choice(extents))} if extents else set[int]()
    new = {n: int(rng.integers(2, 3 * n)) if n in changed else n for n in (0, 1, *extents)}
    return tuple(_data(tuple(new[n] for n in x.shape), x.dtype, rng) for x in program.inputs)


def _data(shape: tuple[int, ...], dtype: Any, rng: np.random.Generator) -> Array:
    if dtype.kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(0 if dtype.kind == "u" else -4, 6, shape).astype(dtype)


def _is_moderate(y: Array) -> bool:
    return y.size <= MOST_ELEMENTS and bool(np.isfinite(y).all()) and float(np.abs(y).max(initial=0)) < LARGEST
