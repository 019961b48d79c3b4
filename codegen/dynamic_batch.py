"""Exports graphs as StableHLO for any batch size: the first extents of some inputs are unknown."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from ..ir.dialects.core.primitive import Array
from ..ir.graph import Graph, GraphError
from ..ir.symbolic import Trace
from .dynamic import with_shapes
from .stablehlo.export import stablehlo_text

_ASSUMED = 9973
"""The batch size during the export: a prime that no other extent of a network is likely to be."""

_TRIED = (*range(1, 65), 100, 128, 1000, 1024, 4096, 1 << 20)
"""The batch sizes for which the decisions of the export must hold."""

Lower = Callable[[Graph], Graph]
"""Lowers a graph of mx nodes to core."""


def dynamic_batch_text(
    graph: Graph,
    batched: Collection[int],
    lower: Lower,
    constants: Mapping[int, Array] | None = None,
    results: Sequence[str] | None = None,
) -> str:
    """The module of a graph of mx nodes, see `stablehlo_text`. The first extents of the inputs `batched` are `?`.

    The batch size is no other number, also where it is equal to one: an axis of that size is not broadcast if it is 1.
    GraphError names a node that requires certain batch sizes, or that has no dynamic form in StableHLO.
    """
    trace = Trace()
    try:
        text = stablehlo_text(lower(_with_batch(graph, batched, trace)), constants, results)
    except GraphError as error:
        note = f" ({_ASSUMED} is the unknown batch size)" if str(_ASSUMED) in str(error) else ""
        raise GraphError(f"{error}{note}", error.reason) from error.__cause__
    required = _required(trace)
    if required:
        culprit = graph.nodes[_first_broken(graph, batched, lower) - 1]
        raise GraphError(f"{culprit.describe()}: requires certain batch sizes ({', '.join(required)})")
    return text


def _with_batch(graph: Graph, batched: Collection[int], trace: Trace) -> Graph:
    batch = trace.unknown(_ASSUMED)
    shapes = [v.type.shape for v in graph.inputs]
    return with_shapes(graph, [(batch, *s[1:]) if i in batched else s for i, s in enumerate(shapes)])


def _required(trace: Trace) -> list[str]:
    """The decisions that depend on the batch size, other than that two extents differ: what is done if they differ is
    right if they are equal too."""
    broken = {guard: None for size in _TRIED for guard in trace.broken_guards(size)}
    batch = trace.unknowns[0].name
    required = [g for g in broken if "!=" not in g and not (g.startswith("not") and "==" in g)]
    return [re.sub(rf"\b{batch}\b", "batch", guard) for guard in required]


def _first_broken(graph: Graph, batched: Collection[int], lower: Lower) -> int:
    """The least number of nodes, in order, that require certain batch sizes."""

    def is_broken(count: int) -> bool:
        nodes, trace = graph.nodes[:count], Trace()
        outputs = tuple([v for node in nodes for v in node.outputs])
        part = replace(graph, nodes=nodes, outputs=outputs, updates=(), late=frozenset[int](), checks=())
        lower(_with_batch(part, batched, trace))
        return bool(_required(trace))

    return bisect_left(range(len(graph.nodes)), True, key=is_broken)
