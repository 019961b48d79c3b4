"""Random numbers by rejection sampling: gamma and Poisson numbers, and counts based on them.

A loop in core proposes a number for every element in each round, and keeps the first accepted one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...graph import Value
from ...types import DType, Shape, TensorType
from . import random_bits as draw
from .builder import MxBuilder

Propose = Callable[[MxBuilder, Shape, list[Value]], tuple[Value, Value]]
"""propose(b, shape, parameters): candidates, and BOOL which of them are accepted."""

_SMALL = 10.0
"""The mean below which Poisson numbers are computed by summing probabilities."""
_TERMS = 40  # number of summed probabilities; a Poisson number with mean 10 exceeds 40 with probability 3e-13


class _RoundBuilder(MxBuilder):
    """Builds one round of a loop. Its draws depend on the first input, a key that changes from round to round."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.key = self.input(TensorType((4,), DType.U32), "key")
        self.drawn = 0

    def random_key(self) -> Value:
        self.drawn += 1
        return self.later_key()

    def later_key(self) -> Value:
        """The key after all draws so far; the lowest byte of word 3 counts the draws of an operator."""
        return self.add(self.key, self.constant(np.array([0, 0, 0, self.drawn << 8], np.uint32)))


def until_accepted(b: MxBuilder, active: Value, parameters: Sequence[Value], propose: Propose) -> Value:
    """Accepted candidates, float32, where `active` (BOOL) is true, elsewhere NaN. The parameters have its shape."""
    types = [active.type, TensorType(active.type.shape, DType.F32), *(p.type for p in parameters)]
    condition = MxBuilder("condition")
    condition.input(TensorType((4,), DType.U32))
    missing, *_ = [condition.input(t) for t in types]
    goes_on = condition.build([condition.any(missing)])
    body = _RoundBuilder("round")
    missing, kept, *parameters_of_step = [body.input(t) for t in types]
    candidate, accepted = propose(body, active.type.shape, parameters_of_step)
    taken = body.and_(missing, accepted)
    still = body.and_(missing, body.not_(accepted))
    step = body.build([body.later_key(), still, body.select(taken, candidate, kept), *parameters_of_step])
    nothing = b.full(active.type.shape, float("nan"))
    return b.while_(goes_on, step, b.random_key(), active, nothing, *parameters)[2]


def _propose_gamma(b: MxBuilder, shape: Shape, parameters: list[Value]) -> tuple[Value, Value]:
    """Marsaglia and Tsang (2000): d * (1 + c * normal)^3 with d = alpha - 1/3, c = 1 / sqrt(9 d), for alpha >= 1."""
    (d,) = parameters
    x = draw.normal(b, shape)
    root = b.add(1.0, b.div(x, b.sqrt(b.mul(d, 9.0))))
    v = b.mul(b.mul(root, root), root)
    limit = b.add(b.mul(b.mul(x, x), 0.5), b.mul(d, b.add(b.sub(1.0, v), b.log(v))))
    accepted = b.and_(b.gt(root, 0), b.lt(b.log(draw.uniform_open(b, shape)), limit))
    return b.mul(d, v), accepted


def gamma(b: MxBuilder, shape: Shape, alpha: Value, beta: Value) -> Value:
    """Gamma numbers with shape `alpha` and scale `beta`; NaN unless alpha is positive and finite."""
    valid = b.and_(b.gt(alpha, 0), b.is_finite(alpha))
    small = b.lt(alpha, 1)
    raised = b.select(small, b.add(alpha, 1.0), alpha)  # gamma(a) = gamma(a + 1) * uniform ^ (1 / a)
    drawn = until_accepted(b, valid, [b.sub(raised, 1 / 3)], _propose_gamma)
    shrink = b.pow(draw.uniform_open(b, shape), b.div(1.0, alpha))
    return b.mul(b.select(small, b.mul(drawn, shrink), drawn), beta)


def _propose_poisson(b: MxBuilder, shape: Shape, parameters: list[Value]) -> tuple[Value, Value]:
    """Hörmann's transformed rejection (PTRS, 1993) for means of at least 10. The logarithm of the probability is
    computed relative to the mean to avoid cancellation in float32."""
    (lam,) = parameters
    spread = b.add(b.mul(b.sqrt(lam), 2.53), 0.931)
    a = b.sub(b.mul(spread, 0.02483), 0.059)
    inverse = b.add(b.div(1.1328, b.sub(spread, 3.4)), 1.1239)
    u, v = b.sub(draw.uniform_open(b, shape), 0.5), draw.uniform_open(b, shape)
    us = b.sub(0.5, b.abs(u))
    k = b.floor(b.add(b.mul(b.add(b.div(b.mul(a, 2.0), us), spread), u), b.add(lam, 0.43)))
    hat = b.log(b.div(b.mul(v, inverse), b.add(b.div(a, b.mul(us, us)), spread)))
    accepted = b.and_(b.ge(k, 0), b.le(hat, _log_poisson(b, lam, k)))
    return k, accepted


def _log_poisson(b: MxBuilder, lam: Value, k: Value) -> Value:
    """log(lam^k exp(-lam) / k!), with Stirling's series for k!."""
    n = b.maximum(k, 1.0)
    d = b.div(b.sub(n, lam), lam)
    power = b.mul(lam, b.sub(d, b.mul(b.add(d, 1.0), b.log1p(d))))
    series = b.div(b.sub(1 / 12, b.div(1 / 360, b.mul(n, n))), n)
    approximation = b.sub(b.sub(power, b.mul(b.log(b.mul(n, 2 * np.pi)), 0.5)), series)
    return b.select(b.lt(k, 1), b.neg(lam), approximation)


def poisson(b: MxBuilder, shape: Shape, lam: Value) -> Value:
    """Poisson counts with mean `lam`, float32; NaN if lam is negative, infinite or NaN."""
    valid = b.and_(b.ge(lam, 0), b.is_finite(lam))
    large = b.and_(valid, b.ge(lam, _SMALL))
    many = until_accepted(b, large, [b.select(large, lam, _SMALL)], _propose_poisson)
    few = _few(b, draw.uniform(b, shape), b.minimum(lam, _SMALL))
    return b.select(large, many, b.select(valid, few, float("nan")))


def _few(b: MxBuilder, u: Value, lam: Value) -> Value:
    """The number of cumulative sums of Poisson probabilities that are at most a uniform number."""
    term = total = b.exp(b.neg(lam))
    count = b.full_like(u, 0)
    for k in range(1, _TERMS + 1):
        count = b.add(count, b.cast(b.ge(u, total), DType.F32))
        term = b.mul(term, b.mul(lam, 1 / k))
        total = b.add(total, term)
    return count


def negative_binomial(b: MxBuilder, shape: Shape, k: Value, p: Value) -> Value:
    """Failures before the k-th success: Poisson counts whose means are gamma numbers with scale (1 - p) / p."""
    return poisson(b, shape, gamma(b, shape, k, b.div(b.sub(1.0, p), p)))


def generalized_negative_binomial(b: MxBuilder, shape: Shape, mu: Value, alpha: Value) -> Value:
    """Counts with mean mu and variance mu + alpha * mu^2; Poisson counts if alpha is 0."""
    plain = b.eq(alpha, 0)
    mixed = gamma(b, shape, b.div(1.0, b.select(plain, 1.0, alpha)), b.mul(mu, alpha))
    return poisson(b, shape, b.select(plain, mu, mixed))


def distinct(b: MxBuilder, shape: Shape, one: Callable[[MxBuilder, Shape], Value]) -> tuple[Value, Value]:
    """(rows, numbers) with distinct numbers per row, and the number of draws per row (rows,), int64.

    `one` draws an int64 per row. A loop keeps it if the row is not full and does not contain the number.
    """
    rows, numbers = shape
    types = [TensorType(shape, DType.I64), TensorType((rows,), DType.I64), TensorType((rows,), DType.I64)]
    condition = MxBuilder("condition")
    condition.input(TensorType((4,), DType.U32))
    _, count, _ = [condition.input(t) for t in types]
    goes_on = condition.build([condition.any(condition.lt(count, numbers))])
    body = _RoundBuilder("round")
    kept, count, tries = [body.input(t) for t in types]
    drawn = one(body, (rows,))
    space = body.iota(shape, DType.I64, 1)
    wide = body.broadcast(drawn, shape, (0,))
    filled = body.lt(space, body.broadcast(count, shape, (0,)))
    known = body.any(body.and_(filled, body.eq(kept, wide)), 1)
    active = body.lt(count, numbers)
    new = body.and_(active, body.not_(known))
    here = body.and_(body.eq(space, body.broadcast(count, shape, (0,))), body.broadcast(new, shape, (0,)))
    step = body.build(
        [
            body.later_key(),
            body.select(here, wide, kept),
            body.add(count, body.cast(new, DType.I64)),
            body.add(tries, body.cast(active, DType.I64)),
        ]
    )
    nothing = b.full((rows,), 0, DType.I64)
    results = b.while_(goes_on, step, b.random_key(), b.full(shape, 0, DType.I64), nothing, nothing)
    return results[1], results[3]
