"""Finds whether an operand of a step is near a kink: a place where its derivative is not continuous."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mxforge as mx
import numpy as np
from mxforge.frontend.ndarray.tape import entry_of
from random_gradient_programs import arrays
from random_programs import Array, Step, apply

MARGINS = {"float64": 1e-3, "float32": 1e-3, "float16": 2e-2, "bfloat16": 1e-1}
"""How far from a kink a rounded operand must be, relative to its largest magnitude. Finite differences move less."""
STRAIGHT = frozenset(
    "relu abs clip max min sort topk Pooling norm sign floor ceil rint trunc where pick rank argmax argmin bfloat "
    "halved branch cast logical_not one_hot take Embedding SequenceMask SequenceReverse MAERegressionOutput MakeLoss "
    "_internal._maximum_scalar _internal._minimum_scalar broadcast_maximum broadcast_minimum topk_both "
    "broadcast_greater broadcast_equal broadcast_lesser_equal broadcast_logical_and".split()
)
"""Steps with kinks. Their derivatives are constant between the kinks."""
CURVED = frozenset("Activation LeakyReLU svm_output".split())
"""Steps with kinks whose derivatives change between the kinks, by at most CHANGE for small changes of operands."""
KINKED = STRAIGHT | CURVED
CHANGE = 0.3
TRIALS = 6
ROUGH = frozenset(
    "softmax_output svm_output cross_entropy LinearRegressionOutput LogisticRegressionOutput MAERegressionOutput "
    "MakeLoss make_loss BlockGrad".split()
)
"""Steps whose gradient is not their derivative."""


def is_rough(step: Step) -> bool:
    """Whether MXNet's gradient of a step is not its derivative."""
    return step.name in ROUGH or step.parameters.get("act_type") == "selu"


def is_near_kink(step: Step, operands: Sequence[Array], precision: str) -> bool:
    """Whether small changes of the operands change a step's derivative, or its results if these are discrete."""
    here, most = _slopes(step, operands), CHANGE if step.name in CURVED else 0.0
    for seed in range(TRIALS):
        rng = np.random.default_rng(seed)
        moved = _slopes(step, [_moved(x, MARGINS[precision], rng) for x in operands])
        if any(np.abs(a.astype(np.float64) - b).max(initial=0) > most for a, b in zip(here, moved, strict=True)):
            return True
    return False


def _moved(x: Array, margin: float, rng: np.random.Generator) -> Array:
    if x.dtype.kind != "f":
        return x
    scale = max(1.0, float(np.abs(x).max(initial=0)))
    return x.astype(np.float64) + margin * scale * rng.choice([-1.0, 1.0], x.shape)


def _slopes(step: Step, operands: Sequence[Array]) -> list[Array]:
    """The gradients of a step for fixed head gradients, and its results if they are integers or without gradients."""
    inputs = arrays([x.astype(np.float64) if x.dtype.kind == "f" else x for x in operands])
    for x in inputs:
        x.attach_grad()
    with mx.autograd.record():
        made = apply(mx.nd, step, inputs)
    floats = [y for y in made if _is_float(y) and entry_of(y) is not None]
    rng = np.random.default_rng(0)
    if floats:
        mx.autograd.backward(floats, arrays([rng.uniform(1, 2, y.shape).round(2).astype(y.dtype) for y in floats]))
    gradients = [x.grad.asnumpy() for x in inputs]
    still = not any(g.any() for g in gradients)
    return [g.round(9) for g in gradients] + [y.asnumpy() for y in made if still or not _is_float(y)]


def _is_float(y: Any) -> bool:
    return np.dtype(y.dtype).kind == "f"
