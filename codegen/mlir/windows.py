"""Cuts off what windows leave over at the end of an axis."""

from __future__ import annotations

from typing import Any

from ..stablehlo.upstream import Upstream, find_all

_GENERIC = "linalg.generic"


def cut_windows(upstream: Upstream, module: Any) -> None:
    """Let generic operations read all of their operands. If a loop over windows has length 1, upstream drops it, and
    takes the extent of the operand for the extent of the window."""
    for op in find_all(module.operation, (_GENERIC,)):
        _cut_operands(upstream.ir, op)


def _cut_operands(ir: Any, op: Any) -> None:
    maps = [attribute.value for attribute in op.attributes["indexing_maps"]]
    if all(isinstance(axis, ir.AffineDimExpr | ir.AffineConstantExpr) for map in maps for axis in map.results):
        return
    lengths: dict[int, int] = {}
    for map, operand in zip(maps, op.operands, strict=True):
        for axis, extent in zip(map.results, operand.type.shape, strict=True):
            if isinstance(axis, ir.AffineDimExpr):
                lengths[axis.position] = min(extent, lengths.get(axis.position, extent))
    for number, map in enumerate(maps):
        operand = op.operands[number]
        shape = list(operand.type.shape)
        used = [_used(ir, axis, extent, lengths) for axis, extent in zip(map.results, shape, strict=True)]
        if used != shape:
            op.operands[number] = _slice(ir, op, operand, used)


def _used(ir: Any, axis: Any, extent: int, lengths: dict[int, int]) -> int:
    """How many elements along an axis of an operand are read, from the first one."""
    last = _last(ir, axis, lengths) if isinstance(axis, ir.AffineAddExpr) else None
    return extent if last is None else min(extent, last + 1)


def _last(ir: Any, axis: Any, lengths: dict[int, int]) -> int | None:
    """The last index of an axis that loops of these lengths reach; None if it is not known."""
    if isinstance(axis, ir.AffineConstantExpr):
        return axis.value if axis.value >= 0 else None
    if isinstance(axis, ir.AffineDimExpr):
        return lengths[axis.position] - 1 if lengths.get(axis.position, 0) > 0 else None
    if not isinstance(axis, ir.AffineAddExpr | ir.AffineMulExpr):
        return None
    left, right = _last(ir, axis.lhs, lengths), _last(ir, axis.rhs, lengths)
    if left is None or right is None:
        return None
    return left + right if isinstance(axis, ir.AffineAddExpr) else left * right


def _slice(ir: Any, op: Any, operand: Any, shape: list[int]) -> Any:
    """The first elements of a tensor along each axis."""
    zeros, ones = [0] * len(shape), [1] * len(shape)
    attributes = {
        "static_offsets": ir.DenseI64ArrayAttr.get(zeros),
        "static_sizes": ir.DenseI64ArrayAttr.get(shape),
        "static_strides": ir.DenseI64ArrayAttr.get(ones),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 0, 0, 0]),
    }
    type = ir.RankedTensorType.get(shape, operand.type.element_type)
    with ir.InsertionPoint(op), op.location:
        return ir.Operation.create("tensor.extract_slice", [type], [operand], attributes).result
