"""Adds gradients to a graph: reverse-mode differentiation of core graphs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from ..ir.dialects.core import Cond, CoreBuilder, Scan, While, gradient_graph
from ..ir.dialects.core.control_gradient import PullBack, Pulled, pull_back_cond, pull_back_scan, pull_back_while
from ..ir.dialects.core.gradient import cotangent_positions, vjp_of
from ..ir.dialects.core.primitive import Gradients
from ..ir.dialects.core.split import Split
from ..ir.graph import Graph, GraphBuilder, GraphError, Node, Value
from ..ir.lazy_dataclass import dataclass
from ..ir.rewrite import Replacement, rebuild
from .inline_calls import inline_calls
from .manager import Context, Pass
from .partition import partition


@dataclass(frozen=True)
class Differentiate(Pass):
    """`differentiate` as a pass. Needs: core. Keeps: the graph's inputs and outputs; adds others."""

    wrt: tuple[int, ...]
    name = "differentiate"

    def run(self, graph: Graph, context: Context) -> Graph:
        return differentiate(graph, self.wrt)


def differentiate(graph: Graph, wrt: Sequence[int]) -> Graph:
    """A core graph that also computes the cotangents of the inputs `wrt`.

    Inputs: the graph's, then one cotangent for each output that can have one, in order. Outputs: the graph's, then one
    cotangent per input in `wrt` (zeros if no output depends on it), then the outputs of checks and those that update
    inputs, which have no cotangents: moving statistics are not differentiated. GraphError names a node or an input
    without a gradient.
    """
    _check(graph, wrt)
    plain = graph.num_results
    both = _joint(graph, wrt, cotangent_positions(graph.outputs[:plain]))
    kept, rest, gradients = (
        both.outputs[:plain],
        both.outputs[plain : len(graph.outputs)],
        both.outputs[len(graph.outputs) :],
    )
    return replace(
        both,
        name=graph.name,
        outputs=kept + gradients + rest,
        updates=graph.updates,
        late=graph.late,
        random=graph.random,
        checks=graph.checks,
    )


def vjp_graph(graph: Graph) -> Graph:
    """Only the gradient: inputs, then the outputs' cotangents -> the inputs' cotangents, of those that can have one."""
    return gradient_graph(graph, cotangent_positions(graph.inputs), cotangent_positions(graph.outputs))


def _check(graph: Graph, wrt: Sequence[int]) -> None:
    for i in wrt:
        if not 0 <= i < len(graph.inputs):
            raise GraphError(f"graph '{graph.name}' has no input {i} to differentiate with respect to")
        value = graph.inputs[i]
        if not value.type.dtype.has_cotangent:
            name = f"'{value.name}'" if value.name else str(i)
            raise GraphError(f"input {name} of type {value.type} has no gradient")


def _joint(graph: Graph, wrt: Sequence[int], seeds: Sequence[int]) -> Graph:
    """The graph's outputs, then the cotangents of the inputs `wrt`. Loops and branches run once in each direction."""
    saving = _Saving()
    both = gradient_graph(graph, wrt, seeds, forward=True, rule=saving.rule)
    return saving.replace_nodes(both)


_CONTROL: dict[type, PullBack] = {Scan: pull_back_scan, Cond: pull_back_cond, While: pull_back_while}


class _Saving:
    """Differentiates loops and branches with residuals, and replaces them by the nodes that save the residuals."""

    def __init__(self) -> None:
        self.pulled: dict[Node, Pulled] = {}
        self.moved: dict[Node, tuple[Value, ...]] = {}

    def rule(self, b: CoreBuilder, node: Node, cotangents: Sequence[Value | None], needed: Sequence[int]) -> Gradients:
        """The differentiation rule for `pull_back`, for every node."""
        pull_back = _CONTROL.get(type(node.op))
        if pull_back is None:
            return vjp_of(b, node, cotangents, needed)
        pulled = self.pulled[node] = pull_back(b, node, cotangents, needed, _split_by_cut)
        return pulled.cotangents

    def replace_nodes(self, graph: Graph) -> Graph:
        """The graph with each loop and branch whose residuals are read replaced by the nodes that save them."""
        alive = set(graph.nodes)
        self.pulled = {node: pulled for node, pulled in self.pulled.items() if pulled.saving[-1] in alive}
        return rebuild(graph, self._replace, CoreBuilder(graph.name)) if self.pulled else graph

    def _replace(self, b: GraphBuilder, node: Node, operands: tuple[Value, ...]) -> Replacement:
        if node in self.moved:
            return self.moved[node]
        pulled = self.pulled.get(node)
        if pulled is None:
            return None
        new = dict(zip(node.inputs, operands, strict=True))
        for other in pulled.saving:
            copy = b.node(other.op, *(new[v] for v in other.inputs), name=other.name, location=other.location)
            self.moved[other] = copy.outputs
            new.update(zip(other.outputs, copy.outputs, strict=True))
        return [new[v] for v in pulled.results]


def _split_by_cut(
    graph: Graph, wrt: Sequence[int], seeds: Sequence[int], free_inputs: Collection[int], free_outputs: Collection[int]
) -> Split:
    """The forward and backward graph of a loop's body or a branch; the minimum cut selects the residuals."""
    joint = inline_calls(_joint(graph, wrt, seeds), own_gradients=False)
    return partition(joint, len(seeds), len(wrt), free_inputs, free_outputs)
