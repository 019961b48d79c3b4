"""Random programs with gradients as data: requests, head gradients, and what a backward pass leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import mxforge as mx
import numpy as np
from random_programs import Array, Program, Step, apply

FLOATS = ("float16", "float32", "float64")


@dataclass(frozen=True)
class GradientProgram:
    """A program, and backward passes of it.

    `requests[i]` is "write", "add" or "null" for input i, and `starts[i]` what its gradient holds before. `states` are
    the inputs that are auxiliary states: operators write them. `heads` are the positions of the outputs from which
    gradients start, and `rounds` their head gradients for each backward pass of one forward pass; None are ones.

    `floats` are the numbers of the values of floats, and `precision` is the dtype with the largest rounding errors. A
    program is `smooth` if its gradients are its derivatives.

    `expected` are the outputs, the gradients of the inputs whose request is not "null", and the states, each with its
    tolerance, on the reference target in float64. `faults` are disagreements found on the reference target.
    """

    program: Program
    requests: tuple[str, ...]
    starts: tuple[Array, ...]
    states: tuple[int, ...]
    heads: tuple[int, ...]
    rounds: tuple[tuple[Array, ...] | None, ...]
    floats: frozenset[int]
    precision: str
    smooth: bool
    expected: tuple[Array, ...] = ()
    tolerances: tuple[float, ...] = ()
    faults: tuple[str, ...] = ()
    resized: tuple[GradientProgram, ...] = ()  # the same steps on inputs of other extents

    @property
    def seed(self) -> int:
        return self.program.seed

    @property
    def inputs(self) -> tuple[Array, ...]:
        return self.program.inputs

    @property
    def wanted(self) -> list[int]:
        """The inputs that have gradients."""
        return [i for i, request in enumerate(self.requests) if request != "null"]

    @property
    def result_names(self) -> list[str]:
        return [
            *(f"v{i}" for i in self.program.outputs),
            *(f"gradient of v{i}" for i in self.wanted),
            *(f"state v{i}" for i in self.states),
        ]

    def with_inputs(self, inputs: Sequence[Array]) -> GradientProgram:
        return replace(self, program=replace(self.program, inputs=tuple(inputs)))

    def __str__(self) -> str:
        heads = ", ".join(f"v{self.program.outputs[i]}" for i in self.heads)
        given = ", ".join("ones" if r is None else "given" for r in self.rounds)
        requests = ", ".join(f"v{i}: {'state' if i in self.states else r}" for i, r in enumerate(self.requests))
        return f"{self.program}\n  backward from {heads}, head gradients {given}; {requests}; {self.precision}"


@dataclass(frozen=True)
class Doubled:
    """The steps of a program, computed in float64."""

    program: Program
    floats: frozenset[int]

    def run(self, F: Any, inputs: Sequence[Any]) -> list[Any]:
        values = list(inputs)
        for step in self.program.steps:
            made = apply(F, _doubled(step), [values[i] for i in step.operands])
            values += [F.cast(y, dtype="float64") if len(values) + k in self.floats else y for k, y in enumerate(made)]
        return [values[i] for i in self.program.outputs]


def _doubled(step: Step) -> Step:
    """The step without rounding to fewer bits."""
    if step.name == "bfloat":
        return Step("relu", step.operands)
    if step.name == "to_bfloat" or (step.name == "cast" and step.parameters["dtype"] in FLOATS):
        return Step("cast", step.operands, {"dtype": "float64"})
    return step


def doubled(program: GradientProgram) -> GradientProgram:
    """The program with the same numbers in float64; `Doubled` runs its steps."""

    def wide(values: Sequence[Array]) -> tuple[Array, ...]:
        return tuple(x.astype(np.float64) if x.dtype.kind == "f" else x for x in values)

    return replace(
        program.with_inputs(wide(program.inputs)),
        starts=wide(program.starts),
        rounds=tuple(None if r is None else wide(r) for r in program.rounds),
    )


def arrays(values: Sequence[Array]) -> list[Any]:
    return [mx.nd.array(x, dtype=x.dtype) for x in values]
