"""The update rules of optimizers, from a weight, its gradient and states; operator docstrings have the formulas."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ...graph import Value
from ...types import DType
from .builder import MxBuilder

Numbers = Callable[[str], Value]


def wide(dtype: DType) -> DType:
    """The dtype in which an update of weights of dtype `dtype` is computed."""
    return DType.F64 if dtype is DType.F64 else DType.F32


@dataclass
class Step:
    """One update of one weight. All values have the weight's shape, in the dtype of the computation. `numbers` returns
    a parameter of the operator as a scalar value; `clip` is the name of the parameter that bounds the gradient.

    A rule returns the new weight and stores the new states in `new`.
    """

    b: MxBuilder
    weight: Value
    grad: Value
    states: Mapping[str, Value]
    numbers: Numbers
    clip: str = "clip_gradient"
    new: dict[str, Value] = field(default_factory=dict[str, Value])

    def number(self, name: str) -> Value:
        """A parameter, broadcast to the weight's shape."""
        return self.b.spread(self.numbers(name), self.weight)

    def scaled(self, name: str, x: Value) -> Value:
        return self.b.mul(self.number(name), x)

    def bounded(self, x: Value, name: str) -> Value:
        """x clipped to [-bound, bound]; a negative bound disables clipping."""
        b, bound = self.b, self.number(name)
        limit = b.select(b.ge(bound, 0), bound, b.full_like(x, float("inf")))
        return b.maximum(b.minimum(x, limit), b.neg(limit))

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

    def blended(self, name: str, old: Value, new: Value) -> Value:
        """old * parameter + new * (1 - parameter)."""
        share = self.number(name)
        return self.b.add(self.b.mul(share, old), self.b.mul(self.b.sub(1, share), new))

    def corrections(self, dtype: DType) -> tuple[Value, Value]:
        """1 - beta1 ^ t and 1 - beta2 ^ t in the weight's shape; powers are computed once, not per element."""
        b, t = self.b, self.b.cast(self.numbers("t"), dtype)
        powers = [b.pow(b.cast(self.numbers(beta), dtype), t) for beta in ("beta1", "beta2")]
        first, second = (b.spread(b.sub(1, p), self.weight) for p in powers)
        return first, second


Rule = Callable[[Step], Value]


def sgd(s: Step) -> Value:
    return s.b.sub(s.weight, s.scaled("lr", s.decayed()))


def sgd_mom(s: Step) -> Value:
    s.new["mom"] = mom = s.b.sub(s.scaled("momentum", s.states["mom"]), s.scaled("lr", s.decayed()))
    return s.b.add(s.weight, mom)


def nag_mom(s: Step) -> Value:
    b, step = s.b, s.scaled("lr", s.decayed())
    s.new["mom"] = mom = b.sub(s.scaled("momentum", s.states["mom"]), step)
    return b.add(s.weight, b.sub(s.scaled("momentum", mom), step))


def signsgd(s: Step) -> Value:
    b, lr = s.b, s.number("lr")
    kept = b.mul(b.sub(1, b.mul(lr, s.number("wd"))), s.weight)
    return b.sub(kept, b.mul(lr, b.sign(s.grad)))


def signum(s: Step) -> Value:
    b, lr = s.b, s.number("lr")
    s.new["mom"] = mom = s.blended("momentum", s.states["mom"], b.neg(s.decayed()))
    kept = b.mul(b.sub(1, b.mul(lr, s.number("wd_lh"))), s.weight)
    return b.add(kept, b.mul(lr, b.sign(mom)))


def _moments(s: Step, grad: Value) -> tuple[Value, Value]:
    """The new running means of the gradient and its square."""
    s.new["mean"] = mean = s.blended("beta1", s.states["mean"], grad)
    s.new["var"] = var = s.blended("beta2", s.states["var"], s.b.mul(grad, grad))
    return mean, var


def adam(s: Step) -> Value:
    b = s.b
    mean, var = _moments(s, s.bounded_decayed())
    return b.sub(s.weight, b.div(s.scaled("lr", mean), b.add(b.sqrt(var), s.number("epsilon"))))


def adamw(s: Step) -> Value:
    b = s.b
    mean, var = _moments(s, s.rescaled())
    step = b.div(s.scaled("lr", mean), b.add(b.sqrt(var), s.number("epsilon")))
    return b.sub(s.weight, s.scaled("eta", b.add(step, s.scaled("wd", s.weight))))


def lamb_direction(s: Step, bias_correction: bool) -> Value:
    """The step of LAMB before scaling by the ratio of norms."""
    b = s.b
    mean, var = _moments(s, s.rescaled())
    if bias_correction:
        first, second = s.corrections(s.weight.type.dtype)
        mean, var = b.div(mean, first), b.div(var, second)
    return b.add(b.div(mean, b.add(b.sqrt(var), s.number("epsilon"))), s.scaled("wd", s.weight))


def ftml(s: Step) -> Value:
    b = s.b
    grad = s.bounded_decayed()
    s.new["v"] = v = s.blended("beta2", s.states["v"], b.mul(grad, grad))
    first, second = s.corrections(s.weight.type.dtype)
    root = b.add(b.sqrt(b.div(v, second)), s.number("epsilon"))
    s.new["d"] = d = b.mul(b.div(first, s.number("lr")), root)
    change = b.sub(d, s.scaled("beta1", s.states["d"]))
    s.new["z"] = z = b.sub(s.blended("beta1", s.states["z"], grad), b.mul(change, s.weight))
    return b.neg(b.div(z, d))


def ftrl(s: Step) -> Value:
    b, lr, grad = s.b, s.number("lr"), s.rescaled()
    n = s.states["n"]
    s.new["n"] = new_n = b.add(n, b.mul(grad, grad))
    pull = b.div(b.mul(b.sub(b.sqrt(new_n), b.sqrt(n)), s.weight), lr)
    s.new["z"] = z = b.sub(b.add(s.states["z"], grad), pull)
    l1 = s.number("lamda1")
    rate = b.add(b.div(b.add(s.number("beta"), b.sqrt(new_n)), lr), s.number("wd"))
    return b.select(b.gt(b.abs(z), l1), b.div(b.sub(b.mul(b.sign(z), l1), z), rate), b.full_like(z, 0))


def adagrad(s: Step) -> Value:
    b, grad = s.b, s.rescaled()
    s.new["history"] = history = b.add(s.states["history"], b.mul(grad, grad))
    return b.sub(s.weight, b.div(s.scaled("lr", grad), b.sqrt(b.add(history, s.number("epsilon")))))


def rmsprop(s: Step) -> Value:
    b, grad = s.b, s.bounded_decayed()
    s.new["n"] = n = s.blended("gamma1", s.states["n"], b.mul(grad, grad))
    step = b.div(s.scaled("lr", grad), b.sqrt(b.add(n, s.number("epsilon"))))
    return s.bounded(b.sub(s.weight, step), "clip_weights")


def rmspropalex(s: Step) -> Value:
    b, grad = s.b, s.bounded_decayed()
    s.new["n"] = n = s.blended("gamma1", s.states["n"], b.mul(grad, grad))
    s.new["g"] = g = s.blended("gamma1", s.states["g"], grad)
    spread = b.sqrt(b.add(b.sub(n, b.mul(g, g)), s.number("epsilon")))
    s.new["delta"] = delta = b.sub(s.scaled("gamma2", s.states["delta"]), b.div(s.scaled("lr", grad), spread))
    return s.bounded(b.add(s.weight, delta), "clip_weights")
