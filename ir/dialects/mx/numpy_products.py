"""Products and sums of products of `mx.np`: dot, matmul, tensordot, einsum."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from ...graph import Value
from .operator import Operator, operator
from .parameters import Int, Ints, Text
from .shapes import normalize_axis

if TYPE_CHECKING:
    from .builder import MxBuilder


class _Product(Operator):
    """A product of two arrays.

    Args:
        a: The left array.
        b: The right array.
        axes: The number of axes that are summed: the last ones of `a` and the first ones of `b`.
        a_axes_summed: The axes of `a` that are summed.
        b_axes_summed: The axes of `b` that are summed.
    Returns:
        The product.
    """

    inputs = ("a", "b")


def summed(b: MxBuilder, x: Value, y: Value, left: Sequence[int], right: Sequence[int]) -> Value:
    """The sum of products over these axes of x and of y. ValueError if their extents differ."""
    left, right = [normalize_axis(a, x.type.rank) for a in left], [normalize_axis(a, y.type.rank) for a in right]
    extents = [x.type.shape[a] for a in left], [y.type.shape[a] for a in right]
    if extents[0] != extents[1]:
        raise ValueError(
            f"shapes {x.type.shape} and {y.type.shape} not aligned: extents {extents[0]} and {extents[1]} are summed"
        )
    if not left:
        outer = b.broadcast(x, (*x.type.shape, *y.type.shape), range(x.type.rank))
        return b.mul(outer, b.broadcast_to(y, outer.type.shape))
    return b.dot(x, y, (), (), tuple(left), tuple(right))


@operator("_np_dot")
class Dot(_Product):
    """The product of two arrays: a sum over the last axis of `a` and the second to last of `b`, or its only one."""

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x, y = inputs
        if not x.type.rank or not y.type.rank:
            return b.mul(*b.broadcast_pair(x, y))
        return summed(b, x, y, (-1,), (max(y.type.rank - 2, 0),))


@operator("_npi_matmul")
class Matmul(_Product):
    """Products of matrices in the last two axes; the other axes broadcast."""

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x, y = inputs
        if not x.type.rank or not y.type.rank:
            raise ValueError("Input operand does not have enough dimensions")
        if y.type.rank <= 2:  # one product for all rows
            return summed(b, x, y, (-1,), (max(y.type.rank - 2, 0),))
        vector = x.type.rank == 1
        if vector:
            x = b.expand_dims(x, 0)
        if x.type.shape[-1] != y.type.shape[-2]:
            raise ValueError(f"shapes {x.type.shape} and {y.type.shape} do not fit")
        rank = max(x.type.rank, y.type.rank)
        stacks = [(1,) * (rank - v.type.rank) + v.type.shape[:-2] for v in (x, y)]
        pairs = list(zip(*stacks, strict=True))
        if any(m != n and 1 not in (m, n) for m, n in pairs):
            raise ValueError(f"shapes {x.type.shape} and {y.type.shape} do not broadcast")
        stack = tuple(n if m == 1 else m for m, n in pairs)
        x, y = (b.broadcast_to(v, (*stack, *v.type.shape[-2:])) for v in (x, y))
        z = b.matmul(x, y)
        return b.reshape(z, (*stack, z.type.shape[-1])) if vector else z


@operator("_npi_tensordot")
class TensorDot(_Product):
    """A sum of products over pairs of axes."""

    a_axes_summed: Ints
    b_axes_summed: Ints

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x, y = inputs
        return summed(b, x, y, self.a_axes_summed, self.b_axes_summed)


@operator("_npi_tensordot_int_axes")
class TensorDotOfInt(_Product):
    """A sum of products over the last axes of `a` and the first ones of `b`."""

    axes: Int

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x, y = inputs
        if not 0 <= self.axes <= min(x.type.rank, y.type.rank):
            raise ValueError(f"axes={self.axes} of arrays of {x.type.rank} and {y.type.rank} axes")
        return summed(b, x, y, range(x.type.rank - self.axes, x.type.rank), range(self.axes))


@operator("_npi_einsum")
class Einsum(Operator):
    """Sums of products in Einstein's notation. Of three or more arrays, pairs are multiplied in the order that needs
    the fewest multiplications of all that always take the best pair.

    Args:
        data: The arrays.
        subscripts: The axes of each array and of the result: "ij,jk->ik".
        optimize: Unused: the order is always optimised.
    Returns:
        The sum of products.
    """

    inputs = ("data*",)
    num_args: Int
    subscripts: Text = ""
    optimize: Int = 0

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        terms, result = parsed(self.subscripts, [x.type.shape for x in inputs])
        extents = _extents(self.subscripts, terms, [x.type.shape for x in inputs])
        operands = [_diagonal(b, x, term, extents) for x, term in zip(inputs, terms, strict=True)]
        while len(operands) > 1:
            i, j = _cheapest(operands, result, extents)
            later = [term for k, (_, term) in enumerate(operands) if k not in (i, j)]
            kept = set(result).union(*later)
            pair = _multiplied(b, operands[i], operands[j], kept, extents)
            operands = [o for k, o in enumerate(operands) if k not in (i, j)] + [pair]
        x, term = _reduced(b, operands[0], set(result))
        return b.transpose(x, [term.index(axis) for axis in result])


Operand = tuple[Value, str]


def parsed(subscripts: str, shapes: Sequence[Sequence[int]]) -> tuple[list[str], str]:
    """The axes of each operand and of the result. ValueError for a text that does not fit the operands."""
    text = subscripts.replace(" ", "")
    inputs, arrow, result = text.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(shapes):
        raise ValueError(f"{subscripts!r} has {len(terms)} operands, {len(shapes)} were passed")
    widest = 0
    for i, (term, shape) in enumerate(zip(terms, shapes, strict=True)):
        if "..." in term:
            count = len(shape) - (len(term) - 3)
            if count < 0:
                raise ValueError(f"{term!r} has more axes than an operand of shape {tuple(shape)}")
            widest = max(widest, count)
            terms[i] = term.replace("...", "".join(map(chr, range(count - 1, -1, -1))))
        if len(terms[i]) != len(shape):
            raise ValueError(f"{term!r} does not name the axes of an operand of shape {tuple(shape)}")
    ellipsis = "".join(map(chr, range(widest - 1, -1, -1)))
    if not arrow:
        letters = "".join(terms)
        once = sorted(c for c in set(letters) if letters.count(c) == 1 and c.isalpha())
        return terms, ellipsis + "".join(once)
    result = result.replace("...", ellipsis)
    missing = [c for c in result if not any(c in term for term in terms)]
    if missing or len(set(result)) != len(result):
        raise ValueError(f"the result of {subscripts!r} must name axes of operands once")
    return terms, result


def _extents(subscripts: str, terms: Sequence[str], shapes: Sequence[Sequence[int]]) -> dict[str, int]:
    extents: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for axis, extent in zip(term, shape, strict=True):
            known = extents.setdefault(axis, extent)
            if known == 1:
                extents[axis] = extent
            elif extent not in (1, known):
                raise ValueError(f"an axis of {subscripts!r} has the extents {known} and {extent}")
    return extents


def _diagonal(b: MxBuilder, x: Value, term: str, extents: dict[str, int]) -> Operand:
    """The operand with each axis once: the diagonal of axes of one name, and full extents."""
    from .shape_ops import Diag

    while len(set(term)) < len(term):
        axis = next(c for c in term if term.count(c) > 1)
        first, second = term.index(axis), term.rindex(axis)
        x = Diag(k=0, axis1=first, axis2=second).diagonal(b, x)
        term = term[:first] + term[first + 1 : second] + term[second + 1 :] + axis
    return b.broadcast_to(x, tuple(extents[axis] for axis in term)), term


def _reduced(b: MxBuilder, operand: Operand, kept: set[str]) -> Operand:
    """The operand summed over the axes that are not kept."""
    x, term = operand
    axes = tuple(i for i, axis in enumerate(term) if axis not in kept)
    return (b.sum(x, axes), "".join(a for a in term if a in kept)) if axes else operand


def _cheapest(operands: Sequence[Operand], result: str, extents: dict[str, int]) -> tuple[int, int]:
    """The pair of operands whose product needs the fewest multiplications."""
    pairs = [(i, j) for j in range(len(operands)) for i in range(j)]
    return min(pairs, key=lambda pair: prod(extents[a] for a in {*operands[pair[0]][1], *operands[pair[1]][1]}))


def _multiplied(b: MxBuilder, left: Operand, right: Operand, kept: set[str], extents: dict[str, int]) -> Operand:
    """The product of two operands, summed over axes that are not kept."""
    (x, s), (y, t) = _reduced(b, left, kept | set(right[1])), _reduced(b, right, kept | set(left[1]))
    batch = [a for a in s if a in t and a in kept]
    contracted = [a for a in s if a in t and a not in kept]
    free = "".join(a for a in s if a not in t), "".join(a for a in t if a not in s)
    if not contracted:
        term = "".join(batch) + free[0] + free[1]
        shape = tuple(extents[a] for a in term)

        def spread(v: Value, own: str) -> Value:
            order = sorted(range(len(own)), key=lambda i: term.index(own[i]))
            return b.broadcast(b.transpose(v, order), shape, sorted(term.index(a) for a in own))

        return b.mul(spread(x, s), spread(y, t)), term
    places = [tuple(term.index(a) for a in axes) for axes in (batch, contracted) for term in (s, t)]
    return b.dot(x, y, places[0], places[1], places[2], places[3]), "".join(batch) + free[0] + free[1]


@operator("_npi_kron")
class Kron(_Product):
    """The Kronecker product: blocks of `b`, multiplied by the elements of `a`."""

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        rank = max(v.type.rank for v in inputs)
        x, y = (b.reshape(v, (1,) * (rank - v.type.rank) + v.type.shape) for v in inputs)
        pairs = list(zip(x.type.shape, y.type.shape, strict=True))
        shape = tuple([n for pair in pairs for n in pair])
        left = b.broadcast(x, shape, range(0, 2 * rank, 2))
        right = b.broadcast(y, shape, range(1, 2 * rank, 2))
        return b.reshape(b.mul(left, right), tuple([m * n for m, n in pairs]))


@operator("_npi_cross")
class Cross(_Product):
    """Cross products of vectors of 2 or 3 elements along an axis; of two vectors of 2 elements the third element alone.

    Args:
        axisa: The axis of the vectors in `a`.
        axisb: The axis of the vectors in `b`.
        axisc: The axis of the vectors in the result.
    """

    axisa: Int = -1
    axisb: Int = -1
    axisc: Int = -1

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x, y = (_parts(b, v, axis) for v, axis in zip(inputs, (self.axisa, self.axisb), strict=True))

        def minor(i: int, j: int) -> Value:
            left, right = _product(b, x, i, y, j), _product(b, x, j, y, i)
            missing = left if right is None else right
            assert missing is not None
            zero = b.full_like(missing, 0)
            return b.sub(zero if left is None else left, zero if right is None else right)

        if len(x) == len(y) == 2:
            return minor(0, 1)
        parts = [minor(1, 2), minor(2, 0), minor(0, 1)]
        axis = normalize_axis(self.axisc, parts[0].type.rank + 1)
        return b.concat([b.expand_dims(p, axis) for p in parts], axis)


def _parts(b: MxBuilder, x: Value, axis: int) -> list[Value]:
    """The elements of vectors along an axis."""
    axis = normalize_axis(axis, x.type.rank)
    count = x.type.shape[axis]
    if count not in (2, 3):
        raise ValueError("incompatible dimensions for cross product\n(dimension must be 2 or 3)")
    shape = (*x.type.shape[:axis], *x.type.shape[axis + 1 :])
    starts = [tuple(k if i == axis else 0 for i in range(x.type.rank)) for k in range(count)]
    ends = [tuple(k + 1 if i == axis else n for i, n in enumerate(x.type.shape)) for k in range(count)]
    return [b.reshape(b.slice(x, start, end), shape) for start, end in zip(starts, ends, strict=True)]


def _product(b: MxBuilder, x: Sequence[Value], i: int, y: Sequence[Value], j: int) -> Value | None:
    """x[i] * y[j]; None if one of them is the missing third element, which is 0."""
    return b.mul(*b.broadcast_pair(x[i], y[j])) if i < len(x) and j < len(y) else None
