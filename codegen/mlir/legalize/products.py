"""Gives `stablehlo.dot_general` the form that is scheduled: rows by inner axis, times inner axis by columns.

It is what the pass `PlainProducts` does in graphs: modules of other tools have products of any form.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from .builder import Builder, Values


def lower_dot_general(builder: Builder, op: Any) -> Values | None:
    """Transposes and reshapes around a product of two matrices, or of a batch of pairs; None if it is one already."""
    x, y = op.operands
    numbers = builder.stablehlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    x_batch, y_batch = list(numbers.lhs_batching_dimensions), list(numbers.rhs_batching_dimensions)
    x_inner, y_inner = list(numbers.lhs_contracting_dimensions), list(numbers.rhs_contracting_dimensions)
    first = len(x_batch)
    axes = list(range(first))
    is_plain = x_batch == y_batch == axes and (x_inner, y_inner) == ([first + 1], [first])
    if is_plain and first <= 1 and x.type.rank == y.type.rank == first + 2:
        return None
    x_free = [k for k in range(x.type.rank) if k not in (*x_batch, *x_inner)]
    y_free = [k for k in range(y.type.rank) if k not in (*y_batch, *y_inner)]
    matrices = [_extent(x, x_batch)] if x_batch else []
    rows, inner, columns = _extent(x, x_free), _extent(x, x_inner), _extent(y, y_free)
    left = _ordered(builder, x, [*x_batch, *x_free, *x_inner], [*matrices, rows, inner])
    right = _ordered(builder, y, [*y_batch, *y_inner, *y_free], [*matrices, inner, columns])
    result = op.results[0].type
    type = builder.ir.RankedTensorType.get([*matrices, rows, columns], result.element_type)
    axes = list(range(len(matrices)))
    plain = builder.stablehlo.DotDimensionNumbers.get(axes, axes, [len(axes) + 1], [len(axes)])
    product = builder.operation("stablehlo.dot_general", type, [left, right], {"dot_dimension_numbers": plain})
    return [_shaped(builder, product, result.shape)]


def _extent(x: Any, axes: Sequence[int]) -> int:
    return prod(x.type.shape[k] for k in axes)


def _ordered(builder: Builder, x: Any, axes: Sequence[int], shape: Sequence[int]) -> Any:
    """A tensor with its axes in this order, and then of this shape."""
    if list(axes) != sorted(axes):
        type = builder.ir.RankedTensorType.get([x.type.shape[k] for k in axes], x.type.element_type)
        order = {"permutation": builder.ir.DenseI64ArrayAttr.get(list(axes))}
        x = builder.operation("stablehlo.transpose", type, [x], order)
    return _shaped(builder, x, shape)


def _shaped(builder: Builder, x: Any, shape: Sequence[int]) -> Any:
    type = builder.ir.RankedTensorType.get(list(shape), x.type.element_type)
    return x if x.type == type else builder.operation("stablehlo.reshape", type, [x])
