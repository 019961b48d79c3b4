"""The formats that each primitive reads and writes, with their costs: the table from which layouts are chosen.

    choice = Choice(operands, result, cost)         one way to run a node
    choices_of(node, blocked)                       all of them, for a target with this blocked layout

ROWS is row-major memory. BLOCKS is the target's `BlockedLayout`: it stores the channels of a tensor (N, C, *spatial) in
blocks, and has the costs. Costs common to all choices of a node are omitted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from math import prod

from ..ir.dialects.core import (
    Broadcast,
    Cast,
    Concat,
    Constant,
    Conv,
    ConvWeightGradient,
    Iota,
    Pad,
    Pointwise,
    Reduce,
    ReduceWindow,
    Relayout,
    Reverse,
    SelectAndScatter,
    Slice,
    Transpose,
)
from ..ir.graph import Node, Op
from ..ir.lazy_dataclass import dataclass
from ..ir.scalar import ReduceOp
from ..ir.target import BlockedLayout
from ..ir.types import TensorType


class Format(Enum):
    """How a value is stored."""

    ROWS = "rows"
    BLOCKS = "blocks"

    __hash__ = object.__hash__


ROWS, BLOCKS = Format.ROWS, Format.BLOCKS


@dataclass(frozen=True, slots=True)
class Choice:
    """The formats in which a node reads its operands and writes its results.

    An operand with format None is read in either format, through an index map. A result with format None has no memory:
    its readers read the operands.
    """

    operands: tuple[Format | None, ...]
    result: Format | None = ROWS
    cost: int = 0


def choices_of(node: Node, blocked: BlockedLayout) -> Sequence[Choice]:
    """The ways to run `node`, ROWS first; never empty."""
    rule = LAYOUT_RULES.get(type(node.op))
    return rule(node, blocked) if rule is not None else (_in_rows(node),)


def _in_rows(node: Node, cost: int = 0) -> Choice:
    return Choice((ROWS,) * len(node.inputs), ROWS, cost)


def _virtual(node: Node, blocked: BlockedLayout) -> Sequence[Choice]:
    return (Choice((None,) * len(node.inputs), None),)


def _conv(node: Node, blocked: BlockedLayout) -> Sequence[Choice]:
    """Kernels write blocks: writing rows takes a second pass, which costs more than a relayout. They read blocks,
    except few channels (an image), which in blocks would be mostly padding, and other dtypes.
    """
    assert isinstance(node.op, Conv)
    x, out = node.inputs[0].type, node.outputs[0].type
    if node.op.batch_groups != 1 or out.rank < 3 or out.dtype not in blocked.dtypes:
        return (_in_rows(node),)
    data = BLOCKS if blocked.is_read(x) else ROWS
    return (Choice((data, data if blocked.weights else ROWS), BLOCKS),)


def _conv_weight_gradient(node: Node, blocked: BlockedLayout) -> Sequence[Choice]:
    """Kernels read blocks, except few channels of the data, and store the gradient as convolutions read the weights.
    Where blocks are channels-last, they can also store rows, element by element."""
    x, cotangent = (v.type for v in node.inputs)
    if not blocked.is_computed(cotangent):
        return (_in_rows(node),)
    data = BLOCKS if blocked.is_read(x) else ROWS
    choice = Choice((data, BLOCKS), data if blocked.weights else ROWS)
    if choice.result is ROWS or blocked.block is not None:
        return (choice,)
    return choice, Choice((data, BLOCKS), ROWS, blocked.across * node.outputs[0].type.size)


def _same_format(node: Node, blocked: BlockedLayout) -> Sequence[Choice]:
    if not blocked.is_computed(node.outputs[0].type):
        return (_in_rows(node),)
    return _in_rows(node), Choice((BLOCKS,) * len(node.inputs), BLOCKS)


def _cast(node: Node, blocked: BlockedLayout) -> Sequence[Choice]:
    dtypes = {node.inputs[0].type.dtype, node.outputs[0].type.dtype}
    return _same_format(node, blocked) if dtypes <= blocked.stored else (_in_rows(node),)


def _window(node: Node, blocked: BlockedLayout) -> Sequence[Choice]:
    """Blocks are possible if the window slides only over spatial axes."""
    assert isinstance(node.op, ReduceWindow)
    return _same_format(node, blocked) if _slides_over_space(node.op) else (_in_rows(node),)


def _slides_over_space(op: ReduceWindow | SelectAndScatter) -> bool:
    return op.window[:2] == (1, 1) and op.strides[:2] == (1, 1) and op.padding[:2] == ((0, 0), (0, 0))


def _select(node: Node, blocked: BlockedLayout) -> Sequence[Choice]:
    """Windows over space are vectors of channels in blocks; in rows each window is a loop over elements."""
    assert isinstance(node.op, SelectAndScatter)
    x, cotangent = (v.type for v in node.inputs)
    per_tap = blocked.window_gradient
    if per_tap is None or not _slides_over_space(node.op) or x.rank < 3 or x.dtype not in blocked.dtypes:
        return (_in_rows(node),)
    in_rows = _in_rows(node, per_tap * prod(node.op.window) * cotangent.size)
    return in_rows, Choice((BLOCKS, BLOCKS), BLOCKS)


def _concat(node: Node, blocked: BlockedLayout) -> Sequence[Choice]:
    """Blocks are possible along channels if every operand except the last fills its blocks."""
    assert isinstance(node.op, Concat)
    block = blocked.block or 1
    fills = node.op.axis == 1 and all(v.type.shape[1] % block == 0 for v in node.inputs[:-1])
    return _same_format(node, blocked) if fills else (_in_rows(node),)


_EXACT = frozenset((ReduceOp.MAX, ReduceOp.MIN, ReduceOp.AND, ReduceOp.OR))


def _reduce(node: Node, blocked: BlockedLayout) -> Sequence[Choice]:
    """The rounding of a sum depends on the order of memory, and so on the format. Therefore sums read blocks only when
    each sum stays in one lane: they reduce all spatial axes and no channels, like pooling (for each image) and batch
    norm (over all images). Other reductions read blocks along any axes.
    """
    assert isinstance(node.op, Reduce)
    x, axes = node.inputs[0].type, node.op.axes
    space = tuple(range(2, x.rank))
    if x.rank < 3 or (node.op.op not in _EXACT and axes not in (space, (0, *space))):
        return (_in_rows(node),)
    across = 1 not in axes and _last_axis(x, [k for k in range(x.rank) if k not in axes]) != 1
    return _in_rows(node), Choice((BLOCKS,), ROWS, blocked.across * x.size * across)


def _transpose(node: Node, blocked: BlockedLayout) -> Sequence[Choice]:
    assert isinstance(node.op, Transpose)
    x = node.inputs[0].type
    last = _last_axis(x, node.op.permutation)
    in_rows = _in_rows(node, blocked.across * x.size * (last != _last_axis(x, range(x.rank))))
    return (in_rows, Choice((BLOCKS,), ROWS, blocked.across * x.size * (last != 1))) if x.rank >= 3 else (in_rows,)


def _reverse(node: Node, blocked: BlockedLayout) -> Sequence[Choice]:
    assert isinstance(node.op, Reverse)
    return _moved(node, blocked, keeps_channels=blocked.block is None or 1 not in node.op.axes)


def _slice(node: Node, blocked: BlockedLayout) -> Sequence[Choice]:
    """A slice of rows can be a view. A slice of blocks copies whole blocks."""
    assert isinstance(node.op, Slice)
    op = node.op
    keeps = blocked.block is None or (len(op.start) > 1 and op.start[1] % blocked.block == 0 and op.step[1] == 1)
    return _moved(node, blocked, keeps_channels=keeps, copy=blocked.copy)


def _pad(node: Node, blocked: BlockedLayout) -> Sequence[Choice]:
    assert isinstance(node.op, Pad)
    op = node.op
    keeps = blocked.block is None or op.low[1:2] == op.high[1:2] == op.interior[1:2] == (0,)
    return _moved(node, blocked, keeps_channels=keeps)


def _moved(node: Node, blocked: BlockedLayout, *, keeps_channels: bool, copy: int = 0) -> Sequence[Choice]:
    """A move along axes of the operand. Blocks stay whole if channels do not move, or if all are in one. `copy` is the
    cost per element that only blocks have.
    """
    out, rest = node.outputs[0].type, (ROWS,) * (len(node.inputs) - 1)
    if not keeps_channels or out.rank < 3:
        return (_in_rows(node),)
    across = _last_axis(out, range(out.rank)) != 1
    into_rows = Choice((BLOCKS, *rest), ROWS, (copy + blocked.across * across) * out.size)
    if not blocked.is_computed(out):
        return _in_rows(node), into_rows
    return _in_rows(node), into_rows, Choice((BLOCKS, *rest), BLOCKS, copy * out.size)


def _relayout(node: Node, blocked: BlockedLayout) -> Sequence[Choice]:
    """A relayout before layouts are assigned reads an input of the graph that another program stored in blocks."""
    x = node.inputs[0].type
    in_blocks = x.layout is not None and x.layout.block == blocked.block_of(x)
    copied = Choice((None,), ROWS, blocked.relayout_cost(x))
    return (copied, Choice((None,), BLOCKS)) if in_blocks else (copied,)


def _last_axis(type: TensorType, axes: Sequence[int]) -> int:
    """The last of `axes` with more than one element, along which vectors run in rows; 1 if there is none."""
    return next((k for k in reversed(axes) if type.shape[k] != 1), 1)


LAYOUT_RULES: dict[type[Op], Callable[[Node, BlockedLayout], Sequence[Choice]]] = {
    Conv: _conv,
    ConvWeightGradient: _conv_weight_gradient,
    Pointwise: _same_format,
    Cast: _cast,
    ReduceWindow: _window,
    SelectAndScatter: _select,
    Concat: _concat,
    Reduce: _reduce,
    Transpose: _transpose,
    Reverse: _reverse,
    Slice: _slice,
    Pad: _pad,
    Relayout: _relayout,
    Broadcast: _virtual,
    Constant: _virtual,
    Iota: _virtual,
}
