"""The likelihood of self-exciting events (Bacry et al., "Hawkes processes in finance", 2015)."""

from __future__ import annotations

from ...graph import Graph, Value
from ...types import DType, TensorType
from .builder import MxBuilder
from .operator import Operator, operator
from .shapes import PartialShape, unify_at


@operator("_contrib_hawkesll")
class HawkesLL(Operator):
    """The log likelihood of sequences of events of several kinds, for a Hawkes process with exponential decay.

        intensity_k(t) = lda_k
            + alpha_k * beta_k * sum over earlier events of kind k of exp(-beta_k * (t - time of event))

    Args:
        lda: (N, K), background intensities.
        alpha: (K,), branching ratios.
        beta: (K,), decays.
        state: (N, K), the state before the first event.
        lags: (N, T), times since the previous event.
        marks: (N, T), kinds of the events.
        valid_length: (N,), numbers of events.
        max_time: (N,), ends of observation.
    Returns:
        output: The log likelihoods, (N,). Only lda, alpha and beta have a gradient.
        out_state: The state at the end, (N, K).
    """

    inputs = ("lda", "alpha", "beta", "state", "lags", "marks", "valid_length", "max_time")
    outputs = ("output", "out_state")
    own_dtypes = frozenset(("marks",))

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        rates = inputs[0]
        if rates is not None and len(rates) == 2:
            for position, shape in ((1, rates[1:]), (2, rates[1:]), (3, rates), (6, rates[:1]), (7, rates[:1])):
                unify_at(inputs, position, shape)
        for position, other in ((4, 5), (5, 4)):
            unify_at(inputs, position, inputs[other])

    def decompose(self, b: MxBuilder, *inputs: Value) -> tuple[Value, Value]:
        rates, alpha, beta, state, lags, marks, valid, end = inputs
        self._check(rates, lags)
        for name, vector in (("valid_length", valid), ("max_time", end)):
            if vector.type.shape != rates.type.shape[:1]:
                raise ValueError(f"{name} should be {rates.type.shape[:1]}, got {vector.type.shape}")
        state, lags, valid, end = (b.stop_gradient(v) for v in (state, lags, valid, end))
        (batch, _), steps = rates.type.shape, lags.type.shape[1]
        dtype = rates.type.dtype
        wide_alpha, wide_beta = (b.broadcast_to(v, rates.type.shape) for v in (alpha, beta))
        start = [b.full((batch,), 0, dtype), b.full((batch,), 0, dtype), b.full_like(rates, 0), state]
        scanned = [b.transpose(lags, (1, 0)), b.cast(b.transpose(marks, (1, 0)), DType.I32), b.iota((steps,), dtype, 0)]
        invariants = [rates, wide_alpha, wide_beta, valid]
        likelihood, _, last, state = b.scan(_event(rates.type), start, scanned, invariants, steps)
        waited = b.sub(b.broadcast_along(end, rates.type.shape, 0), last)
        faded = b.exp(b.neg(b.mul(wide_beta, waited)))
        rest = b.add(b.mul(rates, waited), b.mul(b.mul(wide_alpha, state), b.sub(1, faded)))
        return b.sub(likelihood, b.sum(rest, (1,))), b.stop_gradient(b.mul(faded, state))

    def _check(self, rates: Value, lags: Value) -> None:
        if rates.type.rank != 2 or lags.type.rank != 2 or rates.type.shape[0] != lags.type.shape[0]:
            raise ValueError(f"requires lda (N, K) and lags (N, T), got {rates.type.shape} and {lags.type.shape}")


def _event(rates: TensorType) -> Graph:
    """One event of each sequence, if it has one: its likelihood, and its contribution to its kind's state."""
    b = MxBuilder("event")
    shape, dtype = rates.shape, rates.dtype
    vector = TensorType(shape[:1], dtype)
    likelihood, time, last, state = (b.input(t) for t in (vector, vector, rates, rates))
    lag, mark, number = b.input(vector), b.input(TensorType(shape[:1], DType.I32)), b.input(TensorType((), dtype))
    mu, alpha, beta, valid = b.input(rates), b.input(rates), b.input(rates), b.input(vector)
    happens = b.lt(b.broadcast(number, valid.type.shape, ()), valid)
    now = b.add(time, lag)
    here = b.and_(b.eq(b.iota(shape, DType.I32, 1), b.broadcast(mark, shape, (0,))), b.broadcast(happens, shape, (0,)))
    waited = b.sub(b.broadcast(now, shape, (0,)), last)
    faded = b.exp(b.neg(b.mul(beta, waited)))
    intensity = b.add(mu, b.mul(b.mul(b.mul(alpha, beta), state), faded))
    expected = b.add(b.mul(mu, waited), b.mul(b.mul(alpha, state), b.sub(1, faded)))
    gained = b.sub(b.log(b.select(here, intensity, b.full_like(intensity, 1))), expected)
    likelihood = b.add(likelihood, b.sum(b.select(here, gained, b.full_like(gained, 0)), (1,)))
    last = b.select(here, b.broadcast(now, shape, (0,)), last)
    state = b.select(here, b.add(1, b.mul(state, faded)), state)
    return b.build([likelihood, b.select(happens, now, time), last, state])
