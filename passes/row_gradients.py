"""Gradients of tables as rows: where the gradient of an input is a sum of rows at computed positions, as for a table of
embeddings, the graph can return the rows and their numbers instead of the whole gradient.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from ..ir.dialects.core import Broadcast, Cast, Constant, CoreBuilder, Pointwise, Scatter, without_dead_nodes
from ..ir.graph import Graph, Value
from ..ir.scalar import ScalarOp
from ..ir.types import DType

Piece = tuple[Value, Value]
"""Numbers of rows, and the rows: (..., 1) and (..., *row)."""


def with_row_gradients(joint: Graph, gradients: int, rows: Collection[int]) -> tuple[Graph, tuple[int, ...]]:
    """The graph with gradients replaced by two outputs each, (n,) numbers of rows and (n, *row) rows, whose sum by
    number is the gradient; and the positions of these gradients.

    The last `gradients` outputs before those of checks and those that update inputs are gradients. Those at the
    positions `rows` among them are replaced if they are such sums. A number can occur several times.
    """
    end = joint.num_results
    first = end - gradients
    b = CoreBuilder(joint.name)
    b.inputs, b.nodes = list(joint.inputs), list(joint.nodes)
    results: list[Value] = []
    positions: list[int] = []
    for i, value in enumerate(joint.outputs[first:end]):
        pieces = _pieces(b, value) if i in rows else None
        if pieces:
            results += _joined(b, pieces)
            positions.append(i)
        else:
            results.append(value)
    if not positions:
        return joint, ()
    outputs = (*joint.outputs[:first], *results, *joint.outputs[end:])
    return without_dead_nodes(replace(joint, nodes=tuple(b.nodes), outputs=outputs)), tuple(positions)


def _pieces(b: CoreBuilder, value: Value) -> list[Piece] | None:
    """The pieces whose sum by number is `value`; None if it is no such sum."""
    node = value.node
    if node is None:
        return None
    match node.op:
        case Scatter(op="add", axes=(0,), batch=0) if _is_zero(node.inputs[0]):
            return [(node.inputs[1], node.inputs[2])]
        case Pointwise(op=ScalarOp.ADD):
            parts = [_pieces(b, v) for v in node.inputs]
            return None if None in parts else [piece for part in parts if part is not None for piece in part]
        case Cast(dtype=dtype):
            inner = _pieces(b, node.inputs[0])
            return None if inner is None else [(numbers, b.cast(part, dtype)) for numbers, part in inner]
        case _:
            return None


def _is_zero(value: Value) -> bool:
    node = value.node
    if node is not None and isinstance(node.op, Broadcast):
        return _is_zero(node.inputs[0])
    return node is not None and isinstance(node.op, Constant) and not np.any(node.op.value)


def _joined(b: CoreBuilder, pieces: Sequence[Piece]) -> list[Value]:
    """All pieces as one array of numbers, in int64, and one of rows."""
    numbers: list[Value] = []
    rows: list[Value] = []
    for at, part in pieces:
        count, lead = at.type.size, at.type.rank - 1
        numbers.append(b.cast(b.reshape(at, (count,)), DType.I64))
        rows.append(b.reshape(part, (count, *part.type.shape[lead:])))
    return [parts[0] if len(parts) == 1 else b.concat(parts, 0) for parts in (numbers, rows)]
