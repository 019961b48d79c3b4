"""Recurrent networks with their parameters packed into one vector."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from ...graph import Graph, Value
from ...lazy_dataclass import dataclass
from ...types import DType, Shape
from .builder import MxBuilder
from .nn_activation import Dropout, rectified
from .operator import Operator, operator
from .parameters import Bool, Float, OptionalFloat, OptionalInt, Positive
from .shapes import UNKNOWN, PartialShape, shape_text, unify_at

_GATES = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}


@dataclass(frozen=True)
class _Weights:
    """The parameters of one layer in one direction; `projection` can be None."""

    i2h: Value
    h2h: Value
    projection: Value | None
    i2h_bias: Value
    h2h_bias: Value


class _Unpacker:
    """Takes consecutive arrays from a packed vector."""

    def __init__(self, b: MxBuilder, packed: Value) -> None:
        self._b = b
        self._packed = packed
        self._offset = 0

    def take(self, *shape: int) -> Value:
        size = 1
        for n in shape:
            size *= n
        piece = self._b.slice_axis(self._packed, 0, self._offset, self._offset + size)
        self._offset += size
        return self._b.reshape(piece, shape)


@operator("RNN", aliases=("_npx_rnn",))
class RNN(Operator):
    """Applies a recurrent network with one or more layers to sequences.

        rnn_tanh, rnn_relu: h[t] = f(W x[t] + b + R h[t-1] + c)
        lstm: i, f, g, o = W x[t] + b + R h[t-1] + c;  cell[t] = sigmoid(f) * cell[t-1] + sigmoid(i) * tanh(g);
              h[t] = sigmoid(o) * tanh(cell[t])
        gru:  r, z = sigmoid(W x[t] + b + R h[t-1] + c);  n = tanh(W x[t] + b + r * (R h[t-1] + c));
              h[t] = (1 - z) * n + z * h[t-1]

    `parameters` is one vector. For each layer, and in it each direction, it contains W (gates * state_size, channels),
    R (gates * state_size, state_size) and the weight of the projection. Then, in the same order, the biases b and c.

    Args:
        data: (time, batch, channels).
        parameters: All weights and biases in one vector.
        state: (layers * directions, batch, hidden), the initial state; hidden is `projection_size` or `state_size`.
        state_cell: (layers * directions, batch, state_size), the initial cell; used with "lstm".
        sequence_length: (batch,), the number of valid steps of each sequence; requires `use_sequence_length`.
        state_size: Number of elements of a state.
        num_layers: Number of layers; the output of one is the input of the next.
        bidirectional: True to run each layer in both directions and concatenate the results.
        mode: Type of the cell.
        p: Dropout probability between layers, in training.
        state_outputs: True to return the final states as well.
        projection_size: Size to which the state of an LSTM is projected; none by default.
        lstm_state_clip_min: Lower limit of the cell of an LSTM; none by default.
        lstm_state_clip_max: Upper limit of the cell of an LSTM; none by default.
        lstm_state_clip_nan: True to remove NaN from the clipped cell.
        use_sequence_length: True if `sequence_length` is passed: later steps keep the state and output zeros.
    Returns:
        output: (time, batch, directions * state_size).
        state_output: The final state, with `state_outputs`.
        statecell_output: The final cell of an LSTM, with `state_outputs`.
    Example:
        >>> x, h = nd.ones((5, 2, 3)), nd.zeros((1, 2, 4))
        >>> nd.RNN(x, nd.ones((36,)), h, state_size=4, num_layers=1, mode="rnn_tanh").shape
        (5, 2, 4)
    """

    floats = True
    inputs = ("data", "parameters", "state", "state_cell?", "sequence_length?")
    own_dtypes = frozenset(("sequence_length",))
    state_size: Positive
    num_layers: Positive
    bidirectional: Bool = False
    mode: Literal["gru", "lstm", "rnn_relu", "rnn_tanh"]
    p: Float = 0.0
    state_outputs: Bool = False
    projection_size: OptionalInt = None
    lstm_state_clip_min: OptionalFloat = None
    lstm_state_clip_max: OptionalFloat = None
    lstm_state_clip_nan: Bool = False
    use_sequence_length: Bool = False

    def check(self) -> None:
        if not 0 <= self.p < 1:
            raise ValueError(f"RNN: p={self.p}: must be in [0, 1)")
        if self.projection_size is not None and self.mode != "lstm":
            raise ValueError(f"RNN: projection_size={self.projection_size}: only lstm supports a projection")

    def has_input(self, name: str) -> bool:
        return self.use_sequence_length if name == "sequence_length" else self.mode == "lstm"

    def output_names(self) -> tuple[str, ...]:
        states = ("state_output", "statecell_output") if self.mode == "lstm" else ("state_output",)
        return ("output", *states) if self.state_outputs else ("output",)

    @property
    def directions(self) -> int:
        return 2 if self.bidirectional else 1

    @property
    def hidden_size(self) -> int:
        """Extent of a state and, per direction, of the output."""
        return self.projection_size or self.state_size

    def _weight_shapes(self, channels: int) -> Iterator[list[Shape]]:
        """The shapes of the i2h, h2h and projection weights of each layer and direction."""
        gates = _GATES[self.mode] * self.state_size
        for layer in range(self.num_layers):
            width = channels if layer == 0 else self.hidden_size * self.directions
            shapes: list[Shape] = [(gates, width), (gates, self.hidden_size)]
            if self.projection_size is not None:
                shapes.append((self.projection_size, self.state_size))
            for _ in range(self.directions):
                yield shapes

    def parameter_count(self, channels: int) -> int:
        """Length of the packed vector for data with `channels` channels."""
        weights = sum(m * n for shapes in self._weight_shapes(channels) for m, n in shapes)
        return weights + 2 * self.num_layers * self.directions * _GATES[self.mode] * self.state_size

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        data = inputs[0]
        if data is None:
            return
        if len(data) != 3:
            raise ValueError(f"data should have 3 axes (time, batch, channels), got {shape_text(data)}")
        stack = self.num_layers * self.directions
        if data[2] is not UNKNOWN:
            unify_at(inputs, 1, (self.parameter_count(data[2]),))
        unify_at(inputs, 2, (stack, data[1], self.hidden_size))
        if self.mode == "lstm":
            unify_at(inputs, 3, (stack, data[1], self.state_size))
        if self.use_sequence_length:
            unify_at(inputs, len(inputs) - 1, (data[1],))
        unify_at(outputs, 0, (data[0], data[1], self.hidden_size * self.directions))

    def decompose(self, b: MxBuilder, *inputs: Value) -> tuple[Value, ...]:
        data, packed, *states = inputs
        length = states.pop() if self.use_sequence_length else None
        weights = self._unpack(b, packed, data.type.shape[2])
        x = data
        finals: list[tuple[Value, ...]] = []
        for layer in range(self.num_layers):
            x = self._drop(b, x) if layer else x
            outputs_of_directions: list[Value] = []
            for direction in range(self.directions):
                index = layer * self.directions + direction
                start = tuple(_row(b, s, index) for s in states)
                out, last = self._run(b, x, weights[index], start, length, direction == 1)
                outputs_of_directions.append(out)
                finals.append(last)
            x = b.concat(outputs_of_directions, 2) if len(outputs_of_directions) > 1 else outputs_of_directions[0]
        if not self.state_outputs:
            return (x,)
        stacked = (b.concat([b.expand_dims(v, 0) for v in column], 0) for column in zip(*finals, strict=True))
        return (x, *stacked)

    def _drop(self, b: MxBuilder, x: Value) -> Value:
        return Dropout(p=self.p).decompose(b, x)[0] if self.p else x

    def _unpack(self, b: MxBuilder, packed: Value, channels: int) -> list[_Weights]:
        pieces = _Unpacker(b, packed)
        matrices = [[pieces.take(*shape) for shape in shapes] for shapes in self._weight_shapes(channels)]
        gates = _GATES[self.mode] * self.state_size
        biases = [(pieces.take(gates), pieces.take(gates)) for _ in matrices]
        return [
            _Weights(m[0], m[1], m[2] if len(m) > 2 else None, *bias) for m, bias in zip(matrices, biases, strict=True)
        ]

    def _run(
        self, b: MxBuilder, x: Value, w: _Weights, start: tuple[Value, ...], length: Value | None, backwards: bool
    ) -> tuple[Value, tuple[Value, ...]]:
        """One layer in one direction: the outputs of all steps (time, batch, hidden) and the final states."""
        steps, batch, _ = x.type.shape
        scanned = [self._project(b, x, w)]
        if length is not None:
            scanned.append(_active(b, steps, batch, length))
        if backwards:
            scanned = [b.reverse(v, (0,)) for v in scanned]
        invariants = [w.h2h, w.h2h_bias, *([w.projection] if w.projection is not None else [])]
        body = self._body(start, scanned, invariants, length is not None)
        *last, out = b.scan(body, list(start), scanned, invariants, steps)
        return (b.reverse(out, (0,)) if backwards else out), tuple(last)

    def _project(self, b: MxBuilder, x: Value, w: _Weights) -> Value:
        """The input's part of the gates for all steps as one product, including biases that are only added."""
        steps, batch, channels = x.type.shape
        rows = b.contract(b.reshape(x, (steps * batch, channels)), w.i2h, 1, 1)
        bias = w.i2h_bias if self.mode == "gru" else b.add(w.i2h_bias, w.h2h_bias)
        return b.reshape(b.add(rows, b.broadcast_along(bias, rows.type.shape, 1)), (steps, batch, rows.type.shape[1]))

    def _body(self, start: tuple[Value, ...], scanned: list[Value], invariants: list[Value], masked: bool) -> Graph:
        b = MxBuilder("rnn_step")
        state = tuple(b.input(v.type) for v in start)
        slices = [b.input(replace(v.type, shape=v.type.shape[1:])) for v in scanned]
        h2h, h2h_bias, *projection = (b.input(v.type) for v in invariants)
        hidden = b.contract(state[0], h2h, 1, 1)
        if self.mode == "gru":
            hidden = b.add(hidden, b.broadcast_along(h2h_bias, hidden.type.shape, 1))
        new = self._cell(b, slices[0], hidden, state)
        if projection:
            new = (b.contract(new[0], projection[0], 1, 1), *new[1:])
        out = new[0]
        if masked:
            out = _where_active(b, slices[1], out, b.full_like(out, 0))
            new = tuple(_where_active(b, slices[1], n, old) for n, old in zip(new, state, strict=True))
        return b.build([*new, out])

    def _cell(self, b: MxBuilder, x: Value, hidden: Value, state: tuple[Value, ...]) -> tuple[Value, ...]:
        """The next states, from the input's part and the state's part of the gates."""
        match self.mode:
            case "lstm":
                return self._lstm(b, _gates(b, b.add(x, hidden), 4), state[1])
            case "gru":
                return (_gru(b, _gates(b, x, 3), _gates(b, hidden, 3), state[0]),)
            case "rnn_relu":
                return (rectified(b, b.add(x, hidden)),)
            case "rnn_tanh":
                return (b.tanh(b.add(x, hidden)),)

    def _lstm(self, b: MxBuilder, gates: list[Value], cell: Value) -> tuple[Value, Value]:
        i, f, g, o = gates
        cell = b.add(b.mul(b.sigmoid(f), cell), b.mul(b.sigmoid(i), b.tanh(g)))
        if self.lstm_state_clip_min is not None and self.lstm_state_clip_max is not None:
            cell = b.minimum(b.maximum(cell, self.lstm_state_clip_min), self.lstm_state_clip_max)
        return b.mul(b.sigmoid(o), b.tanh(cell)), cell


def _row(b: MxBuilder, x: Value, index: int) -> Value:
    return b.reshape(b.slice_axis(x, 0, index, index + 1), x.type.shape[1:])


def _gates(b: MxBuilder, x: Value, count: int) -> list[Value]:
    width = x.type.shape[1] // count
    return [b.slice_axis(x, 1, i * width, (i + 1) * width) for i in range(count)]


def _gru(b: MxBuilder, x: list[Value], h: list[Value], state: Value) -> Value:
    reset, update = (b.sigmoid(b.add(x[i], h[i])) for i in (0, 1))
    new = b.tanh(b.add(x[2], b.mul(reset, h[2])))
    return b.add(b.mul(b.sub(1, update), new), b.mul(update, state))


def _active(b: MxBuilder, steps: int, batch: int, length: Value) -> Value:
    """BOOL (time, batch): true if the step is within the sequence's length."""
    shape = (steps, batch)
    return b.lt(b.iota(shape, DType.I32, 0), b.broadcast_along(b.cast(length, DType.I32), shape, 1))


def _where_active(b: MxBuilder, active: Value, new: Value, old: Value) -> Value:
    return b.select(b.broadcast_along(active, new.type.shape, 0), new, old)
