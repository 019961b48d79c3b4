"""Places the nodes of a graph without cycles in layers, from top to bottom, for drawings.

A node is below all nodes before it, and near the first one after it. An edge that passes layers has a bend in each of
them, which takes room as a node does. Sweeps over the layers move each node to the average of its neighbours, so that
few edges cross.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Generic, TypeVar

from ...ir.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from networkx import DiGraph

N = TypeVar("N", bound=Hashable)
Pair = tuple[float, float]

_GAP, _LAYER_GAP, _BEND = 24.0, 36.0, 10.0
"""Between nodes of a layer, between layers, and the width of a bend."""
_SWEEPS = 6


@dataclass(frozen=True)
class Layout(Generic[N]):
    """The centres of nodes, the points of edges from the bottom of a node to the top of another one, and the size of
    the whole."""

    nodes: Mapping[N, Pair]
    edges: Mapping[tuple[N, N], Sequence[Pair]]
    size: Pair


def layered_layout(graph: DiGraph[N], sizes: Mapping[N, Pair]) -> Layout[N]:
    """The layout of a graph whose nodes have these widths and heights."""
    layers = _Layers()
    numbers = {node: layers.add(level, *sizes[node]) for node, level in _levels(graph).items()}
    chains = {(a, b): layers.connect(numbers[a], numbers[b]) for a, b in graph.edges}
    layers.arrange()
    centres, heights = layers.centres(), layers.heights
    edges: dict[tuple[N, N], list[Pair]] = {}
    for edge, chain in chains.items():
        (x0, y0), (x1, y1) = centres[chain[0]], centres[chain[-1]]
        start, end = (x0, y0 + heights[chain[0]] / 2), (x1, y1 - heights[chain[-1]] / 2)
        edges[edge] = [start, *(centres[n] for n in chain[1:-1]), end]
    return Layout({node: centres[n] for node, n in numbers.items()}, edges, layers.size())


def _levels(graph: DiGraph[N]) -> dict[N, int]:
    """The number of the layer of each node: as low as the nodes after it allow, so that edges are short."""
    from networkx import topological_generations

    levels = {node: level for level, nodes in enumerate(topological_generations(graph)) for node in nodes}
    for node in reversed(list(levels)):
        levels[node] = min((levels[n] - 1 for n in graph.succ[node]), default=levels[node])
    return levels


class _Layers:
    """Nodes and bends by number, and the layers that list them from left to right."""

    def __init__(self) -> None:
        self.levels: list[int] = []
        self.widths: list[float] = []
        self.heights: list[float] = []
        self.above: list[list[int]] = []  # neighbours in the layers above and below
        self.below: list[list[int]] = []
        self.layers: list[list[int]] = []
        self.x: list[float] = []

    def add(self, level: int, width: float, height: float) -> int:
        """A further node, to the right of the others of its layer."""
        number = len(self.levels)
        self.levels.append(level)
        self.widths.append(width)
        self.heights.append(height)
        self.above.append([])
        self.below.append([])
        while len(self.layers) <= level:
            self.layers.append([])
        self.layers[level].append(number)
        return number

    def connect(self, first: int, last: int) -> list[int]:
        """An edge: its nodes with the bends between them."""
        between = range(self.levels[first] + 1, self.levels[last])
        chain = [first, *(self.add(level, _BEND, 0.0) for level in between), last]
        for a, b in pairwise(chain):
            self.below[a].append(b)
            self.above[b].append(a)
        return chain

    def arrange(self) -> None:
        """Order the layers, then move their nodes towards their neighbours."""
        self.x = [0.0] * len(self.levels)
        for layer in self.layers:
            self._place(layer, [0.0] * len(layer))
        for sweep in range(2 * _SWEEPS):
            down = sweep % 2 == 0
            for layer in self.layers if down else reversed(self.layers):
                ideal = {n: self._average(n, self.above[n] if down else self.below[n]) for n in layer}
                if sweep < _SWEEPS:
                    layer.sort(key=ideal.__getitem__)
                self._place(layer, [ideal[n] for n in layer])

    def _average(self, number: int, neighbours: Sequence[int]) -> float:
        return sum(self.x[n] for n in neighbours) / len(neighbours) if neighbours else self.x[number]

    def _place(self, layer: Sequence[int], ideal: Sequence[float]) -> None:
        """Place a layer near the ideal centres, in its order and without overlaps: between the nearest places at or
        right of them, and those at or left of them."""
        distances = [(self.widths[a] + self.widths[b]) / 2 + _GAP for a, b in pairwise(layer)]
        right, left = list(ideal), list(ideal)
        for i, distance in enumerate(distances):
            right[i + 1] = max(right[i + 1], right[i] + distance)
        for i in reversed(range(len(distances))):
            left[i] = min(left[i], left[i + 1] - distances[i])
        for n, a, b in zip(layer, left, right, strict=True):
            self.x[n] = (a + b) / 2

    def centres(self) -> list[Pair]:
        """The centre of each node; the left end of all is at 0."""
        least = min((x - w / 2 for x, w in zip(self.x, self.widths, strict=True)), default=0.0)
        y, middles = 0.0, list[float]()
        for layer in self.layers:
            height = max((self.heights[n] for n in layer), default=0.0)
            middles.append(y + height / 2)
            y += height + _LAYER_GAP
        return [(x - least, middles[level]) for x, level in zip(self.x, self.levels, strict=True)]

    def size(self) -> Pair:
        """The width and the height of the whole."""
        right = max((x + w / 2 for (x, _), w in zip(self.centres(), self.widths, strict=True)), default=0.0)
        bottom = max((y + h / 2 for (_, y), h in zip(self.centres(), self.heights, strict=True)), default=0.0)
        return right, bottom
