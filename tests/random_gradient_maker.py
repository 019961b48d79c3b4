"""Makes random programs with gradients, reproducibly by seed. The caller must select the reference target."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import mxforge as mx
import numpy as np
from bfloats import rounded as rounded_to_bfloat
from mxforge.frontend.ndarray.tape import entry_of
from random_extents import other_inputs
from random_gradient_forms import recorded
from random_gradient_judge import judged
from random_gradient_kinks import KINKED, ROUGH, is_near_kink, is_rough
from random_gradient_programs import GradientProgram, arrays
from random_gradient_steps import STEPS, WITH_STATES
from random_program_maker import SMALL, UNUSUAL, Maker, Value
from random_programs import Array, Program, Step

ATTEMPTS = 20
EXTENTS = (1, 2, 3, 4, 5, 7, 8, 9, 10, 16, 17, 20, 31, 33, 40, 64, 65)
MOST_ELEMENTS = 9_000
OTHERS = 2
"""The programs of other extents: the first one compiles for any extents, the second one can use that."""


class GradientMaker(Maker):
    """Draws the steps of a program with gradients.

    `smooth` is True while its gradients are derivatives, and `bent` if a step with kinks reads rounded values: on other
    inputs these could be near the kinks.
    """

    def __init__(self, seed: int, attempt: int) -> None:
        self.smooth, self.bent = True, False
        self.extents: list[int] = []
        super().__init__(seed, attempt)
        self.narrow = self.dtype == "float32" and self.chance(0.12)
        self.states: list[int] = []
        if self.dtype in ("float32", "float64") and self.chance(0.3):
            self._add_states()
        if self.narrow:
            self._convert_inputs()

    @property
    def precision(self) -> str:
        """The dtype with the largest rounding errors."""
        if self.narrow or any(s.name == "bfloat" for s in self.steps):
            return "bfloat16"
        dtypes = {v.dtype for v in self.values}
        return next((d for d in ("float16", "float32") if d in dtypes), "float64")

    def shapes(self) -> list[tuple[int, ...]]:
        """Shapes of a few extents, so that operands of products fit."""
        if self.dtype == "int32":
            self.dtype = "float32"
        if self.unusual or self.chance(0.25):
            return [*SMALL, *(UNUSUAL * 3 if self.unusual else [])]
        extents = [int(n) for n in self.rng.choice(EXTENTS, self.integer(2, 4), replace=False)]
        drawn = [tuple(self.one(extents) for _ in range(self.one([1, 2, 2, 2, 3, 3, 4]))) for _ in range(60)]
        return [s for s in drawn if math.prod(s) <= MOST_ELEMENTS] or SMALL

    def pick(self, accept: Callable[[Value], bool] = lambda v: True) -> Value:
        return super().pick(lambda v: v.dtype != "state" and accept(v))

    def _add_states(self) -> None:
        """Further inputs: the operands of a batch normalization, of which the last two are its states."""
        extents = [n for v in self.values for n in v.shape if n > 0] or [3]
        count = int(self.one(extents))
        for _ in range(2):
            x = mx.nd.array(self.data((count,), self.dtype), dtype=self.dtype)
            self.values.append(Value(len(self.values), x, True))
        for x in (self.data((count,), self.dtype), 1 + self.data((count,), self.dtype) ** 2):
            state = Value(len(self.values), mx.nd.array(x, dtype=x.dtype), True)
            state.dtype = "state"
            self.states.append(state.number)
            self.values.append(state)
        self.inputs = tuple(v.array.asnumpy() for v in self.values)

    def _convert_inputs(self) -> None:
        """Round the inputs of floats to bfloat16, and begin with steps that convert them."""
        for v in [v for v in self.values if v.dtype == "float32"]:
            v.array[:] = rounded_to_bfloat(v.array.asnumpy())
            self.add(("to_bfloat", [v.number], {}), True)
        self.inputs = tuple(v.array.asnumpy() for v in self.values[: len(self.inputs)])

    def accepts(self, step: Step, operands: Sequence[Value], exact: bool) -> bool:
        """False for a step that reads rounded values near a kink: rounding errors would decide its derivative."""
        self.smooth = self.smooth and not is_rough(step)
        if step.name not in KINKED or not any(v.is_float for v in operands):
            return True
        all_exact = all(v.exact for v in operands)
        near = is_near_kink(step, [v.array.asnumpy() for v in operands], "float64" if all_exact else self.precision)
        self.smooth = self.smooth and not near
        self.bent = self.bent or not all_exact
        return all_exact or not near


def make_program(seed: int) -> GradientProgram:
    """The program of a seed."""
    for attempt in range(ATTEMPTS):
        with mx.util.np_shape():
            maker = GradientMaker(seed, attempt + 1)
        with mx.util.np_shape(maker.unusual):
            plain = maker.program(maker.integer(2, 9), STEPS + (WITH_STATES if maker.states else []))
            made = _with_gradients(maker, plain) if plain.steps else None
            if made is not None:
                return replace(made, resized=() if maker.bent or maker.unusual else _resized(made))
    raise RuntimeError(f"no program for seed {seed}")


def _with_gradients(maker: GradientMaker, program: Program) -> GradientProgram | None:
    requests = tuple(_request(maker, x, i in maker.states) for i, x in enumerate(program.inputs))
    recorded_outputs = _recorded(program, requests)
    heads = tuple(i for i in recorded_outputs if maker.values[program.outputs[i]].is_float)
    has_losses = any(s.name in ROUGH or s.name == "BatchNorm" for s in program.steps)
    if not heads or (has_losses and heads != recorded_outputs):  # a joint graph has the gradients of all its losses
        return None
    if not has_losses:
        heads = tuple(i for i in heads if maker.chance(0.85)) or heads[:1]
    values = [maker.values[program.outputs[i]] for i in heads]
    rounds = tuple(_heads(maker, values) for _ in range(2 if maker.chance(0.3) else 1))
    starts = tuple(maker.data(x.shape, str(x.dtype)) for x in program.inputs)
    floats = frozenset(v.number for v in maker.values if v.is_float)
    made = GradientProgram(
        *(program, requests, starts, tuple(maker.states), heads, rounds, floats, maker.precision, maker.smooth)
    )
    return judged(_from_zero(made))


def _from_zero(program: GradientProgram) -> GradientProgram:
    """The program with zeros before "write" where no gradient arrives: the tape leaves them, a joint graph writes 0."""
    marked = replace(program, starts=tuple(np.full_like(x, 99) for x in program.starts))
    outputs = len(program.program.outputs)
    found = recorded(marked, lambda inputs: program.program.run(mx.nd, inputs))[outputs:]
    left = {
        i for i, g in zip(program.wanted, found, strict=False) if program.requests[i] == "write" and (g == 99).all()
    }
    return replace(program, starts=tuple(np.zeros_like(x) if i in left else x for i, x in enumerate(program.starts)))


def _request(maker: GradientMaker, x: Array, is_state: bool) -> str:
    if x.dtype.kind != "f" or is_state:
        return "null"
    return str(maker.rng.choice(["write", "add", "null"], p=[0.65, 0.2, 0.15]))


def _heads(maker: GradientMaker, values: Sequence[Value]) -> tuple[Array, ...] | None:
    if maker.chance(0.12):
        return None
    made = [maker.data(v.shape, "float32" if v.dtype == "bfloat16" else v.dtype) for v in values]
    return tuple(rounded_to_bfloat(x) if v.dtype == "bfloat16" else x for v, x in zip(values, made, strict=True))


def _recorded(program: Program, requests: Sequence[str]) -> tuple[int, ...]:
    """The positions of the outputs that depend on variables."""
    inputs = arrays(program.inputs)
    for x, request in zip(inputs, requests, strict=True):
        if request != "null":
            x.attach_grad(request)
    with mx.autograd.record():
        outputs = program.run(mx.nd, inputs)
    return tuple(i for i, y in enumerate(outputs) if entry_of(y) is not None)


def _resized(program: GradientProgram) -> tuple[GradientProgram, ...]:
    """The program with inputs of other extents, as far as its steps accept them."""
    rng = np.random.default_rng(program.seed)
    found: list[GradientProgram] = []
    for _ in range(3 * OTHERS):
        inputs = other_inputs(program.program, rng)
        if program.precision == "bfloat16":
            inputs = tuple(map(rounded_to_bfloat, inputs))
        if any(inputs[i].shape != program.inputs[i].shape for i in program.states):
            continue
        try:
            made = _with_inputs(program, inputs, rng)
        except (mx.MXNetError, ValueError, TypeError, IndexError):
            continue
        if made is not None:
            found.append(made)
        if len(found) == OTHERS:
            break
    return tuple(found)


def _with_inputs(
    program: GradientProgram, inputs: tuple[Array, ...], rng: np.random.Generator
) -> GradientProgram | None:
    with mx.autograd.train_mode():
        outputs = program.program.run(mx.nd, arrays(inputs))
    heads = [outputs[i].asnumpy() for i in program.heads]

    def drawn(y: Array) -> Array:
        made = rng.standard_normal(y.shape).astype(y.dtype)
        return rounded_to_bfloat(made) if program.precision == "bfloat16" else made

    rounds = tuple(r if r is None else tuple(map(drawn, heads)) for r in program.rounds)
    starts = tuple(rng.standard_normal(x.shape).astype(x.dtype) for x in inputs)
    return judged(_from_zero(replace(program.with_inputs(inputs), rounds=rounds, starts=starts, smooth=False)))
