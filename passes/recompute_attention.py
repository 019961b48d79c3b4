"""Lets the backward pass of attention compute its weights again, from the logarithm of the sum of each row."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from ..ir.dialects.core import Broadcast, Cast, CoreBuilder, Dot, Pointwise, Reduce, Reshape, Transpose
from ..ir.graph import Graph, GraphBuilder, Node, Value
from ..ir.lazy_dataclass import dataclass
from ..ir.rewrite import Replacement, rebuild
from ..ir.scalar import ReduceOp, ScalarOp
from ..ir.types import DType
from .find_attention import (
    Softmax,
    contracted_bytes,
    find_softmax,
    free_bytes,
    is_product,
    keeps_rows,
    pointwise_of,
    product_of,
    reduced_by,
    scales_once,
    unspread,
)
from .manager import Context, Pass


@dataclass(frozen=True)
class RecomputeAttention(Pass):
    """In a graph with gradients, weights that gradients read -> exp(scores - log(sum)), of scores that are computed
    again; and the sum over keys of weights times their cotangents -> the sum of results times their cotangents.

    Both graphs can then compute attention without scores in memory (`fuse_attention.py`): the forward graph saves a
    number for each row instead of all weights. Needs: core, differentiated, not partitioned. Keeps: values.
    """

    name = "recompute-attention"

    def run(self, graph: Graph, context: Context) -> Graph:
        longest = context.target.attention_bytes
        if not longest or context.options.dynamic:
            return graph
        users = {v: [n for n, _ in uses] for v, uses in graph.users().items()}
        matches = [m for n in graph.nodes if (m := _match(n, users, frozenset(graph.outputs))) is not None]
        matches = [m for m in matches if max(contracted_bytes(m.first), free_bytes(m.last, 1)) <= longest]
        if not matches:
            return graph
        return rebuild(graph, _Rewriter(matches).rule, CoreBuilder(graph.name))


@dataclass(frozen=True, slots=True)
class _Match:
    """`first` and `last` are the products. `scores` are the nodes from `first` to the scores, `between` those of the
    softmax, `weights` those from its result to `last`. `sums` are the reductions of weights times their cotangents.
    `result` is that of `last`, or after moves, whose transpose `order` reverses; `cotangent` is that of `result`.
    """

    first: Node
    last: Node
    softmax: Softmax
    scores: tuple[Node, ...]
    weights: tuple[Node, ...]
    between: tuple[Node, ...]
    sums: Node
    result: Value
    cotangent: Value
    order: tuple[int, ...]


def _match(last: Node, users: dict[Value, list[Node]], outputs: frozenset[Value]) -> _Match | None:
    if not isinstance(last.op, Dot) or not is_product(last, keys=False):
        return None
    if last.op.lhs_batch != tuple(range(len(last.op.lhs_batch))):  # the result has rows in another order than weights
        return None
    softmax = find_softmax(last.inputs[0])
    first = product_of(softmax.scores) if softmax is not None else None
    if softmax is None or first is None:
        return None
    scores = _path(softmax.scores, first.outputs[0])
    weights = _path(last.inputs[0], softmax.weights)
    own = {*scores, *weights, first, last}
    inner = {softmax.exponential, softmax.top, softmax.total}
    between = _path(softmax.weights, softmax.scores)
    if not scales_once(last.inputs[0], softmax.weights, {first, *scores, *between, *weights}):
        return None
    if any(v in outputs for n in (*own, *between) for v in n.outputs if n is not last):
        return None
    if any(u not in between for v in inner for u in users[v]):  # gradients read more than the weights
        return None
    if not _ends_in_products((softmax.weights, *(v for n in weights for v in n.outputs)), own, users, outputs):
        return None
    for sums in (u for n in users[softmax.weights] for u in _sums(n, users)):
        product = sums.inputs[0].node
        assert product is not None
        gradient = next((v for v in product.inputs if v is not softmax.weights), softmax.weights)
        cotangent = _cotangent(gradient, last)
        if cotangent is not None and _is_centred(gradient, sums, users):
            moved = _moved(last.outputs[0], cotangent, users)
            return _Match(first, last, softmax, tuple(scores), tuple(weights), tuple(between), sums, *moved)
    return None


def _path(end: Value, start: Value) -> list[Node]:
    """The nodes between two values in order, on all paths; not those that compute `start`."""
    order: list[Node] = []
    depends: dict[Value, bool] = {start: True}

    def visit(value: Value) -> bool:
        if value not in depends:
            node = value.node
            depends[value] = False
            depending = [visit(v) for v in node.inputs] if node is not None and _is_elementwise(node) else []
            depends[value] = any(depending)
            if node is not None and depends[value]:
                order.append(node)
        return depends[value]

    visit(end)
    return order


def _ends_in_products(
    values: Iterable[Value], own: Collection[Node], users: dict[Value, list[Node]], outputs: frozenset[Value]
) -> bool:
    """True if what gradients compute from weights is read by products alone, element by element, and by sums of rows of
    one product: nothing of it is then in memory."""
    stack, seen = [u for v in values for u in users[v] if u not in own], set[Node]()
    while stack:
        node = stack.pop()
        if node in seen or isinstance(node.op, Dot):
            continue
        seen.add(node)
        if reduced_by(node.outputs[0], ReduceOp.ADD) is not None:
            continue
        if not (isinstance(node.op, Pointwise | Cast) or keeps_rows(node)) or node.outputs[0] in outputs:
            return False
        stack += users[node.outputs[0]]
    return True


def _is_elementwise(node: Node) -> bool:
    return isinstance(node.op, Pointwise | Cast | Reshape | Broadcast | Reduce)


def _sums(node: Node, users: dict[Value, list[Node]]) -> list[Node]:
    """The sums of the rows of a product of two values."""
    if not isinstance(node.op, Pointwise) or node.op.op is not ScalarOp.MUL:
        return []
    return [u for u in users[node.outputs[0]] if reduced_by(u.outputs[0], ReduceOp.ADD) is node.outputs[0]]


def _cotangent(gradient: Value, last: Node) -> Value | None:
    """The cotangent of the result of `last`, of which the cotangent of the weights is the product with the values."""
    stack, seen = [gradient], set[Value]()
    while stack:
        value = stack.pop()
        node = value.node
        if node is None or value in seen:
            continue
        seen.add(value)
        if isinstance(node.op, Dot) and node.inputs[1] is last.inputs[1]:
            return node.inputs[0] if node.inputs[0].type == last.outputs[0].type else None
        if isinstance(node.op, Pointwise) or keeps_rows(node):
            stack += node.inputs
    return None


def _moved(result: Value, cotangent: Value, users: dict[Value, list[Node]]) -> tuple[Value, Value, tuple[int, ...]]:
    """(result, its cotangent, order of axes): after the transpose that joins heads if there is one, as the results are
    then not stored before it."""
    plain = result, cotangent, tuple(range(result.type.rank))
    after = users[result]
    value = after[0].outputs[0] if len(after) == 1 and isinstance(after[0].op, Reshape) else result
    forward = users[value]
    source = cotangent.node.inputs[0] if cotangent.node and isinstance(cotangent.node.op, Reshape) else cotangent
    if len(forward) != 1 or source.node is None or source.type != value.type:
        return plain
    (there,), back = forward, source.node
    if not isinstance(there.op, Transpose):
        return plain
    order = there.op.permutation
    last = len(order) - 1
    inverse = tuple(sorted(range(len(order)), key=order.__getitem__))
    if not isinstance(back.op, Transpose) or back.op.permutation != inverse or order[last] != last:
        return plain
    if value.type.shape[last] != result.type.shape[-1]:  # the reshape divides rows
        return plain
    return there.outputs[0], back.inputs[0], inverse


def _is_centred(gradient: Value, sums: Node, users: dict[Value, list[Node]]) -> bool:
    """True if only the difference of a cotangent and its sum with the weights is read, as in the softmax's gradient."""
    differences = [n for n in users[gradient] if pointwise_of(n.outputs[0], ScalarOp.SUB) is not None]
    return any(n.inputs[0] is gradient and unspread(n.inputs[1]) is sums.outputs[0] for n in differences)


class _Rewriter:
    def __init__(self, matches: Sequence[_Match]) -> None:
        self.by_sums = {m.sums: m for m in matches}
        self.by_result = {m.result.node: m for m in matches}
        self.inside = {n for m in matches for n in (*m.scores, *m.weights, m.last, *m.between)}
        self.again: dict[Value, Value] = {}  # values of the old graph -> their copies for gradients
        self.new: dict[Value, Value] = {}

    def rule(self, b: GraphBuilder, node: Node, operands: tuple[Value, ...]) -> Replacement:
        assert isinstance(b, CoreBuilder)
        self.new.update(zip(node.inputs, operands, strict=True))
        match = self.by_sums.get(node)
        if match is not None:
            return self._sums(b, match)
        match = self.by_result.get(node)
        if match is not None:
            return self._result(b, match)
        if node not in self.inside and not self.again.keys().isdisjoint(node.inputs):
            return b.node(node.op, *map(self._read, node.inputs)).outputs
        return None

    def _read(self, value: Value) -> Value:
        return self.again.get(value) or self.new[value]

    def _copy(self, b: CoreBuilder, nodes: Sequence[Node]) -> None:
        for node in nodes:
            copy = b.node(node.op, *map(self._read, node.inputs), name=node.name, location=node.location)
            self.again.update(zip(node.outputs, copy.outputs, strict=True))

    def _sums(self, b: CoreBuilder, match: _Match) -> Value:
        product = b.mul(self.new[match.result], self._read(match.cotangent))
        total = b.transpose(b.sum(product, (product.type.rank - 1,)), match.order[:-1])
        return b.reshape(total, match.sums.outputs[0].type.shape)

    def _result(self, b: CoreBuilder, match: _Match) -> Value:
        """The result, after which gradients can compute scores and weights again."""
        softmax = match.softmax
        result, logarithm = b.call(_saved(match), *(self.new[v] for v in _operands(match)))
        self.new[match.result] = result
        self._copy(b, (match.first, *match.scores))
        scores = b.cast(self._read(softmax.scores), DType.F32)
        rows = tuple(range(scores.type.rank - 1))
        weights = b.exp(b.sub(scores, b.broadcast(logarithm, scores.type.shape, rows)))
        self.again[softmax.weights] = b.cast(weights, softmax.weights.type.dtype)
        self._copy(b, match.weights)
        return result


def _operands(match: _Match) -> tuple[Value, ...]:
    return (*match.last.inputs, match.softmax.top, match.softmax.total)


def _saved(match: _Match) -> Graph:
    """The result and the logarithms of the sums as one function of a product, which is never computed again: so these
    are saved for the backward pass, and not what they are computed from."""
    b = CoreBuilder("attention")
    copies = {v: b.input(v.type) for v in _operands(match)}
    moves: list[Node] = []
    node = match.result.node
    while node is not None and node is not match.last:
        moves.append(node)
        node = node.inputs[0].node
    for each in (match.last, *reversed(moves)):
        b.append(each.on([copies[v] for v in each.inputs]))
        copies.update(zip(each.outputs, b.nodes[-1].outputs, strict=True))
    top, total = (b.cast(copies[v], DType.F32) for v in (match.softmax.top, match.softmax.total))
    return b.build([copies[match.result], b.add(top, b.log(total))])
