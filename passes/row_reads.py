"""Checks that a region of rows reads its reductions only at their own rows.

A region of rows computes its reductions once per row. In a square space a reduction can be broadcast along an axis that
is not its own (`s[i] + s[j]` for row sums s of a square matrix): the shapes agree, but the reader needs the reduction
of another row, so it cannot be in the same region.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..ir.dialects.core import Broadcast, Cast, Pointwise, Reduce, Reshape, Transpose
from ..ir.graph import Node, Value
from ..ir.symbolic import known_same


class Rows(NamedTuple):
    """The space over which reductions iterate, the axes that they reduce, and the channel block of their operands."""

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    block: int = 1


Axes = tuple[int | None, ...]
"""For each dimension of a value, the axis of the space along which it holds reductions; None if it holds none."""


def reads_own_rows(nodes: Sequence[Node], rows: Rows) -> bool:
    """True if every node reads the reductions among `nodes` at its own row. `nodes` are in topological order and
    include the nodes without memory (broadcasts, reshapes) between them."""
    known: dict[Value, Axes] = {}
    for node in nodes:
        axes = _result_axes(node, [known.get(v, (None,) * v.type.rank) for v in node.inputs], rows)
        if axes is None:
            return False
        known.update((v, axes) for v in node.outputs if any(a is not None for a in axes))
    return True


def _result_axes(node: Node, operands: Sequence[Axes], rows: Rows) -> Axes | None:
    """The axes of a node's result; None if it reads reductions of other rows."""
    op = node.op
    space = range(len(rows.shape))
    if isinstance(op, Reduce):
        kept = tuple(None if rows.shape[k] == 1 else k for k in space if k not in op.axes)
        return kept if _matches(operands[0], space) else None
    if all(a is None for axes in operands for a in axes):
        return (None,) * node.outputs[0].type.rank
    if isinstance(op, Pointwise | Cast):
        merged = _merged(operands)
        return merged if merged is not None and _matches(merged, _own_axes(node, rows)) else None
    return _moved(node, operands[0])


def _moved(node: Node, axes: Axes) -> Axes | None:
    """The axes of the result of an index map; None for one that this file does not analyse."""
    op, shape = node.op, node.outputs[0].type.shape
    if isinstance(op, Broadcast):
        source = dict(zip(op.axes, axes, strict=True))
        return tuple(source.get(k) for k in range(len(shape)))
    if isinstance(op, Transpose):
        return tuple(axes[p] for p in op.permutation)
    if isinstance(op, Reshape):  # changes only axes of extent 1: others are not in a region
        kept = iter([a for a, n in zip(axes, node.inputs[0].type.shape, strict=True) if n != 1])
        return tuple(None if n == 1 else next(kept) for n in shape)
    return None


def _merged(operands: Iterable[Axes]) -> Axes | None:
    """The axes of the result of an elementwise node; None if operands disagree."""
    axes = [{a for a in along if a is not None} for along in zip(*operands, strict=True)]
    return tuple(next(iter(f), None) for f in axes) if all(len(f) <= 1 for f in axes) else None


def _matches(axes: Axes, own: Iterable[int | None]) -> bool:
    return all(a is None or a == k for a, k in zip(axes, own, strict=True))


def _own_axes(node: Node, rows: Rows) -> list[int | None]:
    """The axis of the space for each dimension of a result that has the full space, or one element per row."""
    shape = node.outputs[0].type.shape
    if known_same(shape, rows.shape):
        return list(range(len(shape)))
    kept = iter([k for k, n in enumerate(rows.shape) if k not in rows.axes and n != 1])
    return [None if n == 1 else next(kept, None) for n in shape]
