"""Finds attention: a product whose left operand is a softmax of the result of another product.

scores  = f(dot(queries, keys))            f is elementwise and can read other values: scales, masks
weights = exp(scores - max) * (1 / sum)    the softmax of each row, then 0 where a condition is false
result  = dot(weights, values)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ..ir.dialects.core import (
    Broadcast,
    Cast,
    Constant,
    Dot,
    Iota,
    Pointwise,
    Reduce,
    Reshape,
    Size,
    Slice,
    Transpose,
)
from ..ir.graph import Graph, Node, Value
from ..ir.lazy_dataclass import dataclass
from ..ir.scalar import ReduceOp, ScalarOp
from ..ir.types import DType, Shape

_DTYPES = (DType.F32, DType.F16, DType.BF16)
_MOVES = (Reshape, Transpose, Slice)
_VIRTUAL = (Broadcast, Iota, Size, Reshape)
_ABSORBED = (Pointwise, Cast, Transpose, Slice)


@dataclass(frozen=True, slots=True)
class Attention:
    """`first` and `last` are the products. `nodes` are all nodes of the region in order: `own`, which only the region
    reads, and nodes that cost nothing to compute again."""

    first: Node
    last: Node
    result: Value
    nodes: tuple[Node, ...]
    own: frozenset[Node]


def find_attention(graph: Graph) -> list[Attention]:
    """Every attention of a graph, in order."""
    finder = _Finder(graph)
    matches = (finder.match(node) for node in graph.nodes if isinstance(node.op, Dot))
    return [m for m in matches if m is not None]


class _Finder:
    def __init__(self, graph: Graph) -> None:
        self.users = {v: [n for n, _ in uses] for v, uses in graph.users().items()}
        self.outputs = frozenset(graph.outputs)
        self.order = {n: i for i, n in enumerate(graph.nodes)}
        self.graph = graph

    def match(self, last: Node) -> Attention | None:
        """The attention whose second product is `last`."""
        if not _is_product(last, keys=False):
            return None
        scores = _softmax_operand(last.inputs[0])
        first = _product_of(scores) if scores is not None else None
        if first is None:
            return None
        path = self._between(first, last)
        if path is None:
            return None
        ends = self._moves_after(last)
        own = frozenset((first, last, *path, *ends))
        nodes = {*own, *self._operands(first, last)}
        nodes |= self._masks(path, nodes)
        ordered = sorted(nodes, key=self.order.__getitem__)
        if not all(_is_plain(v) for n in ordered for v in (*n.inputs, *n.outputs)):
            return None
        result = (ends[-1] if ends else last).outputs[0]
        return Attention(first, last, result, tuple(ordered), own)

    def _between(self, first: Node, last: Node) -> set[Node] | None:
        """The nodes between the products; None if others read their results or those of `first`."""
        path: set[Node] = set()
        stack = [first.outputs[0]]
        while stack:
            value = stack.pop()
            if value in self.outputs:
                return None
            for user in self.users[value]:
                if user is last or user in path:
                    continue
                if not isinstance(user.op, Pointwise | Cast | Reshape | Broadcast | Reduce):
                    return None
                path.add(user)
                stack += user.outputs
        uses = self.users[last.inputs[0]]
        return path if uses == [last] and last.inputs[1].node not in path and _reductions(path) == 2 else None

    def _operands(self, first: Node, last: Node) -> set[Node]:
        """What moves keys and values, and what moves or scales queries."""
        nodes = {n for v in (first.inputs[1], last.inputs[1]) for n in _moves(v)}
        value = first.inputs[0]
        while (node := value.node) is not None:
            if isinstance(node.op, _MOVES):
                nodes.add(node)
                value = node.inputs[0]
                continue
            scaled = _scaled(node) if len(self.users[value]) == 1 and value not in self.outputs else None
            if scaled is None:
                break
            nodes.update((node, *_number_of(node)))
            value = scaled
        return nodes

    def _masks(self, path: set[Node], inside: set[Node]) -> set[Node]:
        """What computes other operands of the nodes between the products: what costs nothing, and what only the region
        reads."""
        added: set[Node] = set()
        reads = {v for n in path for v in n.inputs}
        start = max(map(self.order.__getitem__, path))
        for node in reversed(self.graph.nodes[:start]):
            if node in inside or reads.isdisjoint(node.outputs):
                continue
            if _is_virtual(node) or (isinstance(node.op, _ABSORBED) and self._is_read_only_by(node, path | added)):
                added.add(node)
                reads.update(node.inputs)
        return added

    def _is_read_only_by(self, node: Node, readers: set[Node]) -> bool:
        (value,) = node.outputs
        return value not in self.outputs and readers.issuperset(self.users[value])

    def _moves_after(self, last: Node) -> list[Node]:
        """The transpose of the result, after a reshape that divides dimensions."""
        moves: list[Node] = []
        value = last.outputs[0]
        while value not in self.outputs and len(uses := self.users[value]) == 1:
            (node,) = uses
            if isinstance(node.op, Transpose):
                return [*moves, node]
            divides = isinstance(node.op, Reshape) and _divides(value.type.shape, node.outputs[0].type.shape)
            if moves or not divides:
                break
            moves.append(node)
            value = node.outputs[0]
        return []


# -- the softmax


def _softmax_operand(weights: Value) -> Value | None:
    """The scores of which `weights` are the softmax along the last axis, or 0; None for other values."""
    value = _unwrapped(weights)
    while (node := _pointwise(value, ScalarOp.SELECT)) is not None and _is_number(node.inputs[2], 0):
        value = _unwrapped(node.inputs[1])
    product = _pointwise(value, ScalarOp.MUL)
    for x, factor in (product.inputs, product.inputs[::-1]) if product is not None else ():
        exponential = _pointwise(_unwrapped(x), ScalarOp.EXP)
        if exponential is not None and _is_reciprocal_sum(factor, exponential.outputs[0]):
            return _shifted(exponential.inputs[0])
    return None


def _is_reciprocal_sum(factor: Value, summand: Value) -> bool:
    division = _pointwise(_unspread(factor), ScalarOp.DIV)
    return (
        division is not None
        and _is_number(division.inputs[0], 1)
        and _reduced(division.inputs[1], ReduceOp.ADD) is summand
    )


def _shifted(value: Value) -> Value | None:
    """x of x - max(x)."""
    difference = _pointwise(_unwrapped(value), ScalarOp.SUB)
    if difference is None or _reduced(difference.inputs[1], ReduceOp.MAX) is not difference.inputs[0]:
        return None
    return difference.inputs[0]


def _reduced(value: Value, op: ReduceOp) -> Value | None:
    """The operand of the reduction of the last axis that `value` is, spread or not."""
    node = _unspread(value).node
    if node is None or not isinstance(node.op, Reduce) or node.op.op is not op:
        return None
    return node.inputs[0] if node.op.axes == (node.inputs[0].type.rank - 1,) else None


def _pointwise(value: Value, op: ScalarOp) -> Node | None:
    node = value.node
    return node if node is not None and isinstance(node.op, Pointwise) and node.op.op is op else None


def _unwrapped(value: Value) -> Value:
    """The value before reshapes that keep the last axis, and conversions between floats."""
    while (node := value.node) is not None and _keeps_rows(node):
        value = node.inputs[0]
    return value


def _keeps_rows(node: Node) -> bool:
    before, after = node.inputs[0].type if node.inputs else None, node.outputs[0].type
    if isinstance(node.op, Reshape):
        return before is not None and before.shape[-1:] == after.shape[-1:]
    return isinstance(node.op, Cast) and before is not None and before.dtype.is_float and after.dtype.is_float


def _unspread(value: Value) -> Value:
    """The value before broadcasts and reshapes."""
    while (node := value.node) is not None and isinstance(node.op, Broadcast | Reshape):
        value = node.inputs[0]
    return value


def _is_number(value: Value, number: float) -> bool:
    node = _unspread(value).node
    return node is not None and isinstance(node.op, Constant) and bool(np.all(node.op.value == number))


# -- the products


def _product_of(scores: Value) -> Node | None:
    """The product from which scores are computed element by element."""
    stack, seen = [scores], set[Value]()
    while stack:
        value = stack.pop()
        node = value.node
        if node is None or value in seen or value.type.size != scores.type.size:
            continue
        seen.add(value)
        if isinstance(node.op, Dot) and _is_product(node, keys=True):
            return node
        if isinstance(node.op, Pointwise) or _keeps_rows(node):
            stack += node.inputs[::-1]
    return None


def _is_product(node: Node, *, keys: bool) -> bool:
    """True if tensor cores compute a product of `keys`, whose positions are its last axis, or of values, which sums
    over the last axis of its left operand."""
    op, (x, y) = node.op, node.inputs
    assert isinstance(op, Dot)
    if x.type.dtype is not y.type.dtype or x.type.dtype not in _DTYPES or op.accumulator not in (None, DType.F32):
        return False
    if len(op.lhs_contract) != 1:
        return False
    return len(op.rhs_free(y.type.rank)) == 1 if keys else op.lhs_contract == (x.type.rank - 1,)


def _reductions(nodes: set[Node]) -> int:
    return sum(isinstance(n.op, Reduce) for n in nodes)


def _moves(value: Value) -> Iterator[Node]:
    """The moves that `value` is the result of."""
    while (node := value.node) is not None and isinstance(node.op, _MOVES):
        yield node
        value = node.inputs[0]


def _scaled(node: Node) -> Value | None:
    """x of x times or divided by a number."""
    if not isinstance(node.op, Pointwise) or node.op.op not in (ScalarOp.MUL, ScalarOp.DIV) or not _number_of(node):
        return None
    return node.inputs[0]


def _number_of(node: Node) -> Sequence[Node]:
    """The nodes that spread the number by which a node scales."""
    spread = node.inputs[1].node
    number = spread.inputs[0].node if spread is not None and isinstance(spread.op, Broadcast) else None
    return (number, spread) if spread and number and isinstance(number.op, Constant) else ()


# -- other nodes


def _is_virtual(node: Node) -> bool:
    return isinstance(node.op, _VIRTUAL) or (isinstance(node.op, Constant) and node.op.value.size == 1)


def _is_plain(value: Value) -> bool:
    """True for row-major values that are not empty."""
    return value.type.layout is None and 0 not in value.type.shape


def _divides(before: Shape, after: Shape) -> bool:
    """True if a reshape divides dimensions and joins none."""
    rest = [n for n in after if n != 1]
    for n in before:
        size = 1
        while size < n and rest:
            size *= rest.pop(0)
        if size != n:
            return False
    return True
