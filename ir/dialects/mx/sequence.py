"""Operators on padded sequences: time on one axis, batch on the other of the first two."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...graph import Value
from ...types import DType
from .builder import MxBuilder
from .operator import Operator, operator
from .parameters import Bool, Float, Int
from .shapes import PartialShape, unify_at


class _SequenceBase(Operator):
    if TYPE_CHECKING:  # each subclass declares it at MXNet's own place
        axis: int

    inputs = ("data", "sequence_length?")
    own_dtypes = frozenset(("sequence_length",))
    use_sequence_length: Bool = False

    def has_input(self, name: str) -> bool:
        return self.use_sequence_length

    def check(self) -> None:
        if self.axis not in (0, 1):
            raise ValueError(f"{self.mx_name()}: axis={self.axis}: time must stand on axis 0 or 1")

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        if inputs[0] is not None:
            unify_at(inputs, 1, (inputs[0][1 - self.axis],))

    def lengths(self, b: MxBuilder, x: Value, length: Value) -> Value:
        """The length of each element's sequence, in x's shape."""
        return b.broadcast_along(b.cast(length, DType.I32), x.type.shape, 1 - self.axis)

    def time(self, b: MxBuilder, x: Value) -> Value:
        """Each element's position in time."""
        return b.iota(x.type.shape, DType.I32, self.axis)


@operator("SequenceMask", aliases=("_npx_sequence_mask",))
class SequenceMask(_SequenceBase):
    """Sets the elements past each sequence's length to `value`."""

    value: Float = 0.0
    axis: Int = 0

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x = inputs[0]
        if not self.use_sequence_length:
            return x
        inside = b.lt(self.time(b, x), self.lengths(b, x, inputs[1]))
        return b.select(inside, x, b.full_like(x, self.value))


@operator("SequenceLast")
class SequenceLast(_SequenceBase):
    """The last element of each sequence."""

    axis: Int = 0

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x = inputs[0]
        axis, shape = self.axis, x.type.shape
        if not self.use_sequence_length:
            last = b.slice_axis(x, axis, shape[axis] - 1, shape[axis])
            return b.reshape(last, shape[:axis] + shape[axis + 1 :] or (1,))
        by_batch = b.transpose(x, (1 - axis, axis, *range(2, len(shape))))
        at = b.expand_dims(b.sub(b.cast(inputs[1], DType.I32), 1), -1)
        return b.gather(by_batch, at, axes=(1,), batch=1)


@operator("SequenceReverse")
class SequenceReverse(_SequenceBase):
    """Reverses each sequence within its length; what follows stays."""

    axis: Int = 0

    def check(self) -> None:
        if self.axis != 0:
            raise ValueError(f"SequenceReverse: axis={self.axis}: only axis 0 is supported, as in MXNet")

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x = inputs[0]
        if not self.use_sequence_length:
            return b.reverse(x, (self.axis,))
        steps, batch = x.type.shape[self.axis], x.type.shape[1 - self.axis]
        time = b.iota((batch, steps), DType.I32, 1)
        length = b.broadcast_along(b.cast(inputs[1], DType.I32), (batch, steps), 0)
        source = b.select(b.lt(time, length), b.sub(b.sub(length, time), 1), time)
        order = (1 - self.axis, self.axis, *range(2, x.type.rank))
        picked = b.gather(b.transpose(x, order), b.expand_dims(source, -1), axes=(1,), batch=1)
        return b.transpose(picked, order)
