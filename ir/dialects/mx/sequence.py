"""Operators on padded sequences: of the first two axes, one is time and the other is the batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...graph import Value
from ...types import DType
from .operator import Operator, operator
from .parameters import Bool, Float, Int
from .shapes import PartialShape, unify_at

if TYPE_CHECKING:
    from .builder import MxBuilder


class _SequenceBase(Operator):
    """Shared arguments of several operators.

    Args:
        data: (time, batch, ...), or (batch, time, ...) with `axis` 1.
        sequence_length: (batch,), the number of valid steps of each sequence; requires `use_sequence_length`.
        use_sequence_length: True if `sequence_length` is passed; otherwise all steps are valid.
        axis: The axis of time, 0 or 1.
    """

    if TYPE_CHECKING:  # each subclass declares it at MXNet's own place
        axis: int

    inputs = ("data", "sequence_length?")
    own_dtypes = frozenset(("sequence_length",))
    use_sequence_length: Bool = False

    def has_input(self, name: str) -> bool:
        return self.use_sequence_length

    def check(self) -> None:
        if self.axis not in (0, 1):
            raise ValueError(f"{self.mx_name()}: axis={self.axis}: the time axis must be 0 or 1")

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        if inputs[0] is not None:
            unify_at(inputs, 1, (inputs[0][1 - self.axis],))

    def lengths(self, b: MxBuilder, x: Value, length: Value) -> Value:
        """The sequence length for each element, in x's shape."""
        return b.broadcast_along(b.cast(length, DType.I32), x.type.shape, 1 - self.axis)

    def time(self, b: MxBuilder, x: Value) -> Value:
        """The time step of each element, in x's shape."""
        return b.iota(x.type.shape, DType.I32, self.axis)


@operator("SequenceMask", aliases=("_npx_sequence_mask",))
class SequenceMask(_SequenceBase):
    """Sets the steps past the end of each sequence to a number.

        output[t, b] = data[t, b] if t < sequence_length[b] else value

    Args:
        value: The number.
    Returns:
        An array of data's shape.
    Example:
        >>> x, length = nd.array([[1, 2], [3, 4]]), nd.array([1, 2])
        >>> nd.SequenceMask(x, length, use_sequence_length=True).asnumpy()
        array([[1., 2.],
               [0., 4.]], dtype=float32)
    """

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
    """The last valid step of each sequence.

        output[b] = data[sequence_length[b] - 1, b]

    Returns:
        (batch, ...).
    Example:
        >>> x, length = nd.array([[1, 2], [3, 4]]), nd.array([1, 2])
        >>> nd.SequenceLast(x, length, use_sequence_length=True).asnumpy()
        array([1., 4.], dtype=float32)
    """

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
    """Reverses the valid steps of each sequence; later steps are unchanged.

        output[t, b] = data[sequence_length[b] - 1 - t, b]

    Args:
        axis: The time axis; only 0 is supported.
    Returns:
        An array of data's shape.
    Example:
        >>> x, length = nd.array([[1, 2], [3, 4]]), nd.array([1, 2])
        >>> nd.SequenceReverse(x, length, use_sequence_length=True).asnumpy()
        array([[1., 4.],
               [3., 2.]], dtype=float32)
    """

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
