"""Finds the gradients of attention: products of which one operand is computed from weights and other products.

scores  = f(dot(queries, keys))
weights = exp(scores - logarithm)                           `recompute_attention.py` leaves the logarithm of the sum
ds      = weights * (dot(cotangent, values) - sums)
dot(weights, cotangent), dot(ds, keys), dot(ds, queries)    the gradients
"""

from __future__ import annotations

from ..ir.dialects.core import Cast, Dot, Pointwise
from ..ir.graph import Graph, Node, Value
from ..ir.scalar import ScalarOp
from .find_attention import (
    Attention,
    Finder,
    contracted_bytes,
    free_bytes,
    is_product,
    keeps_rows,
    moves_of,
    pointwise_of,
    product_of,
    unspread,
)


def find_attention_gradients(graph: Graph) -> list[Attention]:
    """A region for each product of which an operand is a function of weights. Each computes the weights again."""
    finder, regions = _GradientFinder(graph), list[Attention]()
    for node in graph.nodes:
        power = pointwise_of(node.outputs[0], ScalarOp.EXP) if isinstance(node.op, Pointwise) else None
        if power is not None:
            regions += finder.regions(power)
    return regions


class _GradientFinder(Finder):
    def regions(self, exponential: Node) -> list[Attention]:
        """The regions that read an exponential; none unless all of its readers are in them."""
        difference = pointwise_of(exponential.inputs[0], ScalarOp.SUB)
        first = product_of(difference.inputs[0]) if difference is not None else None
        if first is None or difference is None:
            return []
        if unspread(difference.inputs[1]).type.size == difference.outputs[0].type.size:  # no number for each row
            return []
        closure = self._closure(first)
        if closure is None:
            return []
        path, inner, lasts = closure
        regions = [self._region(last, path, inner) for last in lasts]
        complete = [r for r in regions if r is not None]
        return complete if len(complete) == len(regions) else []

    def _closure(self, first: Node) -> tuple[set[Node], list[Node], list[Node]] | None:
        """(elementwise nodes, products that they read, products that read them), from one product on; None if others
        read a result."""
        path, inner, lasts = set[Node](), [first], dict[Node, None]()
        stack, size = [first], first.outputs[0].type.size
        while stack:
            (value,) = stack.pop().outputs
            if value in self.outputs:
                return None
            for user in self.users[value]:
                if isinstance(user.op, Dot):
                    lasts[user] = None
                    continue
                if user in path:
                    continue
                if not isinstance(user.op, Pointwise | Cast) and not keeps_rows(user):
                    return None
                path.add(user)
                stack.append(user)
                more = [p for v in user.inputs if v.type.size == size and (p := product_of(v)) is not None]
                new = [p for p in dict.fromkeys(more) if p not in inner]
                inner += new
                stack += new
        return path, inner, list(lasts)

    def _region(self, last: Node, path: set[Node], inner: list[Node]) -> Attention | None:
        computed = [v for v in last.inputs if v.node in path]
        if len(computed) != 1 or not is_product(last, keys=None):
            return None
        (other,) = (v for v in last.inputs if v is not computed[0])
        mine = _ancestors(computed[0], path, inner)
        products = [n for n in inner if n in mine]
        ends = self.moves_after(last)
        own = frozenset((last, *ends))
        moved = {n for v in (other, *(v for p in products for v in p.inputs)) for n in moves_of(v)}
        nodes = {*own, *mine, *moved}
        nodes |= self.masks(mine & path, nodes, path)
        result = (ends[-1] if ends else last).outputs[0]
        longest = max([free_bytes(last, last.inputs.index(other)), *map(contracted_bytes, products)])
        return self.attention(last, longest, (result,), nodes, own)


def _ancestors(value: Value, path: set[Node], inner: list[Node]) -> set[Node]:
    """The nodes of `path` and of `inner` that `value` depends on."""
    ancestors: set[Node] = set()
    stack = [value]
    while stack:
        node = stack.pop().node
        if node is None or node in ancestors or (node not in path and node not in inner):
            continue
        ancestors.add(node)
        stack += node.inputs if node in path else ()
    return ancestors
