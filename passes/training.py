"""The pipeline stages for training: one graph becomes a forward and a backward graph."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from ..ir.dialects.core import Relayout, products_of
from ..ir.dialects.core.gradient import cotangent_positions, gradient_graph
from ..ir.dialects.core.split import Split
from ..ir.graph import Graph, GraphBuilder, Value
from ..ir.symbolic import typical
from ..ir.types import Layout, TensorType
from .differentiate import Differentiate
from .manager import Context, Options, run_passes
from .partition import partition
from .pipeline import JOINT, to_core_with_gradients
from .row_gradients import with_row_gradients


def lowered_for_gradients(graph: Graph, wrt: Sequence[int], context: Context) -> Graph:
    """A graph of mx as one of core in which operators keep their own gradients."""
    return run_passes(to_core_with_gradients(wrt), graph, context)


def gradient_of(core: Graph, wrt: Sequence[int]) -> Graph:
    """The function (inputs, cotangents of the outputs that can have one) -> cotangents of the inputs `wrt`.

    It can be differentiated again: it computes everything from the inputs. `core` is a graph of
    `lowered_for_gradients`.
    """
    results = core.outputs[: core.num_results]
    plain = replace(core, outputs=results, updates=(), late=frozenset(), checks=())
    return gradient_graph(plain, wrt, cotangent_positions(results))


def training_graphs(graph: Graph, wrt: Sequence[int], context: Context, rows: Collection[int] = ()) -> Split:
    """The forward graph of a graph of mx or core nodes, and the backward graph that computes the cotangents of the
    inputs `wrt`. Both must still pass the stages optimise and lower. GraphError names a node without a gradient.

    If operators draw random numbers, the random key is the last input of the forward graph. The backward graph does the
    late updates. Residuals that are not among the results of `graph` are private outputs of the forward graph.
    Cotangents at the positions `rows` are two outputs each if they are sums of rows, see `row_gradients.py`; the
    positions of these are in `Split.rows`.
    """
    core = lowered_for_gradients(graph, wrt, context)
    joint = run_passes((Differentiate(tuple(wrt)), *JOINT), core, context)
    joint, rows = with_row_gradients(joint, len(wrt), rows)
    gradients = len(wrt) + len(rows)
    cotangents, budget = len(joint.inputs) - len(core.inputs), context.options.residual_bytes
    first = core.num_results
    split = partition(joint, cotangents, gradients)
    for price in _PRICES:
        if budget is None or _saved_bytes(split, first) <= budget:
            break
        split = partition(joint, cotangents, gradients, price=price)
    last = split.forward.num_results
    return replace(split, forward=replace(split.forward, private=frozenset(range(first, last))), rows=rows)


def keeps_prepared(forward: Graph) -> bool:
    """Whether a forward program should keep what depends on parameters alone, such as packed weights, for runs with the
    same parameters. Otherwise each run computes it: in few per cent of its time, and in little memory."""
    weights = sum(forward.inputs[i].type.nbytes for i in forward.parameters)
    return not weights or typical(sum(map(products_of, forward.nodes))) < _MUCH_WORK * typical(weights)


def derivative_options(split: Split, options: Options) -> tuple[Options, Options]:
    """The options of the forward and of the backward program. Their graphs are of core, which has no modes: a call
    without a tape shares the forward program if it keeps nothing. Parameters change between backward passes, so the
    backward program keeps nothing that depends on them alone."""
    options = replace(options, training=False)
    forward = replace(options, keeps_prepared=keeps_prepared(split.forward))
    return forward, replace(options, keeps_prepared=False)


_MUCH_WORK = 200
"""Multiply-adds for each byte of weights. Packing a byte takes as long as about ten."""

_PRICES = (2, 4, 8, 16, 64, 1 << 20)
"""The prices of a saved byte that are tried until a budget is met. The last recomputes whatever can be recomputed."""


def _saved_bytes(split: Split, results: int) -> int:
    """The bytes that the forward graph returns in addition to its results."""
    kept = {s.position for s in split.residuals if not s.is_input and s.position >= results}
    return sum(split.forward.outputs[i].type.nbytes for i in kept)


def backward_graph(split: Split, types: Sequence[TensorType]) -> Graph:
    """The backward graph of a derivative whose forward program has results of these types."""
    stored = {i: types[s.position].layout for i, s in enumerate(split.residuals) if not s.is_input}
    layouts = {i: layout for i, layout in stored.items() if layout is not None}
    return with_stored_inputs(split.backward, layouts) if layouts else split.backward


def with_stored_inputs(graph: Graph, layouts: Mapping[int, Layout]) -> Graph:
    """A graph whose inputs at these positions are stored in these layouts, as another program wrote them."""
    b = GraphBuilder(graph.name)
    inputs = [Value(v.type.with_layout(layouts.get(i)), None, i, v.name) for i, v in enumerate(graph.inputs)]
    new = {
        v: b.add_node(Relayout(None), x, name=v.name) if i in layouts else x
        for i, (v, x) in enumerate(zip(graph.inputs, inputs, strict=True))
    }
    for node in graph.nodes:
        b.append(node.on([new[v] for v in node.inputs]))
        new.update(zip(node.outputs, b.nodes[-1].outputs, strict=True))
    outputs = tuple(new[v] for v in graph.outputs)
    return replace(graph, inputs=tuple(inputs), nodes=tuple(b.nodes), outputs=outputs)
