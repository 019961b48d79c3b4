"""Arithmetic of two arrays whose extents of 1 stretch, and operators that stretch one array."""

from __future__ import annotations

from ...graph import Value
from ...types import Shape
from .arithmetic import BINARY, Binary
from .builder import MxBuilder
from .operator import Operator, declare, operator
from .parameters import Ints, OptionalInts
from .shapes import PartialShape, broadcast_partial, distinct_axes, normalize_axis, unify_at

# name, function, aliases
_TABLE: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("broadcast_add", "add", ("_sparse_broadcast_add", "_sparse_broadcast_plus", "broadcast_plus")),
    ("broadcast_sub", "sub", ("_sparse_broadcast_minus", "_sparse_broadcast_sub", "broadcast_minus")),
    ("broadcast_mul", "mul", ("_sparse_broadcast_mul",)),
    ("broadcast_div", "div", ("_sparse_broadcast_div",)),
    ("broadcast_mod", "mod", ()),
    ("broadcast_power", "power", ()),
    ("broadcast_maximum", "maximum", ("_npi_maximum",)),
    ("broadcast_minimum", "minimum", ("_npi_minimum",)),
    ("broadcast_hypot", "hypot", ()),
    ("broadcast_equal", "equal", ()),
    ("broadcast_not_equal", "not_equal", ()),
    ("broadcast_greater", "greater", ()),
    ("broadcast_greater_equal", "greater_equal", ()),
    ("broadcast_lesser", "lesser", ()),
    ("broadcast_lesser_equal", "lesser_equal", ()),
    ("broadcast_logical_and", "logical_and", ()),
    ("broadcast_logical_or", "logical_or", ()),
    ("broadcast_logical_xor", "logical_xor", ()),
)


class BroadcastOperator(Operator):
    """A function of two arrays that broadcast to one shape."""

    inputs = ("lhs", "rhs")

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        left, right = inputs
        if left is not None and right is not None:
            unify_at(outputs, 0, broadcast_partial(left, right))


def _declare(name: str, function: Binary, aliases: tuple[str, ...]) -> None:
    def decompose(self: Operator, b: MxBuilder, *inputs: Value) -> Value:
        return function(b, *b.broadcast_pair(*inputs))

    doc = f"{name.removeprefix('broadcast_')} of two arrays, element by element; extents of 1 stretch."
    declare(name, BroadcastOperator, {"__doc__": doc, "decompose": decompose}, aliases)


for _name, _function, _aliases in _TABLE:
    _declare(_name, BINARY[_function], _aliases)


@operator("broadcast_to")
class BroadcastTo(Operator):
    """Stretches extents of 1 to `shape`; a 0 there keeps the extent."""

    shape: Ints = ()

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        given = inputs[0].type.shape
        fits = len(given) == len(self.shape) and all(
            m in (1, n) or not n for m, n in zip(given, self.shape, strict=True)
        )
        if not fits:
            raise ValueError(f"cannot broadcast {given} to {self.shape}")
        return b.broadcast_to(inputs[0], tuple(n or m for n, m in zip(self.shape, given, strict=True)))


@operator("broadcast_axis", aliases=("broadcast_axes",))
class BroadcastAxis(Operator):
    """Stretches the given axes, of extent 1, to the given sizes."""

    axis: Ints = ()
    size: Ints = ()

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        shape = list(inputs[0].type.shape)
        if len(self.axis) != len(self.size) or any(n < 0 for n in self.size):
            raise ValueError(f"axis={self.axis} and size={self.size} must name each axis with an extent")
        distinct_axes(self.axis, len(shape))
        for axis, size in zip(self.axis, self.size, strict=True):
            if shape[normalize_axis(axis, len(shape))] != 1:
                raise ValueError(f"axis {axis} of {inputs[0].type.shape} has not the extent 1")
            shape[normalize_axis(axis, len(shape))] = size
        return b.broadcast_to(inputs[0], tuple(shape))


@operator("broadcast_like")
class BroadcastLike(Operator):
    """Stretches the left array to the shape of the right, or only the given axes of it."""

    inputs = ("lhs", "rhs")
    own_dtypes = frozenset(("rhs",))
    lhs_axes: OptionalInts = None
    rhs_axes: OptionalInts = None

    def check(self) -> None:
        """Axes count where both sides name some."""
        if self.lhs_axes is None or self.rhs_axes is None:
            return
        if not self.lhs_axes or len(self.lhs_axes) != len(self.rhs_axes):
            given = f"lhs_axes={self.lhs_axes} and rhs_axes={self.rhs_axes}"
            raise ValueError(f"broadcast_like: {given} must name as many axes, at least one")

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        if self.lhs_axes is None and inputs[1] is None:
            inputs[1] = outputs[0]
        x, like = inputs
        if x is None or like is None:
            return
        wanted = tuple(n or (m if m > 1 else 0) for m, n in zip(x, self._shape(x, like), strict=True))
        if any(m and n and m not in (1, n) for m, n in zip(x, wanted, strict=True)):
            raise ValueError(f"lhs {x} does not broadcast to {wanted}")
        unify_at(outputs, 0, wanted)

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x, like = inputs
        return b.broadcast_to(x, self._shape(x.type.shape, like.type.shape))

    def _shape(self, given: Shape, like: Shape) -> Shape:
        if self.lhs_axes is None or self.rhs_axes is None:
            if len(given) != len(like):
                raise ValueError(f"lhs {given} and rhs {like} must have as many axes")
            return like
        shape = list(given)
        for left, right in zip(self.lhs_axes, self.rhs_axes, strict=True):
            shape[normalize_axis(left, len(shape))] = like[normalize_axis(right, len(like))]
        return tuple(shape)
