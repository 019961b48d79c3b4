"""Joins the products of a sum into one: the gradient of a weight that every step of an unrolled cell reads.

    s = dot(x, g, contract rows) + dot(y, h, contract rows) + ...     (n, p) and (n, q) each

    ->  s = dot(concat(x, y, ...), concat(g, h, ...), contract rows)

Sums of the rows of operands that such products read, which are gradients of biases, become sums of the concatenation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..ir.dialects.core import CoreBuilder, Dot, Pointwise, Reduce, without_dead_nodes
from ..ir.graph import Graph, Node, Op, Value
from ..ir.lazy_dataclass import dataclass
from ..ir.scalar import ReduceOp, ScalarOp
from ..ir.symbolic import is_symbolic
from .manager import Context, Pass
from .row_pieces import start_of, whole_of

_FEWEST, _ROWS = 3, 64
"""Products over more rows are as fast alone."""


@dataclass(frozen=True)
class JoinSums(Pass):
    """Replace the terms of a result that are products over few rows, if there are at least three, by one product.

    The result is written once, and not once for each term. Operands are concatenated unless they are pieces of a
    tensor, so those of a term must not be larger than the result. Needs: core, loops unrolled. Keeps: values, up to
    rounding.
    """

    name = "join-sums"

    def run(self, graph: Graph, context: Context) -> Graph:
        sums = [s for s in _sums(graph) if len(s.terms) >= _FEWEST]
        sums.sort(key=lambda s: (isinstance(s.op, Reduce), -len(s.terms)))
        if not sums or isinstance(sums[0].op, Reduce):
            return graph
        return _Joined(graph).with_sums(sums)


@dataclass(frozen=True, eq=False)
class _Sum:
    """A result of a graph: the sum of `terms`, which are nodes with the same operator, and of the values `others`."""

    result: Value
    op: Op
    terms: list[Node]
    others: list[Value]


def _sums(graph: Graph) -> list[_Sum]:
    """The results of the graph that are sums, and that no node reads: they can be computed last."""
    users, outputs = graph.users(), dict.fromkeys(graph.outputs)
    single = {v for v, readers in users.items() if len(readers) == 1 and v not in outputs}
    sums: list[_Sum] = []
    for result in outputs:
        if users[result] or not _is_sum(result):
            continue
        leaves = _leaves(result, single)
        terms = [v.node for v in leaves if v in single and v.node is not None and _is_term(v.node)]
        terms = [t for t in terms if t.op == terms[0].op]
        if terms:
            members = set(terms)
            sums.append(_Sum(result, terms[0].op, terms, [v for v in leaves if v.node not in members]))
    return sums


def _is_sum(value: Value) -> bool:
    return value.node is not None and isinstance(value.node.op, Pointwise) and value.node.op.op is ScalarOp.ADD


def _leaves(result: Value, single: set[Value]) -> list[Value]:
    """What `result` adds up, through sums that nothing else reads."""
    leaves: list[Value] = []
    pending = [result]
    while pending:
        value = pending.pop()
        if value.node is not None and _is_sum(value) and (value is result or value in single):
            pending.extend(reversed(value.node.inputs))
        else:
            leaves.append(value)
    return leaves


def _is_term(node: Node) -> bool:
    """True for a product or a sum over the few rows of matrices."""
    if any(v.type.rank != 2 or any(map(is_symbolic, v.type.shape)) for v in node.inputs):
        return False
    match node.op:
        case Dot(lhs_batch=(), lhs_contract=(0,), rhs_contract=(0,)):
            size = sum(v.type.nbytes for v in node.inputs)
            return node.inputs[0].type.shape[0] <= _ROWS and size <= node.outputs[0].type.nbytes
        case Reduce(op=ReduceOp.ADD, axes=(0,)):
            return node.inputs[0].type.shape[0] <= _ROWS
        case _:
            return False


class _Joined:
    """A graph to which products are appended."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.b = CoreBuilder(graph.name)
        self.b.inputs, self.b.parameters = list(graph.inputs), set(graph.parameters)
        for node in graph.nodes:
            self.b.append(node)
        self.wholes: list[tuple[list[Value], Value]] = []
        """Operands of several terms, and the tensor of their rows."""

    def with_sums(self, sums: Sequence[_Sum]) -> Graph:
        """The graph with the terms of each sum as one. Others can read the operands of the sums with most terms."""
        new: dict[Value, Value] = {}
        for s in sums:
            total = self._total(s)
            if total is not None:
                for other in s.others:
                    total = self.b.add(total, other)
                new[s.result] = total
        outputs = tuple(new.get(v, v) for v in self.graph.outputs)
        return without_dead_nodes(replace(self.graph, nodes=tuple(self.b.nodes), outputs=outputs))

    def _total(self, s: _Sum) -> Value | None:
        """The sum of the terms; None for sums of rows whose operands are not concatenated."""
        self.b.origin, self.b.location = s.terms[0].name, s.terms[0].location
        terms = self._in_order(s.terms)
        if isinstance(s.op, Reduce) and self._known([t.inputs[0] for t in terms]) is None:
            return None
        operands = [self._rows([t.inputs[i] for t in terms]) for i in range(len(terms[0].inputs))]
        return self.b.add_node(s.op, *operands)

    def _in_order(self, terms: Sequence[Node]) -> list[Node]:
        """The terms in the order of known operands, or of the tensor whose pieces they read."""
        places = [{v: i for i, v in enumerate(known)} for known, _ in self.wholes]
        places.append({v: start for t in terms for v in t.inputs if (start := start_of(v)) >= 0})
        for place in places:
            for i in range(len(terms[0].inputs)):
                if all(t.inputs[i] in place for t in terms):
                    return sorted(terms, key=lambda t: place[t.inputs[i]])
        return list(terms)

    def _rows(self, values: list[Value]) -> Value:
        rows = self._known(values)
        if rows is None:
            rows = whole_of(values, self.b)
            self.wholes.append((values, rows))
        return rows

    def _known(self, values: list[Value]) -> Value | None:
        """The rows of `values` as a part of a tensor that is known."""
        for known, whole in self.wholes:
            start = next((i for i, v in enumerate(known) if v is values[0]), len(known))
            if known == values:
                return whole
            if known[start : start + len(values)] == values:
                rows = values[0].type.shape[0]
                return self.b.slice_axis(whole, 0, start * rows, (start + len(values)) * rows)
        return None
