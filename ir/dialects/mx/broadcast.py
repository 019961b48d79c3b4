"""Arithmetic of two arrays with broadcasting, and operators that broadcast one array."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...graph import Value
from .arithmetic import BINARY, FORMULAS, Binary
from .operator import Operator, declare, operator
from .parameters import Ints, OptionalInts
from .shapes import UNKNOWN, E, Extent, PartialShape, agree, broadcast_partial, distinct_axes, normalize_axis, unify_at

if TYPE_CHECKING:
    from .builder import MxBuilder

# name, function, result of [[1, 4]] and [[1], [2]], aliases
_TABLE: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    (
        "broadcast_add",
        "add",
        "[[2.0, 5.0], [3.0, 6.0]]",
        ("_sparse_broadcast_add", "_sparse_broadcast_plus", "broadcast_plus"),
    ),
    (
        "broadcast_sub",
        "sub",
        "[[0.0, 3.0], [-1.0, 2.0]]",
        ("_sparse_broadcast_minus", "_sparse_broadcast_sub", "broadcast_minus"),
    ),
    ("broadcast_mul", "mul", "[[1.0, 4.0], [2.0, 8.0]]", ("_sparse_broadcast_mul",)),
    ("broadcast_div", "div", "[[1.0, 4.0], [0.5, 2.0]]", ("_sparse_broadcast_div",)),
    ("broadcast_mod", "mod", "[[0.0, 0.0], [1.0, 0.0]]", ()),
    ("broadcast_power", "power", "[[1.0, 4.0], [1.0, 16.0]]", ()),
    ("broadcast_maximum", "maximum", "[[1.0, 4.0], [2.0, 4.0]]", ("_npi_maximum",)),
    ("broadcast_minimum", "minimum", "[[1.0, 1.0], [1.0, 2.0]]", ("_npi_minimum",)),
    ("broadcast_hypot", "hypot", "", ()),
    ("broadcast_equal", "equal", "[[1.0, 0.0], [0.0, 0.0]]", ()),
    ("broadcast_not_equal", "not_equal", "[[0.0, 1.0], [1.0, 1.0]]", ()),
    ("broadcast_greater", "greater", "[[0.0, 1.0], [0.0, 1.0]]", ()),
    ("broadcast_greater_equal", "greater_equal", "[[1.0, 1.0], [0.0, 1.0]]", ()),
    ("broadcast_lesser", "lesser", "[[0.0, 0.0], [1.0, 0.0]]", ()),
    ("broadcast_lesser_equal", "lesser_equal", "[[1.0, 0.0], [1.0, 0.0]]", ()),
    ("broadcast_logical_and", "logical_and", "[[1.0, 1.0], [1.0, 1.0]]", ()),
    ("broadcast_logical_or", "logical_or", "[[1.0, 1.0], [1.0, 1.0]]", ()),
    ("broadcast_logical_xor", "logical_xor", "[[0.0, 0.0], [0.0, 0.0]]", ()),
)


class BroadcastOperator(Operator):
    """A function of two arrays that broadcast to one shape.

    Args:
        lhs: The left array.
        rhs: The right array, with as many axes as lhs. Where the extents differ, one of them is 1.
    Returns:
        An array with the larger extent of both along each axis.
    """

    inputs = ("lhs", "rhs")

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        left, right = inputs
        if left is not None and right is not None:
            unify_at(outputs, 0, broadcast_partial(left, right))


def _declare(name: str, function: str, result: str, aliases: tuple[str, ...]) -> None:
    apply: Binary = BINARY[function]
    with_number: Binary = BINARY.get(f"{function}_by_number", apply)

    def decompose(self: Operator, b: MxBuilder, *inputs: Value) -> Value:
        chosen = apply if inputs[1].type.shape else with_number  # arithmetic passes a number as an array of shape ()
        return chosen(b, *b.broadcast_pair(*inputs))

    formula = FORMULAS[function].format(x="lhs", y="rhs")
    doc = f"Combines two arrays, element by element; axes of extent 1 are repeated.\n\n    output = {formula}"
    if result:
        call = f"nd.{name}(nd.array([[1, 4]]), nd.array([[1], [2]]))"
        doc += f"\n\nExample:\n    >>> {call}.asnumpy().tolist()\n    {result}"
    declare(name, BroadcastOperator, {"__doc__": doc, "decompose": decompose}, aliases)


for _row in _TABLE:
    _declare(*_row)


@operator("broadcast_to")
class BroadcastTo(Operator):
    """Repeats data along axes of extent 1 to a shape.

    Args:
        shape: The shape, with as many axes as data. 0 keeps an extent.
    Returns:
        An array of that shape.
    Example:
        >>> nd.broadcast_to(nd.array([[1, 2]]), shape=(2, 0)).asnumpy()
        array([[1., 2.],
               [1., 2.]], dtype=float32)
    """

    extent_parameters = ("shape",)
    shape: Ints = ()

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        shape = inputs[0].type.shape
        fits = len(shape) == len(self.shape) and all(
            m in (1, n) or not n for m, n in zip(shape, self.shape, strict=True)
        )
        if not fits:
            raise ValueError(f"cannot broadcast {shape} to {self.shape}")
        return b.broadcast_to(inputs[0], tuple(n or m for n, m in zip(self.shape, shape, strict=True)))


@operator("broadcast_axis", aliases=("broadcast_axes",))
class BroadcastAxis(Operator):
    """Repeats data along axes of extent 1.

    Args:
        axis: The axes.
        size: The new extent of each of them.
    Returns:
        An array of data's shape with these extents.
    Example:
        >>> nd.broadcast_axis(nd.array([[1, 2]]), axis=0, size=2).asnumpy()
        array([[1., 2.],
               [1., 2.]], dtype=float32)
    """

    axis: Ints = ()
    size: Ints = ()

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        shape = list(inputs[0].type.shape)
        if len(self.axis) != len(self.size) or any(n < 0 for n in self.size):
            raise ValueError(f"axis={self.axis} and size={self.size} must have one length and no negative size")
        distinct_axes(self.axis, len(shape))
        for axis, size in zip(self.axis, self.size, strict=True):
            if shape[normalize_axis(axis, len(shape))] != 1:
                raise ValueError(f"axis {axis} of {inputs[0].type.shape} does not have extent 1")
            shape[normalize_axis(axis, len(shape))] = size
        return b.broadcast_to(inputs[0], tuple(shape))


@operator("broadcast_like")
class BroadcastLike(Operator):
    """Repeats an array, or a scalar, along axes of extent 1 to the shape of another array.

    Args:
        lhs: The array.
        rhs: The array with the target shape.
        lhs_axes: The axes of lhs to repeat; all by default.
        rhs_axes: The axes of rhs whose extents they get.
    Returns:
        An array with the elements of lhs.
    Example:
        >>> nd.broadcast_like(nd.array([[1, 2]]), nd.zeros((2, 2))).asnumpy()
        array([[1., 2.],
               [1., 2.]], dtype=float32)
    """

    inputs = ("lhs", "rhs")
    own_dtypes = frozenset(("rhs",))
    lhs_axes: OptionalInts = None
    rhs_axes: OptionalInts = None

    def check(self) -> None:
        """If both are passed, lhs_axes and rhs_axes have the same length."""
        if self.lhs_axes is None or self.rhs_axes is None:
            return
        if not self.lhs_axes or len(self.lhs_axes) != len(self.rhs_axes):
            axes = f"lhs_axes={self.lhs_axes} and rhs_axes={self.rhs_axes}"
            raise ValueError(f"broadcast_like: {axes} must have the same length, at least 1")

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        if self.lhs_axes is None and inputs[1] is None:
            inputs[1] = outputs[0]
        x, like = inputs
        if x is None or like is None:
            return
        shape = self._shape(x, like)
        target = tuple(map(_stretched, x or (1,) * len(shape), shape))
        if not all(m == 1 or agree(m, n) for m, n in zip(x, target, strict=False)):
            raise ValueError(f"lhs {x} does not broadcast to {target}")
        unify_at(outputs, 0, target)

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x, like = inputs
        return b.broadcast_to(x, self._shape(x.type.shape, like.type.shape))

    def _shape(self, own: tuple[E, ...], like: tuple[E, ...]) -> tuple[E, ...]:
        if self.lhs_axes is None or self.rhs_axes is None:
            if own and len(own) != len(like):
                raise ValueError(f"lhs {own} and rhs {like} must have the same number of axes")
            return like
        shape = list(own)
        for left, right in zip(self.lhs_axes, self.rhs_axes, strict=True):
            shape[normalize_axis(left, len(shape))] = like[normalize_axis(right, len(like))]
        return tuple(shape)


def _stretched(m: Extent, n: Extent) -> Extent:
    """The extent of a result where m is broadcast to n: an extent other than 1 stays if n is unknown."""
    return m if n is UNKNOWN and m != 1 else n
