"""The memory layout of the operands of a matrix product, which determines whether they are packed or read in place."""

from __future__ import annotations

from itertools import pairwise

from ....ir.kernel import Load
from .describe import ContractionError, GemmShape, extent_of
from .segments import Segment, collapse, offsets, plain_segments, weight_row
from .strides import Located, locate

PACKED_ROWS = 8
"""Rows in a block of a left operand that is packed by rows."""


def operand(shape: GemmShape, load: Load) -> Located:
    """The address of an operand. ContractionError unless it is row-major with affine indices."""
    at = None if load.other is not None else locate(shape.kernel.buffer(load.buffer), load.index)
    if at is None or at.block:
        raise ContractionError(
            f"{shape.kernel.name}: operand {load.buffer} of a matrix product must be row-major with affine indices"
        )
    return at


def reduce_order(shape: GemmShape) -> list[str]:
    """The reduced axes by decreasing stride of the left operand."""
    left = operand(shape, shape.lhs)
    return sorted(shape.inner, key=lambda a: -left.strides.get(a, 0))


def reduction(shape: GemmShape, left: Located, right: Located) -> tuple[Segment, ...]:
    """The segments of the reduction. The axis with the smallest stride of the left operand is innermost, and axes that
    are one flattened axis in both operands are one.
    """
    axes = reduce_order(shape)
    strides = [tuple(at.strides.get(a, 0) for a in axes) for at in (left, right)]
    sizes, (x, w) = collapse(tuple(extent_of(shape.kernel, a) for a in axes), strides)
    outer = zip(offsets(sizes[:-1], x[:-1]), offsets(sizes[:-1], w[:-1]), strict=True)
    return plain_segments(list(outer), [(i * x[-1], i * w[-1]) for i in range(sizes[-1])])


def is_readable_in_place(shape: GemmShape) -> bool:
    """True if the right operand needs no packing: its columns are contiguous, and one stride separates its rows in the
    order in which the segments of the reduction read them.
    """
    left, right = operand(shape, shape.lhs), operand(shape, shape.rhs)
    return right.strides.get(shape.column, 0) == 1 and weight_row(reduction(shape, left, right)) is not None


def is_contiguous_along_rows(shape: GemmShape) -> bool:
    """True if the left operand has its rows next to each other, and steps of the reduction apart."""
    left = operand(shape, shape.lhs)
    rows = [(extent_of(shape.kernel, a), left.strides.get(a, 0)) for a in shape.rows]
    if not rows or rows[-1][1] != 1 or any(outer != inner * n for (_, outer), (n, inner) in pairwise(rows)):
        return False
    return all(left.strides.get(a, 0) >= 8 for a in shape.inner)


def is_contiguous_along_reduction(shape: GemmShape) -> bool:
    """True if both operands are contiguous along the only reduced axis: dot products then need no packing."""
    if len(shape.inner) != 1:
        return False
    left, right = operand(shape, shape.lhs), operand(shape, shape.rhs)
    return left.strides.get(shape.inner[0], 0) == 1 and right.strides.get(shape.inner[0], 0) == 1
