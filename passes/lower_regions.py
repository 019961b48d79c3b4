"""Lowers the nested graphs of branches and loops, and lets the state of a loop stay in the layout of its body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..ir.dialects.core import Cond, Fused, Relayout, Scan, While
from ..ir.graph import Graph, GraphBuilder, Node, Op, Value
from ..ir.lazy_dataclass import dataclass
from ..ir.rewrite import Replacement, rebuild, repeat
from ..ir.target import BlockedLayout
from ..ir.types import Layout, TensorType
from .manager import Context, Pass, run_passes


@dataclass(frozen=True)
class LowerRegions(Pass):
    """Run the passes `before`, this one and `after` on the graphs in branches and loops.

    The state of a `Scan` stays in blocks from step to step if the body computes it in blocks and then needs fewer
    copies into other layouts: it is copied into blocks before the first step, and out of them after the last one. What
    is equal in all steps is a parameter of the body, so its packed form is computed once. Needs: layouts. Keeps:
    values.
    """

    name = "lower-regions"
    before: tuple[Pass, ...]
    after: tuple[Pass, ...]

    def run(self, graph: Graph, context: Context) -> Graph:
        if not any(isinstance(node.op, Cond | Scan | While) for node in graph.nodes):
            return graph
        nested = Context(context.target, replace(context.options, static_shape=True), context.settings)

        def rule(b: GraphBuilder, node: Node, operands: tuple[Value, ...]) -> Replacement:
            match node.op:
                case Scan() as op:
                    return self._scan(b, node, op, operands, nested)
                case Cond() as op:
                    lowered: Op = Cond(self._lower(op.then, nested), self._lower(op.otherwise, nested))
                case While() as op:
                    lowered = replace(op, cond=self._lower(op.cond, nested), body=self._lower(op.body, nested))
                case _:
                    return None
            return b.node(lowered, *operands, name=node.name, location=node.location).outputs

        return rebuild(graph, rule)

    def _lower(self, graph: Graph, context: Context) -> Graph:
        return run_passes((*self.before, self, *self.after), graph, context)

    def _scan(
        self, b: GraphBuilder, node: Node, op: Scan, operands: tuple[Value, ...], context: Context
    ) -> Replacement:
        body, layouts = self._body(op, context)
        operands = tuple([_as(b, v, layouts[i]) if i in layouts else v for i, v in enumerate(operands)])
        lowered = b.node(replace(op, body=body), *operands, name=node.name, location=node.location)
        return tuple([_as(b, v, None) if i in layouts else v for i, v in enumerate(lowered.outputs)])

    def _body(self, op: Scan, context: Context) -> tuple[Graph, dict[int, Layout]]:
        """The lowered body, and the layouts of its carries by position: those in blocks, if that saves copies."""
        invariants = range(op.carries + op.scanned, len(op.body.inputs))
        body = replace(op.body, parameters=frozenset(invariants))
        lowered, blocked = self._lower(body, context), context.target.blocked_layout
        if blocked is None or not _relayouts(lowered):
            return lowered, {}
        layouts = _dense_layouts([v.type for v in body.inputs[: op.carries]], blocked)
        while layouts:
            stored = self._lower(_with_layouts(body, layouts), context)
            kept = {i: layout for i, layout in layouts.items() if stored.outputs[i].type.layout == layout}
            if kept == layouts:
                better = _relayouts(stored) < _relayouts(lowered)
                return (replace(stored, private=frozenset[int]()), layouts) if better else (lowered, {})
            layouts = kept
        return lowered, {}


def _dense_layouts(types: Sequence[TensorType], blocked: BlockedLayout) -> dict[int, Layout]:
    """The blocks of those tensors, by position, that have no gaps: a step that writes one replaces all of its bytes."""
    images = {i: t for i, t in enumerate(types) if blocked.is_computed(t)}
    layouts = {i: Layout(blocked.block_of(t), ((0, 0),) * (t.rank - 2)) for i, t in images.items()}
    return {i: layout for i, layout in layouts.items() if types[i].shape[1] % layout.block == 0}


def _relayouts(graph: Graph) -> int:
    """The number of copies into other layouts."""
    regions = [node.op.body.nodes if isinstance(node.op, Fused) else (node,) for node in graph.nodes]
    return sum(isinstance(node.op, Relayout) for nodes in regions for node in nodes)


def _with_layouts(body: Graph, layouts: Mapping[int, Layout]) -> Graph:
    """The body with inputs in these layouts; its outputs at the same positions are stored as they are computed."""
    b = GraphBuilder(body.name)
    new: dict[Value, Value] = {}
    for i, value in enumerate(body.inputs):
        input = b.input(value.type.with_layout(layouts.get(i)), value.name, parameter=i in body.parameters)
        new[value] = _as(b, input, None)
    repeat(b, body.nodes, new)
    return replace(b.build([new[v] for v in body.outputs]), private=frozenset(layouts))


def _as(b: GraphBuilder, value: Value, layout: Layout | None) -> Value:
    return value if value.type.layout == layout else b.add_node(Relayout(layout), value, name=value.name)
