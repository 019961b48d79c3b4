"""Connectionist temporal classification: the loss of sequences without alignment (Graves et al., 2006)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, Literal

import numpy as np

from ...graph import Graph, Value
from ...scalar import ReduceOp
from ...types import DType, TensorType
from ..core.gradient import pull_back
from .builder import MxBuilder
from .nn_softmax import log_softmax
from .operator import Operator, operator
from .parameters import Bool
from .shapes import Extents, PartialShape, is_known, unify_at

_LOG_ZERO = -1e30  # log of probability 0; finite, so differences of two such numbers are not NaN


@operator("CTCLoss", aliases=("_contrib_CTCLoss", "_contrib_ctc_loss", "ctc_loss"))
class CTCLoss(Operator):
    """The connectionist temporal classification loss: the negative log likelihood of labels over all alignments.

        output = -log(sum over alignments of prod_t softmax(data[t])[class at t])

    A label ends at its first padding (0, or -1 with `blank_label="last"`), unless its length is passed. A label longer
    than its sequence has the loss 0, but label must not have more columns than data has steps. A class that data does
    not have is an MXNetError (in loops and branches of a compiled graph, the nearest class is taken).

    Args:
        data: (T, B, classes), scores before softmax.
        label: (B, L), the classes of each label.
        data_lengths: (B,), the number of valid steps of each sequence; requires `use_data_lengths`.
        label_lengths: (B,), the length of each label; requires `use_label_lengths`.
        use_data_lengths: True if `data_lengths` is passed.
        use_label_lengths: True if `label_lengths` is passed.
        blank_label: The class of the blank: "first" (0, labels start at 1) or "last" (labels start at 0).
    Returns:
        (B,), the losses.
    Example:
        >>> nd.CTCLoss(nd.zeros((1, 1, 4)), nd.array([[2]])).asnumpy().round(3)
        array([1.386], dtype=float32)
    """

    inputs = ("data", "label", "data_lengths?", "label_lengths?")
    outputs = ("output0", "output1")
    hidden = 1
    own_dtypes = frozenset(("label", "data_lengths", "label_lengths"))
    use_data_lengths: Bool = False
    use_label_lengths: Bool = False
    blank_label: Literal["first", "last"] = "first"

    def has_input(self, name: str) -> bool:
        return self.use_data_lengths if name == "data_lengths" else self.use_label_lengths

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        if inputs[0] is not None and len(inputs[0]) == 3:
            for lengths in range(2, len(inputs)):
                unify_at(inputs, lengths, inputs[0][1:2])
            unify_at(outputs, 0, inputs[0][1:2])
        data, label = inputs[:2]
        if data is not None and label is not None and len(data) == 3 and len(label) == 2:
            _require_fit(data[:1], label[1:])

    def decompose(self, b: MxBuilder, *inputs: Value) -> tuple[Value, Value]:
        data, label = inputs[:2]
        self._check(data, label)
        steps, letters = self._lengths(b, inputs)
        first = len(b.nodes)
        frames = _valid(b, data, steps) if self.use_data_lengths else data
        loss = self._loss(b, frames, b.cast(label, DType.I32), steps, letters)
        gradient = pull_back(b, b.nodes[first:], {loss: b.full_like(loss, 1)}, [data])[0]
        return loss, gradient

    def _check(self, data: Value, label: Value) -> None:
        if data.type.rank != 3 or label.type.rank != 2 or label.type.shape[0] != data.type.shape[1]:
            shapes = f"{data.type.shape} and {label.type.shape}"
            raise ValueError(f"requires data (time, batch, classes) and label (batch, length), got {shapes}")
        _require_fit(data.type.shape[:1], label.type.shape[1:])

    def verify(self, b: MxBuilder, *inputs: Value) -> None:
        label = b.cast(inputs[1], DType.I32)
        letters = b.broadcast(self._lengths(b, inputs)[1], label.type.shape, (0,))
        ended = b.ge(b.iota(label.type.shape, DType.I32, 1), letters)
        known = b.and_(b.ge(label, 0), b.lt(label, inputs[0].type.shape[2]))
        b.require(b.or_(ended, known), "CTCLoss: label has a class that data does not have")
        for i, name, longest in self._longest(inputs[0].type.shape[0], inputs[1].type.shape[1]):
            inside = b.and_(b.ge(inputs[i], 0), b.le(inputs[i], longest))
            b.require(inside, f"CTCLoss: {name} has a length below 0 or beyond the axis that it measures")

    def checks_operands(self) -> bool:
        return True

    def operands_problem(self, operands: list[np.ndarray]) -> str | None:
        """A length beyond its axis, or a class that data does not have, before the padding or within the length."""
        label: np.ndarray[Any, Any] = operands[1].astype(np.int64)
        classes, columns = int(operands[0].shape[2]), int(label.shape[1])
        for i, name, longest in self._longest(int(operands[0].shape[0]), columns):
            wrong = operands[i][(operands[i] < 0) | (operands[i] > longest)]
            if wrong.size:
                return f"{name} has the length {wrong[0]:g}, the longest is {longest}"
        if self.use_label_lengths:
            ended = np.arange(columns) >= operands[-1].astype(np.int64)[:, None]
        else:
            ended = np.cumsum(label == self._padding, axis=1) > 0
        wrong = label[~ended & ((label < 0) | (label >= classes))]
        return f"label has the class {wrong[0]}, data has the classes 0 to {classes - 1}" if wrong.size else None

    def _longest(self, steps: int, columns: int) -> list[tuple[int, str, int]]:
        """For each operand with lengths its position, its name and the largest length that fits."""
        extents = {"data_lengths": steps, "label_lengths": columns}
        names = [name for name in extents if self.has_input(name)]
        return [(i, name, extents[name]) for i, name in enumerate(names, 2)]

    @property
    def _padding(self) -> int:
        """The number that ends a label."""
        return 0 if self.blank_label == "first" else -1

    def _lengths(self, b: MxBuilder, inputs: tuple[Value, ...]) -> tuple[Value, Value]:
        """The lengths of each sequence and each label, (B,) of I32."""
        lengths = [b.cast(v, DType.I32) for v in inputs[2:]]
        steps, batch, _ = inputs[0].type.shape
        of_data = lengths.pop(0) if self.use_data_lengths else b.full((batch,), steps, DType.I32)
        if self.use_label_lengths:
            return of_data, lengths.pop(0)
        letters = b.cast(b.ne(b.cast(inputs[1], DType.I32), self._padding), DType.I32)
        return of_data, b.sum(b.cumulative(ReduceOp.MUL, letters, 1), (1,))

    def _loss(self, b: MxBuilder, data: Value, label: Value, steps: Value, letters: Value) -> Value:
        blank = 0 if self.blank_label == "first" else data.type.shape[2] - 1
        states = self._states(b, label, blank)
        shape = states.type.shape
        skips = self._skips(b, states, blank)
        scores = b.transpose(log_softmax(b, data, 2), (1, 2, 0))  # (B, classes, T)
        emissions = b.transpose(b.gather(scores, b.expand_dims(states, 2), (1,), 1), (2, 0, 1))  # (T, B, states)
        places = b.iota(shape, DType.I32, 1)
        start = b.select(b.eq(places, 0), b.full(shape, 0, data.type.dtype), b.full(shape, _LOG_ZERO, data.type.dtype))
        scanned, body = [emissions], _step(start.type, self.use_data_lengths)
        if self.use_data_lengths:
            space = data.type.shape[:2]
            scanned.append(b.lt(b.iota(space, DType.I32, 0), b.broadcast(steps, space, (1,))))
        (end,) = b.scan(body, [start], scanned, [skips], data.type.shape[0])
        last = b.broadcast(b.mul(letters, 2), shape, (0,))
        final = b.or_(b.eq(places, last), b.eq(places, b.sub(last, 1)))
        loss = b.neg(_log_sum(b, b.select(final, end, b.full_like(end, _LOG_ZERO))))
        fits = self._fits(b, label, steps, letters)
        return b.select(fits, loss, b.full_like(loss, 0))

    def _states(self, b: MxBuilder, label: Value, blank: int) -> Value:
        """The classes of an alignment in order: a blank, then each letter followed by a blank, (B, 2 L + 1)."""
        batch, count = label.type.shape
        pairs = b.concat([b.expand_dims(label, 2), b.full((batch, count, 1), blank, DType.I32)], 2)
        rest = b.reshape(pairs, (batch, 2 * count))
        return b.concat([b.full((batch, 1), blank, DType.I32), rest], 1)

    def _skips(self, b: MxBuilder, states: Value, blank: int) -> Value:
        """BOOL: true if a state can follow the state two before it, because the blank between them is optional."""
        return b.and_(b.ne(states, blank), b.ne(states, _shifted(b, states, 2, -1)))

    def _fits(self, b: MxBuilder, label: Value, steps: Value, letters: Value) -> Value:
        """BOOL: true if the label fits its sequence: equal adjacent letters need a blank between them."""
        places = b.iota(label.type.shape, DType.I32, 1)
        inside = b.and_(b.gt(places, 0), b.lt(places, b.broadcast(letters, label.type.shape, (0,))))
        doubled = b.and_(inside, b.eq(label, _shifted(b, label, 1, -1)))
        return b.le(b.add(letters, b.sum(b.cast(doubled, DType.I32), (1,))), steps)


def _require_fit(steps: Extents, letters: Extents) -> None:
    """ValueError if the axis of letters is longer than that of time; extents can be unknown."""
    if is_known(steps) and is_known(letters) and steps[0] < letters[0]:
        raise ValueError(f"the axis of labels, {letters[0]}, is longer than the sequences of data, {steps[0]}")


def _valid(b: MxBuilder, data: Value, steps: Value) -> Value:
    """data with zeros after the last step of each sequence, so that what is there has no gradient, even NaN."""
    times = b.iota(data.type.shape, DType.I32, 0)
    return b.select(b.lt(times, b.broadcast(steps, data.type.shape, (1,))), data, b.full_like(data, 0))


def _step(state: TensorType, ends: bool) -> Graph:
    """One step: each state is reached from itself, from the previous state, or by a skip. With `ends`, sequences that
    ended keep their states."""
    b = MxBuilder("ctc")
    before, emissions = b.input(state), b.input(state)
    runs = b.input(TensorType(state.shape[:1], DType.BOOL)) if ends else None
    skips = b.input(TensorType(state.shape, DType.BOOL))
    skipped = b.select(skips, _shifted(b, before, 2, _LOG_ZERO), b.full_like(before, _LOG_ZERO))
    ways = (before, _shifted(b, before, 1, _LOG_ZERO), skipped)
    after = b.maximum(b.add(_log_of_sum(b, ways), emissions), _LOG_ZERO)
    return b.build([after if runs is None else b.select(b.broadcast(runs, state.shape, (0,)), after, before)])


def _shifted(b: MxBuilder, x: Value, by: int, fill: float) -> Value:
    """x moved up along the last axis, `fill` in front."""
    by = min(by, x.type.shape[1])
    return b.pad(x, b.constant(fill, x.type.dtype), (0, by), (0, -by))


def _log_of_sum(b: MxBuilder, values: Sequence[Value]) -> Value:
    """The logarithm of the sum of the exponentials of several values. The largest of them, which is subtracted from all
    for the range, has no influence on the gradient."""
    most = b.stop_gradient(reduce(b.maximum, values))
    return b.add(b.log(reduce(b.add, [b.exp(b.sub(v, most)) for v in values])), most)


def _log_sum(b: MxBuilder, x: Value) -> Value:
    """The logarithm of the sum of exponentials along the last axis."""
    last = (x.type.rank - 1,)
    most = b.max(x, last)
    shares = b.exp(b.sub(x, b.broadcast(most, x.type.shape, range(most.type.rank))))
    return b.add(b.log(b.sum(shares, last)), most)
