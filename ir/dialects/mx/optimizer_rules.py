"""The update rules of optimizers: new values of a weight and of the optimizer's states, from a gradient and numbers.

Each rule is declared once. The operators of `optimizer_ops.py` and `optimizer_multi.py` and the programs that update
all parameters of a model (`optimizer_update.py`) derive from it. Docstrings of operators have the formulas of most
rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from ...graph import Value
from ...lazy_dataclass import dataclass
from ...types import DType
from . import random_bits as draw

if TYPE_CHECKING:
    from .builder import MxBuilder

Numbers = Callable[[str], Value]


def wide(dtype: DType) -> DType:
    """The dtype in which an update of weights of dtype `dtype` is computed."""
    return DType.F64 if dtype is DType.F64 else DType.F32


@dataclass
class Step:
    """One update of one weight. All values have the weight's shape, in the dtype of the computation. `numbers` returns
    a number of the optimizer as a scalar value; `clip` is the name of the number that bounds the gradient. `rounded` is
    the weight in its own dtype, if `weight` is a copy of it in float32.

    A rule returns the new weight and stores the new states in `new`.
    """

    b: MxBuilder
    weight: Value
    grad: Value
    states: Mapping[str, Value]
    numbers: Numbers
    clip: str = "clip_gradient"
    rounded: Value | None = None
    new: dict[str, Value] = field(default_factory=dict[str, Value])

    def scalar(self, name: str) -> Value:
        """A number in the dtype of the computation."""
        return self.b.cast(self.numbers(name), self.weight.type.dtype)

    def number(self, name: str) -> Value:
        """A number, broadcast to the weight's shape."""
        return self.b.spread(self.numbers(name), self.weight)

    def scaled(self, name: str, x: Value) -> Value:
        return self.b.mul(self.number(name), x)

    def bounded(self, x: Value, name: str) -> Value:
        """x clipped to [-bound, bound]; a negative bound disables clipping. NaN stays NaN."""
        b, bound = self.b, self.number(name)
        limit = b.select(b.ge(bound, 0), bound, b.full_like(x, float("inf")))
        least = b.neg(limit)
        return b.select(b.gt(x, limit), limit, b.select(b.lt(x, least), least, x))

    def rescaled(self) -> Value:
        """The gradient times `rescale_grad`, clipped."""
        return self.bounded(self.scaled("rescale_grad", self.grad), self.clip)

    def decayed(self) -> Value:
        """`rescaled` plus `wd` times the weight."""
        return self.b.add(self.rescaled(), self.scaled("wd", self.weight))

    def bounded_decayed(self) -> Value:
        """The gradient times `rescale_grad` plus `wd` times the weight, clipped."""
        total = self.b.add(self.scaled("rescale_grad", self.grad), self.scaled("wd", self.weight))
        return self.bounded(total, self.clip)

    def blended(self, name: str, old: Value, new: Value, rest: str = "") -> Value:
        """old * number + new * (1 - number); `rest` names the number 1 - number, if it is given."""
        share = self.number(name)
        other = self.number(rest) if rest else self.b.sub(1, share)
        return self.b.add(self.b.mul(share, old), self.b.mul(other, new))


Formula = Callable[[Step], Value]


@dataclass(frozen=True)
class Rule:
    """A formula with the names of the states that it replaces and of the numbers that it reads. `reads_rows` is True if
    it depends on the weight's shape and not only on its elements; its states then have shapes of their own."""

    formula: Formula
    states: tuple[str, ...]
    numbers: tuple[str, ...]
    reads_rows: bool = False


RULES: dict[str, Rule] = {}
"""All rules by name."""

GRADIENT = "rescale_grad clip_gradient "
"""The numbers with which every optimizer scales and clips gradients."""


def rule(name: str, states: str, numbers: str, reads_rows: bool = False) -> Callable[[Formula], Formula]:
    """Declare a formula as the rule `name`. States and numbers are separated by spaces."""

    def declare(formula: Formula) -> Formula:
        RULES[name] = Rule(formula, tuple(states.split()), tuple(numbers.split()), reads_rows)
        return formula

    return declare


# -- gradient descent


@rule("sgd", "", "lr wd " + GRADIENT)
def sgd(s: Step) -> Value:
    return s.b.sub(s.weight, s.scaled("lr", s.decayed()))


@rule("sgd_mom", "mom", "lr momentum wd " + GRADIENT)
def sgd_mom(s: Step) -> Value:
    s.new["mom"] = mom = s.b.sub(s.scaled("momentum", s.states["mom"]), s.scaled("lr", s.decayed()))
    return s.b.add(s.weight, mom)


@rule("nag_mom", "mom", "lr momentum wd " + GRADIENT)
def nag_mom(s: Step) -> Value:
    b, step = s.b, s.scaled("lr", s.decayed())
    s.new["mom"] = mom = b.sub(s.scaled("momentum", s.states["mom"]), step)
    return b.add(s.weight, b.sub(s.scaled("momentum", mom), step))


@rule("signsgd", "", "lr wd " + GRADIENT)
def signsgd(s: Step) -> Value:
    b, lr = s.b, s.number("lr")
    kept = b.mul(b.sub(1, b.mul(lr, s.number("wd"))), s.weight)
    return b.sub(kept, b.mul(lr, b.sign(s.grad)))


@rule("signum", "mom", "lr momentum wd wd_lh " + GRADIENT)
def signum(s: Step) -> Value:
    b, lr = s.b, s.number("lr")
    s.new["mom"] = mom = s.blended("momentum", s.states["mom"], b.neg(s.decayed()))
    kept = b.mul(b.sub(1, b.mul(lr, s.number("wd_lh"))), s.weight)
    return b.add(kept, b.mul(lr, b.sign(mom)))


@rule("sgld", "", "lr wd noise " + GRADIENT)
def sgld(s: Step) -> Value:
    """weight - lr / 2 * (g + wd * weight) + noise * n, for normal n and g = clip(rescale_grad * grad)."""
    b = s.b
    step = b.mul(b.mul(s.number("lr"), 0.5), s.decayed())
    noise = b.cast(draw.normal(b, s.weight.type.shape), s.weight.type.dtype)
    return b.add(b.sub(s.weight, step), s.scaled("noise", noise))


def _compensated(s: Step) -> Value:
    """-lr * (g + wd * weight + lamda * g^2 * (weight - previous)), for g = clip(rescale_grad * grad)."""
    b, grad = s.b, s.rescaled()
    moved = b.sub(s.weight, s.states["previous"])
    late = b.mul(s.scaled("lamda", b.mul(grad, grad)), moved)
    s.new["previous"] = s.weight
    return b.neg(s.scaled("lr", b.add(b.add(grad, s.scaled("wd", s.weight)), late)))


@rule("dcasgd", "previous", "lr wd lamda " + GRADIENT)
def dcasgd(s: Step) -> Value:
    return s.b.add(s.weight, _compensated(s))


@rule("dcasgd_mom", "mom previous", "lr momentum wd lamda " + GRADIENT)
def dcasgd_mom(s: Step) -> Value:
    s.new["mom"] = mom = s.b.add(s.scaled("momentum", s.states["mom"]), _compensated(s))
    return s.b.add(s.weight, mom)


def _square_sums(b: MxBuilder, one: Value, other: Value) -> tuple[Value, Value]:
    """The sums of squares of two arrays. They are elements of one array, which is computed first: what reads them is a
    kernel of its own, over the elements on all threads."""
    sums = b.concat([b.reshape(b.sum(b.mul(x, x)), (1,)) for x in (one, other)], 0)
    first, second = (b.reshape(b.slice_axis(sums, 0, i, i + 1), ()) for i in range(2))
    return first, second


def _norms(s: Step, other: Value) -> tuple[Value, Value]:
    """The norms of the weight in its own dtype and of `other`."""
    weight, rest = _square_sums(s.b, s.weight if s.rounded is None else s.rounded, other)
    return s.b.sqrt(weight), s.b.sqrt(rest)


def _lars_rate(s: Step) -> Value:
    """The learning rate times eta * |w| / (|g| + wd * |w| + eps), or the learning rate if a norm is 0."""
    b, lr = s.b, s.scalar("lr")
    weight, grad = _norms(s, s.grad)
    grad = b.mul(grad, s.scalar("rescale_grad"))
    below = b.add(b.add(grad, b.mul(s.scalar("wd"), weight)), s.scalar("eps"))
    scaled = b.div(b.mul(b.mul(lr, s.scalar("eta")), weight), below)
    return b.select(b.and_(b.gt(weight, 0), b.gt(grad, 0)), scaled, lr)


def _large_batch_rate(s: Step) -> Value:
    """The learning rate times sqrt(|w|^2 / (|g|^2 + wd * |w|^2)), a factor from 0.01 to 100."""
    b = s.b
    weight, grad = _square_sums(b, s.weight, s.grad)
    below = b.add(b.add(grad, b.mul(s.scalar("wd"), weight)), 1e-18)
    factor = b.sqrt(b.div(weight, below))
    return b.mul(s.scalar("lr"), b.minimum(b.maximum(factor, 0.01), 100.0))


def _with_rate(formula: Formula, layer_rate: Callable[[Step], Value]) -> Formula:
    """A formula whose learning rate depends on the norms of the weight and the gradient."""

    def scaled(s: Step) -> Value:
        rate, numbers = layer_rate(s), s.numbers
        s.numbers = lambda name: rate if name == "lr" else numbers(name)
        return formula(s)

    return scaled


rule("lars", "", "lr wd eta eps " + GRADIENT)(_with_rate(sgd, _lars_rate))
rule("lars_mom", "mom", "lr momentum wd eta eps " + GRADIENT)(_with_rate(sgd_mom, _lars_rate))
rule("lbsgd", "", "lr wd " + GRADIENT)(_with_rate(sgd, _large_batch_rate))
rule("lbsgd_mom", "mom", "lr momentum wd " + GRADIENT)(_with_rate(sgd_mom, _large_batch_rate))


# -- adaptive rates


def _moments(s: Step, grad: Value, rests: tuple[str, str] = ("", "")) -> tuple[Value, Value]:
    """The new running means of the gradient and its square."""
    s.new["mean"] = mean = s.blended("beta1", s.states["mean"], grad, rests[0])
    s.new["var"] = var = s.blended("beta2", s.states["var"], s.b.mul(grad, grad), rests[1])
    return mean, var


@rule("adam", "mean var", "lr beta1 beta2 epsilon wd " + GRADIENT)
def adam(s: Step) -> Value:
    b = s.b
    mean, var = _moments(s, s.bounded_decayed())
    return b.sub(s.weight, b.div(s.scaled("lr", mean), b.add(b.sqrt(var), s.number("epsilon"))))


def adamw(s: Step) -> Value:
    b = s.b
    mean, var = _moments(s, s.rescaled())
    step = b.div(s.scaled("lr", mean), b.add(b.sqrt(var), s.number("epsilon")))
    return b.sub(s.weight, s.scaled("eta", b.add(step, s.scaled("wd", s.weight))))


@rule("adamax", "mean maximum", "lr beta1 rest1 beta2 wd " + GRADIENT)
def adamax(s: Step) -> Value:
    """weight - lr * mean / maximum, where maximum is the largest gradient, which decays."""
    b, grad = s.b, s.bounded_decayed()
    s.new["mean"] = mean = s.blended("beta1", s.states["mean"], grad, "rest1")
    s.new["maximum"] = maximum = b.maximum(s.scaled("beta2", s.states["maximum"]), b.abs(grad))
    return b.sub(s.weight, b.div(s.scaled("lr", mean), maximum))


@rule("nadam", "mean var", "lr beta1 rest1 beta2 rest2 epsilon wd grad_share mean_share correction2 " + GRADIENT)
def nadam(s: Step) -> Value:
    """weight - lr * (grad_share * g + mean_share * mean) / (sqrt(var / correction2) + epsilon)"""
    b, grad = s.b, s.bounded_decayed()
    mean, var = _moments(s, grad, ("rest1", "rest2"))
    step = b.add(s.scaled("grad_share", grad), s.scaled("mean_share", mean))
    root = b.sqrt(b.div(var, s.number("correction2")))
    return b.sub(s.weight, b.div(s.scaled("lr", step), b.add(root, s.number("epsilon"))))


def trust_ratio(s: Step, weight: Value, step: Value) -> Value:
    """LAMB's ratio of the norms of weight (within its bounds) and step; 1 if one of them is 0. All are scalars."""
    b, low, high = s.b, s.scalar("lower_bound"), s.scalar("upper_bound")
    weight = b.select(b.ge(low, 0), b.maximum(weight, low), weight)
    weight = b.select(b.ge(high, 0), b.minimum(weight, high), weight)
    missing = b.or_(b.eq(weight, 0), b.eq(step, 0))
    return b.select(missing, 1.0, b.div(weight, step))


def lamb_direction(s: Step) -> Value:
    """The step of LAMB before scaling by the ratio of norms."""
    b = s.b
    mean, var = _moments(s, s.rescaled())
    mean, var = b.div(mean, s.number("correction1")), b.div(var, s.number("correction2"))
    return b.add(b.div(mean, b.add(b.sqrt(var), s.number("epsilon"))), s.scaled("wd", s.weight))


@rule(
    "lamb",
    "mean var",
    "lr beta1 beta2 epsilon correction1 correction2 wd lower_bound upper_bound " + GRADIENT,
)
def lamb(s: Step) -> Value:
    b, direction = s.b, lamb_direction(s)
    rate = b.mul(s.scalar("lr"), trust_ratio(s, *_norms(s, direction)))
    return b.sub(s.weight, b.mul(b.spread(rate, s.weight), direction))


@rule("ftml", "d v z", "lr beta1 beta2 epsilon correction1 correction2 wd " + GRADIENT)
def ftml(s: Step) -> Value:
    b = s.b
    grad = s.bounded_decayed()
    s.new["v"] = v = s.blended("beta2", s.states["v"], b.mul(grad, grad))
    root = b.add(b.sqrt(b.div(v, s.number("correction2"))), s.number("epsilon"))
    s.new["d"] = d = b.mul(b.div(s.number("correction1"), s.number("lr")), root)
    change = b.sub(d, s.scaled("beta1", s.states["d"]))
    s.new["z"] = z = b.sub(s.blended("beta1", s.states["z"], grad), b.mul(change, s.weight))
    return b.neg(b.div(z, d))


@rule("ftrl", "z n", "lr lamda1 beta wd " + GRADIENT)
def ftrl(s: Step) -> Value:
    b, lr, grad = s.b, s.number("lr"), s.rescaled()
    n = s.states["n"]
    s.new["n"] = new_n = b.add(n, b.mul(grad, grad))
    pull = b.div(b.mul(b.sub(b.sqrt(new_n), b.sqrt(n)), s.weight), lr)
    s.new["z"] = z = b.sub(b.add(s.states["z"], grad), pull)
    l1 = s.number("lamda1")
    rate = b.add(b.div(b.add(s.number("beta"), b.sqrt(new_n)), lr), s.number("wd"))
    return b.select(b.gt(b.abs(z), l1), b.div(b.sub(b.mul(b.sign(z), l1), z), rate), b.full_like(z, 0))


def adagrad_step(s: Step) -> Value:
    """g / sqrt(history + epsilon) with the new history, for g = clip(rescale_grad * grad)."""
    b, grad = s.b, s.rescaled()
    s.new["history"] = history = b.add(s.states["history"], b.mul(grad, grad))
    return b.div(grad, b.sqrt(b.add(history, s.number("epsilon"))))


@rule("adagrad", "history", "lr epsilon wd " + GRADIENT)
def adagrad(s: Step) -> Value:
    return s.b.sub(s.weight, s.scaled("lr", s.b.add(adagrad_step(s), s.scaled("wd", s.weight))))


@rule("group_adagrad", "history", "lr epsilon " + GRADIENT, reads_rows=True)
def group_adagrad(s: Step) -> Value:
    b, grad, history = s.b, s.rescaled(), s.states["history"]
    rows = tuple(range(1, grad.type.rank))
    s.new["history"] = total = b.add(history, b.mean(b.mul(grad, grad), rows, keepdims=True))
    root = b.sqrt(b.add(total, b.spread(s.numbers("epsilon"), total)))
    return b.sub(s.weight, b.div(s.scaled("lr", grad), b.broadcast_to(root, grad.type.shape)))


@rule("adadelta", "squares steps", "rho rest epsilon wd " + GRADIENT)
def adadelta(s: Step) -> Value:
    """weight - step - wd * weight, where step = g * sqrt(steps + epsilon) / sqrt(squares + epsilon)."""
    b, grad, epsilon = s.b, s.rescaled(), s.number("epsilon")
    s.new["squares"] = squares = s.blended("rho", s.states["squares"], b.mul(grad, grad), "rest")
    step = b.mul(b.div(b.sqrt(b.add(s.states["steps"], epsilon)), b.sqrt(b.add(squares, epsilon))), grad)
    s.new["steps"] = s.blended("rho", s.states["steps"], b.mul(step, step), "rest")
    return b.sub(s.weight, b.add(step, s.scaled("wd", s.weight)))


@rule("rmsprop", "n", "lr gamma1 epsilon wd clip_weights " + GRADIENT)
def rmsprop(s: Step) -> Value:
    b, grad = s.b, s.bounded_decayed()
    s.new["n"] = n = s.blended("gamma1", s.states["n"], b.mul(grad, grad))
    step = b.div(s.scaled("lr", grad), b.sqrt(b.add(n, s.number("epsilon"))))
    return s.bounded(b.sub(s.weight, step), "clip_weights")


@rule("rmspropalex", "n g delta", "lr gamma1 gamma2 epsilon wd clip_weights " + GRADIENT)
def rmspropalex(s: Step) -> Value:
    b, grad = s.b, s.bounded_decayed()
    s.new["n"] = n = s.blended("gamma1", s.states["n"], b.mul(grad, grad))
    s.new["g"] = g = s.blended("gamma1", s.states["g"], grad)
    spread = b.sqrt(b.add(b.sub(n, b.mul(g, g)), s.number("epsilon")))
    s.new["delta"] = delta = b.sub(s.scaled("gamma2", s.states["delta"]), b.div(s.scaled("lr", grad), spread))
    return s.bounded(b.add(s.weight, delta), "clip_weights")


@rule("test", "copy", "rescale_grad")
def test(s: Step) -> Value:
    """weight + rescale_grad * grad, which is also the new state."""
    s.new["copy"] = new = s.b.add(s.weight, s.scaled("rescale_grad", s.grad))
    return new
