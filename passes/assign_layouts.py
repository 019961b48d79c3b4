"""Chooses the physical layout of every value by cost: channel blocks around convolutions, padding as halos."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain

from ..ir.dialects.core import Concat, Conv, ConvWeightGradient, Relayout, SelectAndScatter
from ..ir.graph import Graph, GraphBuilder, Node, Value
from ..ir.lazy_dataclass import dataclass
from ..ir.rewrite import Replacement, rebuild
from ..ir.symbol_bounds import largest
from ..ir.symbolic import deferred, is_symbolic
from ..ir.target import BlockedLayout, Capabilities, ConvSizes, ConvWindow
from ..ir.types import Layout
from .kinds import READS_MEMORY
from .layout_rules import BLOCKS, ROWS, Choice, Format, choices_of
from .manager import Context, Pass

Halo = tuple[tuple[int, int], ...]
Price = Callable[[Value, Format], int]


_BLOCKED = (Conv, ConvWeightGradient, SelectAndScatter)
"""Primitives for which blocks are faster. Graphs without them stay row-major."""


@dataclass(frozen=True)
class AssignLayouts(Pass):
    """Give values around convolutions, and in gradients of windows, a blocked layout, and insert a Relayout where a
    node needs another format.

    `layout_rules.py` lists the formats that each primitive accepts. Unless the target tests for borders, the halo of a
    blocked value is the largest padding of the convolutions that read it, plus the elements that the last tiles read
    past the end. Needs: core. Keeps: values and the layouts of inputs; private outputs are stored as they are computed,
    all others row-major. A relayout in the graph is that of an input in blocks.
    """

    name = "assign-layouts"

    def run(self, graph: Graph, context: Context) -> Graph:
        blocked = context.target.blocked_layout
        if blocked is None or not any(isinstance(n.op, _BLOCKED) for n in graph.nodes):
            return graph
        chosen = choose_formats(graph, blocked)
        if not any(BLOCKS in (choice.result, *choice.operands) for choice in chosen.values()):
            return graph
        halos = _collect_halos(graph, chosen, context.target) if blocked.halos else {}
        return _Relayouter(graph, chosen, halos, blocked).run()


# -- the choice


def choose_formats(graph: Graph, blocked: BlockedLayout) -> Mapping[Node, Choice]:
    """A choice for each node that keeps the total cost of nodes and copies low.

    A forward sweep estimates the cost of each result in both formats. A backward sweep chooses for each node after its
    readers have chosen; this is optimal if every value has one reader. Further sweeps let nodes change while the total
    decreases: the readers of a value share its copy.
    """
    chooser = _Chooser(graph, blocked)
    chooser.estimate()
    chooser.sweep(graph.nodes, chooser.estimated_price)
    free = [node for node, choices in chooser.choices.items() if len(choices) > 1]
    while chooser.sweep(free, chooser.price):
        pass
    return chooser.chosen


_OTHER: dict[Format | None, Format | None] = {ROWS: BLOCKS, BLOCKS: ROWS, None: None}


class _Chooser:
    def __init__(self, graph: Graph, blocked: BlockedLayout) -> None:
        self.graph, self.blocked = graph, blocked
        self.choices = {node: choices_of(node, blocked) for node in graph.nodes}
        self.chosen: dict[Node, Choice] = {}
        values = chain(graph.inputs, *(node.outputs for node in graph.nodes))
        self.readers = {v: {ROWS: 0, BLOCKS: 0} for v in values}  # number of readers by required format
        for i, value in enumerate(graph.outputs):
            self.readers[value][ROWS] += i not in graph.private
        self.excess: dict[Value, int] = {}  # estimated cost in blocks minus cost in rows

    # -- costs

    def estimate(self) -> None:
        for value in self.graph.inputs:
            self.excess[value] = self._copy_cost(value)
        for node in self.graph.nodes:
            costs = self._estimated_costs(node)
            for value in node.outputs:
                self.excess[value] = _excess(costs, self._copy_cost(value))

    def _estimated_costs(self, node: Node) -> Mapping[Format | None, int]:
        costs: dict[Format | None, int] = {}
        for choice in self.choices[node]:
            cost = self._own_cost(node, choice, self.estimated_price)
            costs[choice.result] = min(cost, costs.get(choice.result, cost))
        return costs

    def _own_cost(self, node: Node, choice: Choice, price: Price) -> int:
        needs = set(zip(node.inputs, choice.operands, strict=True))  # an operand that is read twice is copied once
        return choice.cost + sum(price(v, f) for v, f in needs if f is not None)

    def _copy_cost(self, value: Value) -> int:
        return self.blocked.relayout_cost(value.type) if value.type.rank >= 3 else 0

    def estimated_price(self, value: Value, format: Format) -> int:
        """The estimated cost of reading `value` in a format, before its node has a choice."""
        return max(0, self.excess[value] if format is BLOCKS else -self.excess[value])

    def price(self, value: Value, format: Format) -> int:
        """The cost of reading `value` in a format with the current choices: a copy, 0 if another reader needs it."""
        stored = self.chosen[value.node].result if value.node is not None else ROWS
        return 0 if stored in (None, format) or self.readers[value][format] else self._copy_cost(value)

    # -- choices

    def sweep(self, nodes: Sequence[Node], price: Price) -> bool:
        """Choose for these nodes in reverse order. True if a choice changed."""
        return any([self._choose(node, price) for node in reversed(nodes)])

    def _choose(self, node: Node, price: Price) -> bool:
        """Ties: the current choice wins; in the first sweep, the choice that changes formats later."""
        before = self.chosen.get(node)
        if before is not None:
            self._count_needs(node, before, -1)

        def cost(choice: Choice) -> tuple[int, int]:
            own = self._own_cost(node, choice, price)
            return own + self._cost_of_copies(node, choice), own if before is None else choice is not before

        chosen = self.chosen[node] = min(self.choices[node], key=cost)
        self._count_needs(node, chosen, 1)
        return chosen is not before

    def _cost_of_copies(self, node: Node, choice: Choice) -> int:
        """The cost of copying the results for readers that need the other format."""
        other = _OTHER[choice.result]
        return sum(self._copy_cost(v) for v in node.outputs if other is not None and self.readers[v][other])

    def _count_needs(self, node: Node, choice: Choice, change: int) -> None:
        for value, format in zip(node.inputs, choice.operands, strict=True):
            if format is not None:
                self.readers[value][format] += change


def _excess(costs: Mapping[Format | None, int], most: int) -> int:
    """The cost of a result in blocks minus its cost in rows, limited by the cost of a copy in the other format."""
    if None in costs:
        return 0
    if BLOCKS in costs and ROWS in costs:
        return max(-most, min(most, costs[BLOCKS] - costs[ROWS]))
    return most if ROWS in costs else -most


# -- halos


def conv_sizes(node: Node) -> ConvSizes:
    """The sizes of a convolution, or of that whose weight gradient a node is, from which the target chooses its
    schedule."""
    op, x, w, out = node.op, node.inputs[0].type, node.inputs[1].type, node.outputs[0].type
    if isinstance(op, ConvWeightGradient):
        (w, out), interior, accumulator = (out, w), (1,) * len(op.strides), None
    else:
        assert isinstance(op, Conv)
        interior, accumulator = op.lhs_dilation, op.accumulator
    axes = zip(out.shape[2:], w.shape[2:], op.strides, op.rhs_dilation, interior, strict=True)
    return ConvSizes(
        dtype=x.dtype,
        accumulator=accumulator or x.dtype,
        images=out.shape[0],
        groups=op.groups,
        channels=w.shape[1],
        filters=w.shape[0] // op.groups,
        windows=tuple(ConvWindow(outputs=n, taps=k, stride=s, dilation=d, interior=i) for n, k, s, d, i in axes),
    )


def _needed_halos(node: Node, target: Capabilities) -> tuple[Halo, ...]:
    """The halos of the input of a convolution, or of both operands of a weight gradient: the padding, plus the elements
    past it that the last tiles read. An input with zeros between its elements is read by sub-pixel convolutions, which
    reach past its ends by fewer elements.
    """
    op = node.op
    assert isinstance(op, Conv | ConvWeightGradient)
    if isinstance(op, Conv) and any(d != 1 for d in op.lhs_dilation):
        sides = zip(op.padding, op.lhs_dilation, strict=True)
        return (tuple((max(0, lo // d), max(0, -(-_largest(hi) // d))) for (lo, hi), d in sides),)
    sizes = conv_sizes(node)
    tile = int(deferred(_tile, target, sizes.of_class, isinstance(op, ConvWeightGradient)))
    rooms = [w.tile(tile) - 1 if is_symbolic(w.outputs) else -w.outputs % w.tile(tile) for w in sizes.windows]
    halo = tuple((max(0, lo), max(0, hi) + room) for (lo, hi), room in zip(op.padding, rooms, strict=True))
    return (halo,) if isinstance(op, Conv) else (halo, tuple((0, room) for room in rooms))


def _largest(padding: int) -> int:
    """The padding, or the most for any extents: that of the data gradient of a strided convolution depends on the rest
    of the division by the stride, whose halo would have a guard for each layer and axis."""
    bound = largest(padding)
    return padding if bound is None else bound


def _tile(target: Capabilities, sizes: ConvSizes, weight_gradient: bool) -> int:
    return target.conv_tile(sizes, weight_gradient=weight_gradient)


def _collect_halos(graph: Graph, chosen: Mapping[Node, Choice], target: Capabilities) -> dict[Value, Halo]:
    halos: dict[Value, Halo] = {}
    for node in graph.nodes:
        needed = _needed_halos(node, target) if isinstance(node.op, Conv | ConvWeightGradient) else ()
        for value, format, halo in zip(node.inputs, chosen[node].operands, needed, strict=False):
            if format is BLOCKS:
                halos[value] = _union(halos.get(value, halo), halo)
    for node in reversed(graph.nodes):  # operands of a concatenation are stored inside the result
        if isinstance(node.op, Concat) and chosen[node].result is BLOCKS and node.outputs[0] in halos:
            for value in node.inputs:
                halos[value] = _union(halos.get(value, halos[node.outputs[0]]), halos[node.outputs[0]])
    return halos


def _union(a: Halo, b: Halo) -> Halo:
    return tuple((max(x[0], y[0]), max(x[1], y[1])) for x, y in zip(a, b, strict=True))


# -- the graph with the chosen layouts


class _Relayouter:
    """Rebuilds the graph with one Relayout for each value and layout that a reader needs."""

    def __init__(
        self, graph: Graph, chosen: Mapping[Node, Choice], halos: Mapping[Value, Halo], blocked: BlockedLayout
    ) -> None:
        self.graph, self.chosen, self.halos, self.blocked = graph, chosen, halos, blocked
        self.copies: dict[tuple[Value, Layout | None], Value] = {}

    def run(self) -> Graph:
        b = GraphBuilder(self.graph.name)
        new = rebuild(self.graph, self._rule, b)
        private = self.graph.private
        outputs = [v if i in private else self._as(b, v, None) for i, v in enumerate(new.outputs)]
        return b.build(outputs)

    def _layout(self, old: Value) -> Layout:
        return Layout(self.blocked.block_of(old.type), self.halos.get(old, ((0, 0),) * (old.type.rank - 2)))

    def _rule(self, b: GraphBuilder, node: Node, operands: tuple[Value, ...]) -> Replacement:
        choice = self.chosen[node]
        if isinstance(node.op, Relayout):
            return self._stored(b, node, operands[0]) if choice.result is BLOCKS else None
        stored = [
            self._operand(b, node, *needed) for needed in zip(node.inputs, operands, choice.operands, strict=True)
        ]
        if tuple(stored) == node.inputs and choice.result is not BLOCKS:
            return None
        types = [v.type.with_layout(self._layout(v) if choice.result is BLOCKS else None) for v in node.outputs]
        b.append(Node(node.op, stored, types, node.name, node.location))
        return b.nodes[-1].outputs

    def _stored(self, b: GraphBuilder, node: Node, value: Value) -> Value:
        """A value in blocks for readers of blocks: itself, or a copy if they need more halo, or if the value was in
        blocks before and is row-major now."""
        needed, layout = self._layout(node.outputs[0]), value.type.layout
        if layout is not None:
            needed = Layout(layout.block, _union(layout.halo, needed.halo))
        return self._as(b, value, needed)

    def _operand(self, b: GraphBuilder, node: Node, old: Value, value: Value, format: Format | None) -> Value:
        if format is None:
            return value
        if format is ROWS:
            return self._as(b, value, None)
        if value.type.layout is not None or self._is_read_anyway(node, old):
            return value
        return self._as(b, value, self._layout(old))

    def _is_read_anyway(self, node: Node, old: Value) -> bool:
        """True if `node` reads a value without memory, through an index map and so in any format."""
        virtual = old.node is not None and self.chosen[old.node].result is None
        return virtual and not isinstance(node.op, READS_MEMORY)

    def _as(self, b: GraphBuilder, value: Value, layout: Layout | None) -> Value:
        if value.type.layout == layout:
            return value
        copy = self.copies.get((value, layout))
        if copy is None:
            copy = b.add_node(Relayout(layout), value, name=value.node.name if value.node else value.name)
            self.copies[value, layout] = copy
        return copy
