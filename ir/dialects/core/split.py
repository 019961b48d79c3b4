"""A computation and its gradient as two graphs, and the residuals that the first saves for the second."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from ...graph import Graph
from ...lazy_dataclass import dataclass
from .gradient import gradient_graph


@dataclass(frozen=True)
class Source:
    """The position of a residual among the operands or the results of the forward graph."""

    position: int
    is_input: bool


@dataclass(frozen=True)
class Split:
    """The forward and the backward graph of a computation.

    forward: inputs -> the outputs of the computation, then residuals that are not among its inputs and outputs, then
    the outputs that update inputs. backward: one input per residual, then the cotangents -> the gradients. Gradients at
    the positions `rows` are two results each: numbers of rows, and rows.
    """

    forward: Graph
    backward: Graph
    residuals: tuple[Source, ...]
    rows: tuple[int, ...] = ()


Splitter = Callable[[Graph, Sequence[int], Sequence[int], Collection[int], Collection[int]], Split]
"""Splits (graph, wrt, seeds, free inputs, free outputs); `wrt` and `seeds` are defined in `gradient_graph`. Inputs and
outputs at the free positions can be residuals directly; others must be additional results of the forward graph."""


def recompute(
    graph: Graph, wrt: Sequence[int], seeds: Sequence[int], free_inputs: Collection[int], free_outputs: Collection[int]
) -> Split:
    """The split that saves only inputs: the backward graph recomputes all other values."""
    kept = [i for i in range(len(graph.inputs)) if i not in free_inputs]
    places = {i: Source(len(graph.outputs) + k, False) for k, i in enumerate(kept)}
    residuals = [places.get(i, Source(i, True)) for i in range(len(graph.inputs))]
    forward = replace(graph, outputs=graph.outputs + tuple(graph.inputs[i] for i in kept))
    return Split(forward, gradient_graph(graph, wrt, seeds), tuple(residuals))
