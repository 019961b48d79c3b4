"""Operators of `mx.np` that rearrange arrays."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from ...graph import Value
from ...types import Shape
from .operator import Elementwise, Operator, operator
from .parameters import Bool, Int, Ints, OptionalInts, Text
from .shapes import (
    UNKNOWN,
    PartialShape,
    distinct_axes,
    either,
    inferred,
    is_known,
    normalize_axis,
    unify_at,
    unify_permuted,
)

if TYPE_CHECKING:
    from .builder import MxBuilder


class _OfArray(Operator):
    """Shared arguments of several operators.

    Args:
        a: The array.
        order: "C": rows first.
    """

    inputs = ("a",)


@operator("_np_reshape")
class Reshape(_OfArray):
    """The same elements in another shape.

    Args:
        newshape: The shape; one extent can be -1, which is inferred.
    Returns:
        An array of the new shape.
    """

    newshape: Ints
    order: Text = "C"

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        data, out = inputs[0], outputs[0]
        if -1 not in self.newshape:
            unify_at(outputs, 0, self.newshape)
        if data is not None and is_known(out) and data.count(UNKNOWN) == 1:
            rest = prod(n for n in data if n is not UNKNOWN)
            inputs[0] = tuple(either(n, prod(out) // rest if rest else UNKNOWN) for n in data)

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return b.reshape(inputs[0], inferred(inputs[0].type.shape, self.newshape))


_LIKE_REST, _PRODUCT, _SPLIT = -4, -5, -6


def coded(shape: Shape, codes: Shape) -> Shape:
    """The shape of `npx.reshape`: -1 is inferred, -2 keeps an extent, -3 drops an extent of 1, -4 keeps all remaining
    extents, -5 multiplies two, and -6 splits one into the two numbers that follow."""
    target: list[int] = []
    rest, left = list(shape), list(codes)
    while left:
        code = left.pop(0)
        if code >= -1:
            target.append(code)
            rest = rest[1:]
        elif code == -2:
            target.append(rest.pop(0))
        elif code == -3:
            if rest.pop(0) != 1:
                raise ValueError(f"-3 in {codes} drops an extent of {shape} that is not 1")
        elif code == _LIKE_REST:
            target, rest = [*target, *rest], []
        elif code == _PRODUCT:
            target.append(rest.pop(0) * rest.pop(0))
        elif code == _SPLIT:
            extent, first, second = rest.pop(0), left.pop(0), left.pop(0)
            first = extent // second if first == -1 else first
            target += [first, extent // first if second == -1 else second]
        else:
            raise ValueError(f"{codes} has the unknown code {code}")
    return inferred(shape, tuple(target))


@operator("_npx_reshape", aliases=("_npi_reshape",))
class CodedReshape(_OfArray):
    """The same elements in another shape, which can contain codes.

    Args:
        newshape: Extents and codes: -1 is inferred, -2 keeps an extent, -3 drops an extent of 1, -4 keeps all remaining
            extents, -5 multiplies two, and -6 splits one into the two numbers that follow.
        reverse: True to match codes from the last axis.
    Returns:
        An array of the new shape.
    """

    newshape: Ints
    reverse: Bool = False
    order: Text = "C"

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        shape, codes = inputs[0].type.shape, self.newshape
        if not self.reverse:
            return b.reshape(inputs[0], coded(shape, codes))
        flipped = list(codes[::-1])
        for i, code in enumerate(flipped):
            if code == _SPLIT:  # its two numbers now precede it
                flipped[i - 2 : i + 1] = [_SPLIT, flipped[i - 2], flipped[i - 1]]
        return b.reshape(inputs[0], coded(shape[::-1], tuple(flipped))[::-1])


@operator("_np_transpose")
class Transpose(_OfArray):
    """Exchanges axes.

    Args:
        axes: The axis of `a` for each axis of the result; reversed by default.
    Returns:
        An array with permuted axes.
    """

    axes: OptionalInts = None

    def _order(self, rank: int) -> tuple[int, ...]:
        if not self.axes:
            return tuple(range(rank))[::-1]
        if len(self.axes) != rank:
            raise ValueError(f"axes {self.axes} don't match an array of {rank} axes")
        order = tuple(normalize_axis(a, rank) for a in self.axes)
        distinct_axes(order, rank)
        return order

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        known = next((s for s in (inputs[0], outputs[0]) if s is not None), None)
        if known is not None:
            unify_permuted(inputs, outputs, self._order(len(known)))

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return b.transpose(inputs[0], self._order(inputs[0].type.rank))


@operator("_np_squeeze")
class Squeeze(_OfArray):
    """Removes axes of extent 1.

    Args:
        axis: The axes: one, a tuple, or by default all of extent 1.
    Returns:
        An array with fewer axes.
    """

    axis: OptionalInts = None
    probe_extents = (60, 120, 1)

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        shape = inputs[0].type.shape
        of_scalar = not shape and self.axis in ((0,), (-1,))  # MXNet takes a scalar for an array of one axis here
        axes = None if self.axis is None or of_scalar else distinct_axes(self.axis, len(shape))
        if axes is not None and any(shape[a] != 1 for a in axes):
            raise ValueError(f"cannot select an axis to squeeze out which has size not equal to one: {self.axis}")
        return b.squeeze(inputs[0], axes)


@operator("_np_moveaxis")
class MoveAxis(_OfArray):
    """Moves axes to other positions.

    Args:
        source: The positions of the axes.
        destination: Their new positions.
    Returns:
        An array with permuted axes.
    """

    source: Ints
    destination: Ints

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        rank = inputs[0].type.rank
        if len(self.source) != len(self.destination):
            raise ValueError("`source` and `destination` arguments must have the same number of elements")
        source, destination = ([normalize_axis(a, rank) for a in axes] for axes in (self.source, self.destination))
        for axes in (source, destination):
            distinct_axes(axes, rank)
        order = [axis for axis in range(rank) if axis not in source]
        for to, axis in sorted(zip(destination, source, strict=True)):
            order.insert(to, axis)
        return b.transpose(inputs[0], order)


@operator("_np_roll")
class Roll(Elementwise):
    """Moves elements along axes; those beyond the end come back at the start.

    Args:
        shift: The number of positions, or one for each axis.
        axis: The axes; by default the elements move in the flattened array.
    """

    shift: OptionalInts = None
    axis: OptionalInts = None

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        (x,) = inputs
        if not self.shift:
            raise ValueError("shift is required")
        if self.axis is None:
            flat = self._rolled(b, b.reshape(x, (x.type.size,)), self.shift[0], 0)
            return b.reshape(flat, x.type.shape)
        if len(self.shift) not in (1, len(self.axis)):
            raise ValueError(f"shift {self.shift} must have one number, or one for each axis in {self.axis}")
        shifts = self.shift * len(self.axis) if len(self.shift) == 1 else self.shift
        for shift, axis in zip(shifts, self.axis, strict=True):
            x = self._rolled(b, x, shift, normalize_axis(axis, x.type.rank))
        return x

    def _rolled(self, b: MxBuilder, x: Value, shift: int, axis: int) -> Value:
        extent = x.type.shape[axis]
        cut = -shift % extent if extent else 0
        if not cut:
            return x
        return b.concat([b.slice_axis(x, axis, cut, extent), b.slice_axis(x, axis, 0, cut)], axis)


@operator("_npi_flip")
class Flip(Elementwise):
    """Reverses the elements along axes.

    Args:
        axis: The axes.
    """

    axis: Ints

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return b.reverse(inputs[0], distinct_axes(self.axis, inputs[0].type.rank))


@operator("_npi_rot90")
class Rot90(Operator):
    """Rotates a plane by 90 degrees, from the first axis towards the second.

    Args:
        k: The number of rotations.
        axes: The two axes of the plane; 0 and 1 by default.
    Returns:
        The rotated array.
    """

    k: Int = 1
    axes: OptionalInts = None

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        (x,) = inputs
        axes = (0, 1) if self.axes is None else self.axes
        if len(axes) != 2:
            raise ValueError("axes must have two numbers")
        first, second = (normalize_axis(a, x.type.rank) for a in axes)
        if first == second:
            raise ValueError("the axes must be different")
        turns = self.k % 4
        if turns == 2:
            return b.reverse(x, tuple(sorted((first, second))))
        if not turns:
            return x
        order = list(range(x.type.rank))
        order[first], order[second] = second, first
        if turns == 1:
            return b.transpose(b.reverse(x, (second,)), order)
        return b.reverse(b.transpose(x, order), (second,))


@operator("_npi_broadcast_to")
class BroadcastTo(Operator):
    """Repeats an array along axes of extent 1, and along new leading axes.

    Args:
        array: The array.
        shape: The shape; -2 keeps an extent.
    Returns:
        An array of the shape.
    """

    inputs = ("array",)
    shape: Ints = ()

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        shape = inputs[0].type.shape
        missing = len(self.shape) - len(shape)
        own = (1,) * missing + shape
        target = tuple(n if m == -2 else m for m, n in zip(self.shape, own, strict=False))
        if missing < 0 or any(n not in (1, m) for m, n in zip(target, own, strict=True)):
            raise ValueError(f"cannot broadcast an array of shape {shape} to {self.shape}")
        return b.broadcast_to(inputs[0], target)
