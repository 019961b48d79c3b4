"""Joins products of several small operands with the same weights into one: the input projections of an unrolled cell.

    a = dot(x, w)                    (n, m) each
    b = dot(y, w)          ->        z = dot(concat(x, y, v), w), of which a, b and c are rows
    c = dot(v, w)

If all of them are increased by the same bias, so is z: the rows are then pieces of memory that other kernels read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..ir.dialects.core import Broadcast, CoreBuilder, Dot, Pointwise, without_dead_nodes
from ..ir.graph import Graph, GraphBuilder, Node, Value
from ..ir.lazy_dataclass import dataclass
from ..ir.rewrite import Replacement, rebuild
from ..ir.scalar import ScalarOp
from ..ir.symbolic import is_symbolic
from .manager import Context, Pass
from .row_pieces import start_of, whole_of

_FEWEST, _ROWS = 3, 64
"""Products of more rows are as fast alone, and what reads them can be their epilogue."""


@dataclass(frozen=True)
class JoinProducts(Pass):
    """Join at least three products of few rows with the same right operand, none of which depends on another.

    The weights are read once and not once a step. Needs: core, equal values are one value, loops unrolled. Keeps:
    values, up to rounding.
    """

    name = "join-products"

    def run(self, graph: Graph, context: Context) -> Graph:
        done: set[Value] = set()
        while (weights := next((w for w in _candidates(graph) if w not in done), None)) is not None:
            done.add(weights)
            members = _independent(graph, _candidates(graph)[weights])
            if len(members) >= _FEWEST:
                graph = _joined(_operands_first(graph, members), sorted(members, key=lambda m: start_of(m.inputs[0])))
        return graph


def _candidates(graph: Graph) -> dict[Value, list[Node]]:
    """Products of few rows by their right operand, of those that at least three have."""
    products: dict[Value, list[Node]] = {}
    for node in graph.nodes:
        if isinstance(node.op, Dot) and _has_few_rows(node, node.op):
            same = products.setdefault(node.inputs[1], [])
            if not same or same[0].op == node.op:
                same.append(node)
    return {weights: nodes for weights, nodes in products.items() if len(nodes) >= _FEWEST}


def _has_few_rows(node: Node, op: Dot) -> bool:
    """True for a product without batches of a matrix of few rows and a matrix."""
    left, right = (v.type for v in node.inputs)
    if left.rank != 2 or right.rank != 2 or op.lhs_batch or tuple(op.lhs_contract) != (1,):
        return False
    return not any(map(is_symbolic, (*left.shape, *right.shape))) and left.shape[0] <= _ROWS


def _independent(graph: Graph, products: Sequence[Node]) -> list[Node]:
    """The products that depend on none of those before them in this list."""
    wanted, independent = set(products), list[Node]()
    reached: set[Value] = set()
    for node in graph.nodes:
        if not reached.isdisjoint(node.inputs):
            reached.update(node.outputs)
        elif node in wanted:
            independent.append(node)
            reached.update(node.outputs)
    return independent


def _operands_first(graph: Graph, members: Sequence[Node]) -> Graph:
    """The graph in another order: what `members` read is computed before the first of them."""
    needed = {v for m in members for v in m.inputs}
    first = graph.nodes.index(members[0])
    moved: set[Node] = set()
    for node in reversed(graph.nodes[first:]):
        if not needed.isdisjoint(node.outputs):
            moved.add(node)
            needed.update(node.inputs)
    rest = graph.nodes[first:]
    order = [*graph.nodes[:first], *(n for n in rest if n in moved), *(n for n in rest if n not in moved)]
    return replace(graph, nodes=tuple(order))


def _joined(graph: Graph, members: Sequence[Node]) -> Graph:
    """The graph with the products of `members`, whose operands precede them, as one product."""
    biased = _biased(graph, members)
    ends = members if biased is None else biased[0]
    rows: dict[Node, Value] = {}

    def rule(b: GraphBuilder, node: Node, operands: tuple[Value, ...]) -> Replacement:
        if node not in ends:
            return None
        assert isinstance(b, CoreBuilder)
        if not rows:
            product = b.add_node(members[0].op, whole_of([m.inputs[0] for m in members], b), members[0].inputs[1])
            if biased is not None:
                product = b.add(product, b.broadcast(biased[1], product.type.shape, (1,)))
            rows.update(_rows(b, product, ends))
        return rows[node]

    return without_dead_nodes(rebuild(graph, rule, CoreBuilder(graph.name)))


def _biased(graph: Graph, members: Sequence[Node]) -> tuple[list[Node], Value] | None:
    """The sums of each member and a bias, and the bias, if nothing else reads the members and all have one bias."""
    users = graph.users()
    sums: list[Node] = []
    biases: set[Value] = set()
    for member in members:
        readers = users[member.outputs[0]]
        bias = _bias(readers[0][0], member) if len(readers) == 1 and member.outputs[0] not in graph.outputs else None
        if bias is None:
            return None
        sums.append(readers[0][0])
        biases.add(bias)
    return (sums, biases.pop()) if len(biases) == 1 else None


def _bias(node: Node, product: Node) -> Value | None:
    """The input of the graph that `node` adds to each row of a product."""
    if not isinstance(node.op, Pointwise) or node.op.op is not ScalarOp.ADD:
        return None
    left, right = node.inputs
    other = right if left is product.outputs[0] else left
    source = other.node
    if source is None or not isinstance(source.op, Broadcast) or tuple(source.op.axes) != (1,):
        return None
    return source.inputs[0] if source.inputs[0].node is None else None


def _rows(b: CoreBuilder, product: Value, members: Sequence[Node]) -> dict[Node, Value]:
    """The results of `members`, in this order, which are the rows of `product`."""
    rows: dict[Node, Value] = {}
    at = 0
    for node in members:
        count = node.outputs[0].type.shape[0]
        rows[node] = b.slice_axis(product, 0, at, at + count)
        at += count
    return rows
