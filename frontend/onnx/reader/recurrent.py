"""Rules of recurrent layers: RNN, GRU and LSTM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....ir.dialects.core.builder import CoreBuilder
from ....ir.graph import Value
from ....ir.types import DType
from .elementwise import ACTIVATIONS
from .node import OnnxNode, Unsupported, rule

Activation = Callable[[CoreBuilder, Value], Value]


class _Layer:
    """A recurrent layer with `gates` parts in its weights; time is the first axis of `x`."""

    def __init__(self, n: OnnxNode, gates: int, defaults: Sequence[str]) -> None:
        self.n, self.b, self.gates = n, n.b, gates
        self.batch_first = bool(n.attr("layout", 0))
        self.x = self.b.transpose(n[0], (1, 0, 2)) if self.batch_first else n[0]
        self.hidden = n[2].type.shape[-1]
        self.clip = n.attr("clip")
        direction = n.attr("direction", "forward")
        self.directions = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]
        self.lengths = n.get(4)
        self.activations = self._activations(len(defaults), defaults)

    def _activations(self, count: int, defaults: Sequence[str]) -> list[list[Activation]]:
        names = [name.decode() for name in self.n.attr("activations", [])] or [*defaults] * len(self.directions)
        alphas, betas = iter(self.n.attr("activation_alpha", [])), iter(self.n.attr("activation_beta", []))
        functions = [self._activation(name, alphas, betas) for name in names]
        return [functions[i * count : (i + 1) * count] for i in range(len(self.directions))]

    def _activation(self, name: str, alphas: Any, betas: Any) -> Activation:
        known = next((k for k in ACTIVATIONS if k.lower() == name.lower()), None)
        if known is None:
            raise Unsupported(f"the activation {name!r} is not supported")
        function, arguments = ACTIVATIONS[known], {}
        if known in ("Affine", "LeakyRelu", "ThresholdedRelu", "ScaledTanh", "HardSigmoid", "Elu"):
            arguments = {"alpha": alpha} if (alpha := next(alphas, None)) is not None else {}
        if known in ("Affine", "ScaledTanh", "HardSigmoid") and (beta := next(betas, None)) is not None:
            arguments["beta"] = beta
        return lambda b, x: function(b, self.clipped(b, x), **arguments)

    def clipped(self, b: CoreBuilder, x: Value) -> Value:
        return x if self.clip is None else b.minimum(b.maximum(x, -self.clip), self.clip)

    def part(self, position: int, direction: int) -> Value | None:
        """An operand's slice for one direction."""
        x = self.n.get(position)
        return None if x is None else self.b.squeeze(self.b.slice_axis(x, 0, direction, direction + 1), (0,))

    def start(self, position: int, direction: int) -> Value:
        """An initial state (batch, hidden); zeros by default."""
        x = self.n.get(position)
        if x is None:
            return self.b.full((self.x.type.shape[1], self.hidden), 0, self.x.type.dtype)
        x = self.b.transpose(x, (1, 0, 2)) if self.batch_first else x
        return self.b.squeeze(self.b.slice_axis(x, 0, direction, direction + 1), (0,))

    def biases(self, direction: int) -> tuple[Value, Value]:
        """The biases of the input and of the state."""
        size, both = self.gates * self.hidden, self.part(3, direction)
        if both is None:
            zeros = self.b.full((size,), 0, self.x.type.dtype)
            return zeros, zeros
        return self.b.slice_axis(both, 0, 0, size), self.b.slice_axis(both, 0, size, 2 * size)

    def run(
        self, step: Callable[..., Sequence[Value]], states: Sequence[int], extra: Callable[[int], Sequence[Value]]
    ) -> list[Value]:
        """The outputs of all steps, and the last states. `step(b, direction, projected, states, weights)` returns the
        next states; `states` are the positions of the initial ones."""
        each = [self._direction(step, d, states, extra(d)) for d in range(len(self.directions))]
        outputs = self.b.concat([self.b.expand_dims(one[0], 1) for one in each], 1)
        last = [self.b.concat([self.b.expand_dims(one[i], 0) for one in each], 0) for i in range(1, len(states) + 1)]
        if self.batch_first:
            outputs = self.b.transpose(outputs, (2, 0, 1, 3))
            last = [self.b.transpose(x, (1, 0, 2)) for x in last]
        return [outputs, *last][: len(self.n.results)]

    def _direction(self, step: Any, direction: int, positions: Sequence[int], extra: Sequence[Value]) -> list[Value]:
        b, backward = self.b, self.directions[direction]
        x = self._reversed(self.x) if backward and self.lengths is not None else self.x
        weights, recurrent = self.part(1, direction), self.part(2, direction)
        assert weights is not None and recurrent is not None
        first, second = self.biases(direction)
        projected = b.dot(x, weights, (), (), (2,), (1,))
        projected = b.add(projected, b.broadcast_along(first, projected.type.shape, 2))
        states = [self.start(p, direction) for p in positions]
        invariants = [recurrent, second, *extra]
        place = b.iota((x.type.shape[0],), DType.I64, 0)
        if self.lengths is not None:
            invariants.append(b.cast(self.lengths, DType.I64))
        body = self._body(step, direction, projected, states, invariants)
        reverse = backward and self.lengths is None
        *last, outputs = b.scan(body, states, [projected, place], invariants, x.type.shape[0], reverse)
        if backward and self.lengths is not None:
            outputs = self._reversed(outputs)
        return [outputs, *last]

    def _body(
        self, step: Any, direction: int, projected: Value, states: Sequence[Value], invariants: Sequence[Value]
    ) -> Any:
        inner = CoreBuilder("step")
        old = [inner.input(s.type) for s in states]
        slice_type = type(projected.type)(projected.type.shape[1:], projected.type.dtype)
        now, place = inner.input(slice_type), inner.input(type(projected.type)((), DType.I64))
        weights = [inner.input(v.type) for v in invariants]
        lengths = weights.pop() if self.lengths is not None else None
        new = list(step(inner, direction, now, old, weights))
        output = new[0]
        if lengths is not None:
            shape = output.type.shape
            active = inner.lt(inner.broadcast(place, lengths.type.shape, ()), lengths)
            active = inner.broadcast_along(active, shape, 0)
            new = [inner.select(active, a, c) for a, c in zip(new, old, strict=True)]
            output = inner.select(active, output, 0)
        return inner.build([*new, output])

    def _reversed(self, x: Value) -> Value:
        """Each sequence in reverse order; what follows its end stays."""
        assert self.lengths is not None
        b, shape = self.b, x.type.shape
        place = b.iota(shape, DType.I64, 0)
        ends = b.broadcast_along(b.cast(self.lengths, DType.I64), shape, 1)
        return b.take_along(x, b.select(b.lt(place, ends), b.sub(b.sub(ends, 1), place), place), 0)


def _linear(b: CoreBuilder, h: Value, weights: Value, bias: Value | None) -> Value:
    y = b.dot(h, weights, (), (), (1,), (1,))
    return y if bias is None else b.add(y, b.broadcast_along(bias, y.type.shape, 1))


def _gates(b: CoreBuilder, x: Value, count: int) -> list[Value]:
    size = x.type.shape[1] // count
    return [b.slice_axis(x, 1, i * size, (i + 1) * size) for i in range(count)]


@rule("RNN")
def rnn(n: OnnxNode) -> list[Value]:
    layer = _Layer(n, 1, ("Tanh",))

    def step(
        b: CoreBuilder, direction: int, x: Value, states: Sequence[Value], weights: Sequence[Value]
    ) -> list[Value]:
        (f,) = layer.activations[direction]
        return [f(b, b.add(x, _linear(b, states[0], *weights)))]

    return layer.run(step, (5,), lambda d: ())


@rule("GRU")
def gru(n: OnnxNode) -> list[Value]:
    layer = _Layer(n, 3, ("Sigmoid", "Tanh"))
    size, reset_later = layer.hidden, n.attr("linear_before_reset", 0)

    def step(
        b: CoreBuilder, direction: int, x: Value, states: Sequence[Value], weights: Sequence[Value]
    ) -> list[Value]:
        f, g = layer.activations[direction]
        (h,), (r, bias) = states, weights
        xs = _gates(b, x, 3)
        rows = [b.slice_axis(r, 0, i * size, (i + 1) * size) for i in range(3)]
        offsets = [b.slice_axis(bias, 0, i * size, (i + 1) * size) for i in range(3)]
        z, reset = (f(b, b.add(xs[i], _linear(b, h, rows[i], offsets[i]))) for i in (0, 1))
        if reset_later:
            candidate = b.mul(reset, _linear(b, h, rows[2], offsets[2]))
        else:
            candidate = _linear(b, b.mul(reset, h), rows[2], offsets[2])
        new = g(b, b.add(xs[2], candidate))
        return [b.add(b.mul(b.sub(1, z), new), b.mul(z, h))]

    return layer.run(step, (5,), lambda d: ())


@rule("LSTM")
def lstm(n: OnnxNode) -> list[Value]:
    layer = _Layer(n, 4, ("Sigmoid", "Tanh", "Tanh"))
    coupled = n.attr("input_forget", 0)

    def peepholes(direction: int) -> Sequence[Value]:
        all_three = layer.part(7, direction)
        size = layer.hidden
        return () if all_three is None else [n.b.slice_axis(all_three, 0, i * size, (i + 1) * size) for i in range(3)]

    def step(
        b: CoreBuilder, direction: int, x: Value, states: Sequence[Value], weights: Sequence[Value]
    ) -> list[Value]:
        f, g, h_of = layer.activations[direction]
        (h, c), (r, bias, *peeps) = states, weights
        i, o, forget, new = _gates(b, b.add(x, _linear(b, h, r, bias)), 4)

        def seen(gate: Value, cell: Value, position: int) -> Value:
            if not peeps:
                return gate
            return b.add(gate, b.mul(cell, b.broadcast_along(peeps[position], cell.type.shape, 1)))

        i = f(b, seen(i, c, 0))
        forget = b.sub(1, i) if coupled else f(b, seen(forget, c, 2))
        cell = b.add(b.mul(forget, c), b.mul(i, g(b, new)))
        return [b.mul(f(b, seen(o, cell, 1)), h_of(b, cell)), cell]

    return layer.run(step, (5, 6), peepholes)
