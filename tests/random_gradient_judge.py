"""What a random program with gradients must compute: the reference target in float64, and finite differences.

The caller must select the reference target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import mxforge as mx
import numpy as np
from random_gradient_forms import GradientBlock, recorded
from random_gradient_programs import Doubled, GradientProgram, doubled
from random_programs import Array

UNITS = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
"""The relative error of one rounding."""
ROUNDINGS = {"float64": 4000, "float32": 4000, "float16": 32, "bfloat16": 16}
"""A result can differ by so many roundings of its largest element (sums of a scatter are rounded at each row)..."""
MEASURED = 8
"""... and by so many times the difference between the reference in the program's dtypes and in float64."""
LARGEST = 1e4
STEPS = 1e-4, 1e-3, 1e-5
"""The steps of finite differences: one must agree. Their error falls with the step, the rounding error grows."""


def judged(program: GradientProgram) -> GradientProgram | None:
    """The program with its expected results and tolerances. None if results are too large or not finite."""
    double, steps = doubled(program), Doubled(program.program, program.floats)
    exact = recorded(double, lambda inputs: steps.run(mx.nd, inputs))
    rounded = recorded(program, lambda inputs: program.program.run(mx.nd, inputs))
    if not all(map(_is_moderate, (*exact, *rounded))):
        return None
    faults = _other_form(double, steps, exact)
    if program.smooth:
        faults += _finite_differences(double, steps)
    pairs = list(zip(exact, rounded, strict=True))
    return replace(
        program,
        expected=tuple(e.astype(r.dtype) if r.dtype.kind == "f" else r for e, r in pairs),
        tolerances=tuple(_tolerance(e, r, program.precision) for e, r in pairs),
        faults=tuple(faults),
    )


def _is_moderate(y: Array) -> bool:
    return bool(np.isfinite(y).all()) and float(np.abs(y.astype(np.float64)).max(initial=0)) < LARGEST


def _tolerance(exact: Array, rounded: Array, precision: str) -> float:
    if rounded.dtype.kind != "f":
        return 0.0
    scale = max(1.0, float(np.abs(exact).max(initial=0)))
    measured = float(np.abs(exact - rounded.astype(np.float64)).max(initial=0))
    return MEASURED * measured + ROUNDINGS[precision] * UNITS[precision] * scale


def _other_form(double: GradientProgram, steps: Doubled, exact: Sequence[Array]) -> list[str]:
    """Differences between the tape and the joint graph of a block, both on the reference target in float64."""
    block = GradientBlock(double, steps)
    block.hybridize()
    faults: list[str] = []
    for name, a, b in zip(double.result_names, exact, recorded(double, block.call, block.parameters), strict=True):
        worst = float(np.abs(a.astype(np.float64) - b.astype(np.float64)).max(initial=0))
        if not worst <= 1e-9 * max(1.0, float(np.abs(a).max(initial=0))):
            faults.append(f"reference: {name} differs by {worst:.3g} between the tape and a block")
    return faults


def _finite_differences(double: GradientProgram, steps: Doubled) -> list[str]:
    """The difference between the derivative along a random direction and finite differences of the outputs.

    A difference that changes of the derivative on the way explain is none: there is a kink.
    """
    rng = np.random.default_rng(double.seed)
    once = replace(
        double,
        rounds=double.rounds[:1],
        requests=tuple("write" if r == "add" else r for r in double.requests),
        starts=tuple(np.zeros_like(x) for x in double.starts),
    )
    directions = {i: rng.standard_normal(once.inputs[i].shape) for i in once.wanted}
    products = _products(once, steps, directions, 0)
    size = max(1.0, float(np.sqrt(sum(p * p for p in products))))
    slope, found = sum(products), 0.0
    for h in STEPS:
        found = _slope([_loss(once, steps, directions, k * h) for k in (-2, -1, 1, 2)], h)
        if abs(found - slope) <= 1e-5 * size:
            return []
    before, after = (sum(_products(once, steps, directions, k * min(STEPS))) for k in (-2, 2))
    if abs(after - before) > 0.5 * abs(found - slope):
        return []
    return [f"reference: the derivative is {slope:.9g}, by finite differences {found:.9g}"]


def _products(program: GradientProgram, steps: Doubled, directions: dict[int, Array], h: float) -> list[float]:
    """The derivative along the direction of each input, at inputs that are moved by h."""
    moved = program.with_inputs(_moved(program, directions, h))
    gradients = recorded(moved, lambda inputs: steps.run(mx.nd, inputs))[len(program.program.outputs) :]
    return [float((g * d).sum()) for g, d in zip(gradients, directions.values(), strict=False)]


def _moved(program: GradientProgram, directions: dict[int, Array], h: float) -> list[Array]:
    return [x + h * directions[i] if i in directions else x for i, x in enumerate(program.inputs)]


def _slope(values: Sequence[float], h: float) -> float:
    """The derivative by the values at -2h, -h, h and 2h; the error is of order h**4."""
    a, b, c, d = values
    return (8 * (c - b) - (d - a)) / (12 * h)


def _loss(program: GradientProgram, steps: Doubled, directions: dict[int, Array], h: float) -> float:
    """The sum of the heads' elements, each times its head gradient, for inputs that are moved by h."""
    inputs = _moved(program, directions, h)
    with mx.autograd.train_mode():
        outputs = steps.run(mx.nd, [mx.nd.array(x, dtype=x.dtype) for x in inputs])
    heads = [outputs[i].asnumpy() for i in program.heads]
    given = program.rounds[0]
    return float(sum((y if given is None else y * given[k]).sum() for k, y in enumerate(heads)))
