"""Finds attention: a product whose left operand is a softmax of the result of another product.

scores  = f(dot(queries, keys))            f is elementwise and can read other values: scales, masks
weights = exp(scores - max) * (1 / sum)    the softmax of each row, then 0 where a condition is false
result  = dot(weights, values)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from math import prod

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
    """`last` is the product that is computed last, `row_bytes` the bytes of the longest row of an operand. `results`
    are that of `last`, or what moves it, and functions of the maximum and the sum of each row. `nodes` are all nodes of
    the region in order: `own`, which only the region reads, and nodes that it computes again."""

    last: Node
    row_bytes: int
    results: tuple[Value, ...]
    nodes: tuple[Node, ...]
    own: frozenset[Node]


def find_attention(graph: Graph) -> list[Attention]:
    """Every attention of a graph, in order."""
    finder = Finder(graph)
    matches = (finder.match(node) for node in graph.nodes if isinstance(node.op, Dot))
    return [m for m in matches if m is not None]


class Finder:
    """Collects the nodes of regions with several products."""

    def __init__(self, graph: Graph) -> None:
        self.users = {v: [n for n, _ in uses] for v, uses in graph.users().items()}
        self.outputs = frozenset(graph.outputs)
        self.order = {n: i for i, n in enumerate(graph.nodes)}
        self.graph = graph

    def match(self, last: Node) -> Attention | None:
        """The attention whose second product is `last`."""
        if not is_product(last, keys=False) or last.inputs[0].node is None:
            return None
        softmax = find_softmax(last.inputs[0])
        first = product_of(softmax.scores) if softmax is not None else None
        if softmax is None or first is None:
            return None
        path = self._between(first, last)
        rows = [v for n in path or () for v in n.outputs if v in self.outputs]
        if path is None or any(v.type.shape != softmax.total.type.shape for v in rows):
            return None
        if not scales_once(last.inputs[0], softmax.weights, {*path, first}):
            return None
        ends = self.moves_after(last)
        own = frozenset((first, last, *path, *ends))
        nodes = {*own, *self._operands(first, last)}
        nodes |= self.masks(path, nodes, path)
        result = (ends[-1] if ends else last).outputs[0]
        longest = max(contracted_bytes(first), free_bytes(last, 1))
        return self.attention(last, longest, (result, *sorted(rows, key=self._position)), nodes, own)

    def attention(
        self, last: Node, row_bytes: int, results: tuple[Value, ...], nodes: set[Node], own: frozenset[Node]
    ) -> Attention | None:
        """The region of these nodes; None if a value has blocks of channels or is empty."""
        ordered = sorted(nodes, key=self.order.__getitem__)
        if not all(_is_plain(v) for n in ordered for v in (*n.inputs, *n.outputs)):
            return None
        return Attention(last, row_bytes, results, tuple(ordered), own)

    def _position(self, value: Value) -> int:
        assert value.node is not None
        return self.order[value.node]

    def _between(self, first: Node, last: Node) -> set[Node] | None:
        """What reads the result of `first`, directly or not, apart from `last`; None if some of it is not elementwise
        or a reduction of rows."""
        path: set[Node] = set()
        stack = [first.outputs[0]]
        if stack[0] in self.outputs:
            return None
        while stack:
            value = stack.pop()
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
        nodes = {n for v in (first.inputs[1], last.inputs[1]) for n in moves_of(v)}
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

    def masks(self, path: set[Node], inside: set[Node], readers: set[Node]) -> set[Node]:
        """What computes other operands of the nodes between the products: what costs nothing, and what only `readers`
        read."""
        added: set[Node] = set()
        reads = {v for n in path for v in n.inputs}
        start = max(map(self.order.__getitem__, path))
        for node in reversed(self.graph.nodes[:start]):
            if node in inside or reads.isdisjoint(node.outputs):
                continue
            if _is_virtual(node) or (isinstance(node.op, _ABSORBED) and self._is_read_only_by(node, readers | added)):
                added.add(node)
                reads.update(node.inputs)
        return added

    def _is_read_only_by(self, node: Node, readers: set[Node]) -> bool:
        (value,) = node.outputs
        return value not in self.outputs and readers.issuperset(self.users[value])

    def moves_after(self, last: Node) -> list[Node]:
        """The transposes of the result, and reshapes before them that divide dimensions."""
        moves: list[Node] = []
        value = last.outputs[0]
        while value not in self.outputs and len(uses := self.users[value]) == 1:
            (node,) = uses
            divides = isinstance(node.op, Reshape) and _divides(value.type.shape, node.outputs[0].type.shape)
            if not divides and not isinstance(node.op, Transpose):
                break
            moves.append(node)
            value = node.outputs[0]
        while moves and not isinstance(moves[-1].op, Transpose):
            moves.pop()
        return moves


# -- the softmax


@dataclass(frozen=True, slots=True)
class Softmax:
    """`weights` = `exponential` / `total`, with exponential = exp(scores - top)."""

    scores: Value
    top: Value
    exponential: Value
    total: Value
    weights: Value


def find_softmax(value: Value) -> Softmax | None:
    """The softmax along the last axis of which `value` is a multiple, element by element: other elements of it can be 0
    or scaled. None for other values."""
    value = _unwrapped(value)
    node = value.node
    if node is None or not isinstance(node.op, Pointwise):
        return None
    match node.op.op:
        case ScalarOp.SELECT:
            return find_softmax(node.inputs[1]) if _is_number(node.inputs[2], 0) else None
        case ScalarOp.DIV:
            return _softmax(value, node.inputs[0], node.inputs[1])
        case ScalarOp.MUL:
            pairs = (node.inputs, node.inputs[::-1])
            candidates = (_softmax(value, x, total) for x, f in pairs if (total := _divisor(f)) is not None)
            softmax = next((s for s in candidates if s is not None), None)
            return softmax or next((s for x in node.inputs if (s := find_softmax(x)) is not None), None)
        case _:
            return None


def _softmax(weights: Value, numerator: Value, denominator: Value) -> Softmax | None:
    exponential = _unwrapped(numerator)
    power, total = pointwise_of(exponential, ScalarOp.EXP), unspread(denominator)
    if power is None or reduced_by(total, ReduceOp.ADD) is not exponential:
        return None
    difference = pointwise_of(_unwrapped(power.inputs[0]), ScalarOp.SUB)
    if difference is None:
        return None
    scores, top = difference.inputs[0], unspread(difference.inputs[1])
    return Softmax(scores, top, exponential, total, weights) if reduced_by(top, ReduceOp.MAX) is scores else None


def scales_once(end: Value, weights: Value, path: Collection[Node]) -> bool:
    """True if each node from `weights` to `end` has one operand that depends on scores, as all nodes of `path` do."""
    value = end
    while value is not weights:
        node = value.node
        depending = [v for v in node.inputs if v.node in path] if node is not None else []
        if len(depending) != 1:
            return False
        (value,) = depending
    return True


def _divisor(factor: Value) -> Value | None:
    """x of 1 / x."""
    division = pointwise_of(unspread(factor), ScalarOp.DIV)
    return division.inputs[1] if division is not None and _is_number(division.inputs[0], 1) else None


def reduced_by(value: Value, op: ReduceOp) -> Value | None:
    """The operand of the reduction of the last axis that `value` is, spread or not."""
    node = unspread(value).node
    if node is None or not isinstance(node.op, Reduce) or node.op.op is not op:
        return None
    return node.inputs[0] if node.op.axes == (node.inputs[0].type.rank - 1,) else None


def pointwise_of(value: Value, op: ScalarOp) -> Node | None:
    """The node of this operation that computes a value."""
    node = value.node
    return node if node is not None and isinstance(node.op, Pointwise) and node.op.op is op else None


def _unwrapped(value: Value) -> Value:
    """The value before reshapes that keep the last axis, and conversions between floats."""
    while (node := value.node) is not None and keeps_rows(node):
        value = node.inputs[0]
    return value


def keeps_rows(node: Node) -> bool:
    """True for a reshape that keeps the last axis, and for a conversion between floats."""
    before, after = node.inputs[0].type if node.inputs else None, node.outputs[0].type
    if isinstance(node.op, Reshape):
        return before is not None and before.shape[-1:] == after.shape[-1:]
    return isinstance(node.op, Cast) and before is not None and before.dtype.is_float and after.dtype.is_float


def unspread(value: Value) -> Value:
    """The value before broadcasts and reshapes."""
    while (node := value.node) is not None and isinstance(node.op, Broadcast | Reshape):
        value = node.inputs[0]
    return value


def _is_number(value: Value, number: float) -> bool:
    node = unspread(value).node
    return node is not None and isinstance(node.op, Constant) and bool(np.all(node.op.value == number))


# -- the products


def product_of(scores: Value) -> Node | None:
    """The product from which scores are computed element by element."""
    stack, seen = [scores], set[Value]()
    while stack:
        value = stack.pop()
        node = value.node
        if node is None or value in seen or value.type.size != scores.type.size:
            continue
        seen.add(value)
        if isinstance(node.op, Dot) and is_product(node, keys=True):
            return node
        if isinstance(node.op, Pointwise) or keeps_rows(node):
            stack += node.inputs[::-1]
    return None


def is_product(node: Node, *, keys: bool | None) -> bool:
    """True if tensor cores compute a product: one of `keys`, whose positions are its last axis, or one of values, which
    sums over the last axis of its left operand, or (None) any."""
    op, (x, y) = node.op, node.inputs
    assert isinstance(op, Dot)
    if x.type.dtype is not y.type.dtype or x.type.dtype not in _DTYPES or op.accumulator not in (None, DType.F32):
        return False
    if len(op.lhs_contract) != 1:
        return False
    if keys is None:
        return True
    return len(op.rhs_free(y.type.rank)) == 1 if keys else op.lhs_contract == (x.type.rank - 1,)


def contracted_bytes(product: Node) -> int:
    """The bytes of a row of the operands of a product of keys."""
    assert isinstance(product.op, Dot)
    type = product.inputs[0].type
    return type.dtype.itemsize * prod(type.shape[k] for k in product.op.lhs_contract)


def free_bytes(product: Node, side: int) -> int:
    """The bytes of a row of an operand of a product of weights: of the left (0) or the right one (1)."""
    assert isinstance(product.op, Dot)
    type = product.inputs[side].type
    free = product.op.rhs_free(type.rank) if side else product.op.lhs_free(type.rank)
    return type.dtype.itemsize * prod(type.shape[k] for k in free)


def _reductions(nodes: set[Node]) -> int:
    return sum(isinstance(n.op, Reduce) for n in nodes)


def moves_of(value: Value) -> Iterator[Node]:
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
