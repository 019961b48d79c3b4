"""Operators that update one weight: the result is the new weight, and states are updated in place."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from ...graph import Value
from ...types import DType
from . import optimizer_rules as rules
from .operator import Operator, Results, declare, operator
from .optimizer_rules import RULES, Step, wide
from .parameters import Bool, Float, Int
from .shapes import PartialShape, unify_at, unify_some

if TYPE_CHECKING:
    from .builder import MxBuilder


class Update(Operator):
    """Shared arguments of several operators.

    Args:
        weight: The weight.
        grad: Its gradient, with the weight's shape.
        weight32: A float32 copy of a 16-bit weight; updated in place.
        mom: The momentum; updated in place.
        mean: The running mean of the gradient; updated in place.
        var: The running mean of the squared gradient; updated in place.
        n: The running mean of the squared gradient; updated in place.
        g: The running mean of the gradient; updated in place.
        delta: The last step; updated in place.
        z: The sum of corrected gradients; updated in place.
        history: The sum of the squared gradients; updated in place.
        lr: Learning rate.
        momentum: Weight of the last step in the next one.
        wd: Weight decay: this multiple of the weight is added to the gradient.
        rescale_grad: Factor of the gradient.
        clip_gradient: The rescaled gradient is limited to [-clip_gradient, clip_gradient]; no limit if negative.
        clip_grad: The rescaled gradient is limited to [-clip_grad, clip_grad]; no limit if negative.
        clip_weights: The new weight is limited to [-clip_weights, clip_weights]; no limit if negative.
        lazy_update: True to update only the rows of a row-sparse gradient.
        beta1: Weight of the old value in the running mean of the gradient.
        beta2: Weight of the old value in the running mean of the squared gradient.
        epsilon: A small number that keeps the denominator positive.
        gamma1: Weight of the old value in the running means.
        gamma2: Weight of the last step in the next one.
        lamda1: Factor of the L1 penalty.
        beta: The part of the learning rate's denominator that is independent of gradients.
        wd_lh: Weight decay outside the momentum.
        eta: Factor of the whole step: the learning rate schedule.
        t: Number of the step, starting at 1.
        bias_correction: True to divide the running means by 1 - beta^t.
        lower_bound: Smallest norm of the weight in the trust ratio; no limit if negative.
        upper_bound: Largest norm of the weight in the trust ratio; no limit if negative.
    Returns:
        The new weight; with `out` it usually overwrites the old one.
    """

    of_other_shape: ClassVar[frozenset[str]] = frozenset()
    """Inputs in float32 that do not have the shape of the weight."""
    mixed: ClassVar[bool] = False
    """True if the states are float32 and the weights have fewer bits; `weight32` is then the weight."""

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        names = self.input_names()
        together = [i for i, name in enumerate(names) if name not in self.of_other_shape]
        common = unify_some(outputs, range(len(outputs)), unify_some(inputs, together))
        unify_some(inputs, together, common)

    def complete_dtypes(self, inputs: list[DType | None], outputs: list[DType | None]) -> None:
        known = inputs[0] or outputs[0] or (inputs[1] if len(inputs) > 1 else None)
        for i, name in enumerate(self.input_names()):
            single = self.mixed and name not in ("weight", "grad")
            inputs[i] = inputs[i] or (DType.F32 if single or name in self.of_other_shape else known)

    def output_dtypes(self, inputs: Sequence[DType]) -> Sequence[DType | None]:
        return [inputs[0]]

    def step(self, b: MxBuilder, named: dict[str, Value], clip: str = "clip_gradient") -> Step:
        """The operands, cast to the dtype of the computation."""
        dtype = wide(named["weight"].type.dtype)
        values = {name: b.cast(v, dtype) for name, v in named.items() if name not in self.of_other_shape}
        weight, grad = values.pop("weight"), values.pop("grad", None)
        weight = values.pop("weight32", weight)
        return Step(b, weight, weight if grad is None else grad, values, lambda name: b.number(self, name), clip)

    def finish(self, b: MxBuilder, named: dict[str, Value], step: Step, weight: Value) -> Value:
        """Update the states, and return the new weight in its own dtype."""
        if "weight32" in named:
            b.update(named["weight32"], weight)
        for name, value in step.new.items():
            b.update(named[name], b.cast(value, named[name].type.dtype))
        return b.cast(weight, named["weight"].type.dtype)


_LR: dict[str, Any] = {"lr": Float}
_TAIL: dict[str, Any] = {"wd": 0.0, "rescale_grad": 1.0, "clip_gradient": -1.0}
_LAZY: dict[str, Any] = {**_TAIL, "lazy_update": True}
_MOMENTUM: dict[str, Any] = {"momentum": 0.0}
_ADAM: dict[str, Any] = {"beta1": 0.899999976, "beta2": 0.999000013, "epsilon": 9.99999994e-09}
_RMS: dict[str, Any] = {"gamma1": 0.949999988}
_RMS_TAIL: dict[str, Any] = {"epsilon": 9.99999994e-09, **_TAIL, "clip_weights": -1.0}

# name, rule, parameters after lr with their defaults
_TABLE: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("sgd_update", "sgd", _LAZY),
    ("sgd_mom_update", "sgd_mom", {**_MOMENTUM, **_LAZY}),
    ("mp_sgd_update", "sgd", _LAZY),
    ("mp_sgd_mom_update", "sgd_mom", {**_MOMENTUM, **_LAZY}),
    ("nag_mom_update", "nag_mom", {**_MOMENTUM, **_TAIL}),
    ("mp_nag_mom_update", "nag_mom", {**_MOMENTUM, **_TAIL}),
    ("adam_update", "adam", {**_ADAM, **_LAZY}),
    ("ftrl_update", "ftrl", {"lamda1": 0.00999999978, "beta": 1.0, **_TAIL}),
    ("rmsprop_update", "rmsprop", {**_RMS, **_RMS_TAIL}),
    ("rmspropalex_update", "rmspropalex", {**_RMS, "gamma2": 0.899999976, **_RMS_TAIL}),
    ("signsgd_update", "signsgd", _TAIL),
    ("signum_update", "signum", {**_MOMENTUM, **_TAIL, "wd_lh": 0.0}),
)
_TEXTS = {
    "sgd_update": """A step of stochastic gradient descent.

    g = clip(rescale_grad * grad)
    output = weight - lr * (g + wd * weight)

Example:
    >>> nd.sgd_update(nd.array([1, 2]), nd.array([10, 10]), lr=0.1).asnumpy()
    array([0., 1.], dtype=float32)""",
    "sgd_mom_update": """A step of stochastic gradient descent with momentum.

    g = clip(rescale_grad * grad)
    mom = momentum * mom - lr * (g + wd * weight)
    output = weight + mom

Example:
    >>> mom = nd.array([4, 4])
    >>> nd.sgd_mom_update(nd.array([1, 2]), nd.array([10, 10]), mom, lr=0.1, momentum=0.5).asnumpy()
    array([2., 3.], dtype=float32)""",
    "nag_mom_update": """A step of Nesterov's accelerated gradient.

    h = clip(rescale_grad * grad) + wd * weight
    mom = momentum * mom - lr * h
    output = weight + momentum * mom - lr * h

Example:
    >>> mom = nd.array([4, 4])
    >>> nd.nag_mom_update(nd.array([1, 2]), nd.array([10, 10]), mom, lr=0.1, momentum=0.5).asnumpy()
    array([0.5, 1.5], dtype=float32)""",
    "adam_update": """A step of Adam. The caller's learning rate corrects the bias of the running means.

    h = clip(rescale_grad * grad + wd * weight)
    mean = beta1 * mean + (1 - beta1) * h
    var = beta2 * var + (1 - beta2) * h^2
    output = weight - lr * mean / (sqrt(var) + epsilon)

Example:
    >>> w, g, mean, var = nd.array([1]), nd.array([2]), nd.zeros((1,)), nd.zeros((1,))
    >>> nd.adam_update(w, g, mean, var, lr=0.1).asnumpy().round(3)
    array([0.684], dtype=float32)""",
    "ftrl_update": """A step of FTRL-proximal (follow the regularized leader).

    g = clip(rescale_grad * grad)
    z = z + g - (sqrt(n + g^2) - sqrt(n)) / lr * weight
    n = n + g^2
    output = (sign(z) * lamda1 - z) / ((beta + sqrt(n)) / lr + wd) if |z| > lamda1 else 0

Args:
    n: The sum of the squared gradients; updated in place.
Example:
    >>> w, g, z, n = nd.array([0]), nd.array([2]), nd.zeros((1,)), nd.zeros((1,))
    >>> nd.ftrl_update(w, g, z, n, lr=1, lamda1=0, beta=0).asnumpy()
    array([-1.], dtype=float32)""",
    "rmsprop_update": """A step of RMSProp.

    h = clip(rescale_grad * grad + wd * weight)
    n = gamma1 * n + (1 - gamma1) * h^2
    output = weight - lr * h / sqrt(n + epsilon)

Example:
    >>> nd.rmsprop_update(nd.array([1]), nd.array([2]), nd.zeros((1,)), lr=0.1, gamma1=0.75).asnumpy().round(3)
    array([0.8], dtype=float32)""",
    "rmspropalex_update": """A step of centred RMSProp with momentum (Graves, 2013).

    h = clip(rescale_grad * grad + wd * weight)
    n = gamma1 * n + (1 - gamma1) * h^2
    g = gamma1 * g + (1 - gamma1) * h
    delta = gamma2 * delta - lr * h / sqrt(n - g^2 + epsilon)
    output = weight + delta""",
    "signsgd_update": """A step in the direction of the gradient's sign.

    output = (1 - lr * wd) * weight - lr * sign(grad)

Example:
    >>> nd.signsgd_update(nd.array([1, 2]), nd.array([-7, 7]), lr=0.5).asnumpy()
    array([1.5, 1.5], dtype=float32)""",
    "signum_update": """A step in the direction of the momentum's sign.

    mom = momentum * mom - (1 - momentum) * (clip(rescale_grad * grad) + wd * weight)
    output = (1 - lr * wd_lh) * weight + lr * sign(mom)

Example:
    >>> nd.signum_update(nd.array([1, 2]), nd.array([-7, 7]), nd.zeros((2,)), lr=0.5).asnumpy()
    array([1.5, 1.5], dtype=float32)""",
}
_SPARSE = frozenset(("sgd_update", "sgd_mom_update", "adam_update", "ftrl_update"))
_NOT_NUMBERS = frozenset(("lazy_update",))


def _declare_update(name: str, rule: str, parameters: dict[str, Any]) -> None:
    formula, mixed = RULES[rule].formula, name.startswith("mp_")

    def decompose(self: Update, b: MxBuilder, *inputs: Value) -> Value:
        named = dict(zip(self.input_names(), inputs, strict=True))
        step = self.step(b, named)
        return self.finish(b, named, step, formula(step))

    states = (*RULES[rule].states, *(("weight32",) if mixed else ()))
    members = {
        **parameters,
        "inputs": ("weight", "grad", *(f"{state}!" for state in states)),
        "mixed": mixed,
        "scalars": ("lr", *(p for p in parameters if p not in _NOT_NUMBERS)),
        "decompose": decompose,
        "__doc__": _TEXTS.get(name, f"{name.removeprefix('mp_')} with a float32 copy of a 16-bit weight."),
    }
    types = {**_LR, **{p: Bool if p in _NOT_NUMBERS else Float for p in parameters}}
    declare(name, Update, members, (f"_sparse_{name}",) if name in _SPARSE else (), types)


for _row in _TABLE:
    _declare_update(*_row)


@operator("ftml_update")
class FtmlUpdate(Update):
    """A step of FTML (follow the moving leader).

    Args:
        d: The denominators; updated in place.
        v: The running mean of the squared gradient; updated in place.
    """

    inputs = ("weight", "grad", "d!", "v!", "z!")
    scalars = ("lr", "beta1", "beta2", "epsilon", "t", "wd", "rescale_grad", "clip_grad")
    lr: Float
    beta1: Float = 0.600000024
    beta2: Float = 0.999000013
    epsilon: Float = 9.9999999392252903e-09
    t: Int
    wd: Float = 0.0
    rescale_grad: Float = 1.0
    clip_grad: Float = -1.0

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        named = dict(zip(self.input_names(), inputs, strict=True))
        step = with_corrections(self.step(b, named, "clip_grad"))
        return self.finish(b, named, step, rules.ftml(step))


def with_corrections(step: Step, corrected: bool = True) -> Step:
    """The step with two more numbers, correction1 = 1 - beta1^t and correction2 = 1 - beta2^t; 1 if not `corrected`."""
    b, numbers, dtype = step.b, step.numbers, step.weight.type.dtype
    betas = {"correction1": "beta1", "correction2": "beta2"}

    def number(name: str) -> Value:
        if name not in betas:
            return numbers(name)
        if not corrected:
            return b.constant(1.0, dtype)
        return b.sub(1, b.pow(b.cast(numbers(betas[name]), dtype), b.cast(numbers("t"), dtype)))

    step.numbers = cache(number)
    return step


class _LambPhase1(Update):
    scalars = ("beta1", "beta2", "epsilon", "t", "wd", "rescale_grad", "clip_gradient")
    beta1: Float = 0.899999976
    beta2: Float = 0.999000013
    epsilon: Float = 9.99999997e-07
    t: Int
    bias_correction: Bool = True
    wd: Float
    rescale_grad: Float = 1.0
    clip_gradient: Float = -1.0

    def output_dtypes(self, inputs: Sequence[DType]) -> Sequence[DType | None]:
        return [DType.F32 if self.mixed else inputs[0]]

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        named = dict(zip(self.input_names(), inputs, strict=True))
        step = self.step(b, named)
        direction = rules.lamb_direction(with_corrections(step, self.bias_correction))
        named.pop("weight32", None)  # the second phase updates it
        result = self.finish(b, named, step, direction)
        return direction if self.mixed else result


@operator("lamb_update_phase1")
class LambUpdatePhase1(_LambPhase1):
    """The first phase of LAMB: the direction of the step, as in Adam.

    mean = beta1 * mean + (1 - beta1) * g;  var = beta2 * var + (1 - beta2) * g^2,  g = clip(rescale_grad * grad)
    output = mean' / (sqrt(var') + epsilon) + wd * weight, with corrected mean' and var'
    """

    inputs = ("weight", "grad", "mean!", "var!")


@operator("mp_lamb_update_phase1")
class MpLambUpdatePhase1(_LambPhase1):
    """lamb_update_phase1 with a float32 copy of the weight; the result is float32."""

    inputs = ("weight", "grad", "mean!", "var!", "weight32")
    mixed = True


class _LambPhase2(Update):
    """Shared arguments of several operators.

    Args:
        g: The direction of the step, from the first phase.
        r1: (1,), the norm of the weight.
        r2: (1,), the norm of the direction.
    """

    of_other_shape = frozenset(("r1", "r2"))
    scalars = ("lr", "lower_bound", "upper_bound")
    lr: Float
    lower_bound: Float = -1.0
    upper_bound: Float = -1.0

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        named = dict(zip(self.input_names(), inputs, strict=True))
        step = self.step(b, named)
        norms = [b.cast(b.reshape(named[r], ()), step.weight.type.dtype) for r in ("r1", "r2")]
        rate = b.mul(step.scalar("lr"), rules.trust_ratio(step, norms[0], norms[1]))
        new = b.sub(step.weight, b.mul(b.spread(rate, step.weight), step.states["g"]))
        return self.finish(b, named, step, new)


@operator("lamb_update_phase2")
class LambUpdatePhase2(_LambPhase2):
    """The second phase of LAMB: the step scaled by a trust ratio.

    output = weight - lr * r1 / r2 * g, with r1 in [lower_bound, upper_bound]
    """

    inputs = ("weight", "g", "r1", "r2")


@operator("mp_lamb_update_phase2")
class MpLambUpdatePhase2(_LambPhase2):
    """lamb_update_phase2 with a float32 copy of the weight."""

    inputs = ("weight", "g", "r1", "r2", "weight32!")
    mixed = True


class _AdamW(Update):
    """Shared arguments of several operators.

    Args:
        rescale_grad: (1,), the factor of the gradient; nothing changes if it is 0, infinite or NaN.
        wd: Weight decay: this multiple of the weight is part of the step, not of the gradient.
    """

    of_other_shape = frozenset(("rescale_grad",))
    scalars = ("lr", "beta1", "beta2", "epsilon", "wd", "eta", "clip_gradient")
    lr: Float
    beta1: Float = 0.899999976
    beta2: Float = 0.999000013
    epsilon: Float = 9.99999994e-09
    wd: Float = 0.0
    eta: Float
    clip_gradient: Float = -1.0

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        named = dict(zip(self.input_names(), inputs, strict=True))
        step = self.step(b, named)
        weight = guarded_adamw(b, step, named["rescale_grad"])
        return self.finish(b, named, step, weight)


def guarded_adamw(b: MxBuilder, step: Step, rescale: Value) -> Value:
    """The new weight of AdamW; nothing changes if the gradient's scale, one element, is 0 or not finite."""
    scale, numbers = b.reshape(rescale, ()), step.numbers
    step.numbers = lambda name: scale if name == "rescale_grad" else numbers(name)
    weight = rules.adamw(step)
    valid = b.and_(b.is_finite(scale), b.ne(scale, 0))
    keep = b.broadcast(valid, weight.type.shape, ())
    step.new = {name: b.select(keep, value, step.states[name]) for name, value in step.new.items()}
    return b.select(keep, weight, step.weight)


@operator("_adamw_update")
class AdamWUpdate(_AdamW):
    """A step of Adam with decoupled weight decay.

    output = weight - eta * (lr * mean / (sqrt(var) + epsilon) + wd * weight)
    """

    inputs = ("weight", "grad", "mean!", "var!", "rescale_grad")


@operator("_mp_adamw_update")
class MpAdamWUpdate(_AdamW):
    """_adamw_update with a float32 copy of the weight."""

    inputs = ("weight", "grad", "mean!", "var!", "weight32!", "rescale_grad")
    mixed = True


@operator("_sparse_adagrad_update")
class AdagradUpdate(Update):
    """A step of AdaGrad.

        history = history + g^2;  output = weight - lr * g / sqrt(history + epsilon),  g = clip(rescale_grad * grad)

    Args:
        wd: Must be 0: weight decay is not supported.
    """

    inputs = ("weight", "grad", "history!")
    scalars = ("lr", "epsilon", "rescale_grad", "clip_gradient")
    lr: Float
    epsilon: Float = 1.00000001e-07
    wd: Float = 0.0
    rescale_grad: Float = 1.0
    clip_gradient: Float = -1.0

    def check(self) -> None:
        if self.wd:
            raise ValueError(f"_sparse_adagrad_update has no weight decay: wd must be 0, got {self.wd}")

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        named = dict(zip(self.input_names(), inputs, strict=True))
        step = self.step(b, named)
        new = b.sub(step.weight, step.scaled("lr", rules.adagrad_step(step)))
        return self.finish(b, named, step, new)


@operator("_contrib_group_adagrad_update")
class GroupAdagradUpdate(Update):
    """A step of AdaGrad with one history per row of the weight.

        g = clip(rescale_grad * grad);  history = history + mean(g^2)
        output = weight - lr * g / sqrt(history + epsilon)

    Args:
        history: One number per row; updated in place.
    """

    inputs = ("weight", "grad", "history!")
    of_other_shape = frozenset(("history",))
    scalars = ("lr", "rescale_grad", "clip_gradient", "epsilon")
    lr: Float
    rescale_grad: Float = 1.0
    clip_gradient: Float = -1.0
    epsilon: Float = 9.99999975e-06

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        outputs[0] = shape = unify_some(inputs, (0, 1), outputs[0])
        if shape is not None:
            unify_at(inputs, 2, (shape[0], *[1] * (len(shape) - 1)))

    def decompose(self, b: MxBuilder, *inputs: Value) -> Results:
        named = dict(zip(self.input_names(), inputs, strict=True))
        step = self.step(b, named)
        step.states = {"history": b.cast(named["history"], step.weight.type.dtype)}
        return self.finish(b, named, step, rules.group_adagrad(step))
