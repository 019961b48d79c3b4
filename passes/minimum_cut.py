"""Minimum cuts of directed graphs with capacities, by Dinic's algorithm (Soviet Mathematics Doklady 11, 1970).

    cut = MinimumCut()
    cut.add_edge(x, y, 3)                an edge with a capacity; None is unlimited
    cut.add_source(x, 2)                 an edge from the source
    cut.add_sink(y, 5)                   an edge to the sink
    cut.sink_side()                      the vertices on the sink's side of a cut of the least capacity

Of all minimum cuts it finds the one with the fewest vertices on the source's side. Connected components are cut
separately.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Generic, TypeVar

V = TypeVar("V", bound=Hashable)


class MinimumCut(Generic[V]):
    """A graph under construction. Vertices are added by their edges, or by `add_vertex`."""

    def __init__(self) -> None:
        self._edges: dict[V, list[tuple[V, int | None]]] = {}
        self._before: dict[V, list[V]] = {}
        self._from_source: dict[V, int] = {}
        self._to_sink: dict[V, int] = {}

    def add_vertex(self, vertex: V) -> None:
        self._edges.setdefault(vertex, [])
        self._before.setdefault(vertex, [])

    def add_edge(self, source: V, target: V, capacity: int | None = None) -> None:
        self.add_vertex(source)
        self.add_vertex(target)
        self._edges[source].append((target, capacity))
        self._before[target].append(source)

    def add_source(self, vertex: V, capacity: int) -> None:
        self.add_vertex(vertex)
        self._from_source[vertex] = self._from_source.get(vertex, 0) + capacity

    def add_sink(self, vertex: V, capacity: int) -> None:
        self.add_vertex(vertex)
        self._to_sink[vertex] = self._to_sink.get(vertex, 0) + capacity

    def sink_side(self) -> set[V]:
        """The vertices on the sink's side."""
        side: set[V] = set()
        for component in self._components():
            if self._to_sink.keys().isdisjoint(component):
                continue
            if self._from_source.keys().isdisjoint(component):
                side.update(component)
            else:
                side |= set(component) - self._source_side(component)
        return side

    def _components(self) -> Iterator[list[V]]:
        """The vertices of each weakly connected component."""
        seen: set[V] = set()
        for first in self._edges:
            if first in seen:
                continue
            seen.add(first)
            component = [first]
            for vertex in component:
                for other in (*(v for v, _ in self._edges[vertex]), *self._before[vertex]):
                    if other not in seen:
                        seen.add(other)
                        component.append(other)
            yield component

    def _source_side(self, component: Sequence[V]) -> set[V]:
        number = {v: i for i, v in enumerate(component)}
        flow = _Flow(len(component))
        unlimited = 1 + sum(self._from_source.get(v, 0) for v in component)
        for v, i in number.items():
            for target, capacity in self._edges[v]:
                flow.add(i, number[target], unlimited if capacity is None else capacity)
            if v in self._from_source:
                flow.add(flow.source, i, self._from_source[v])
            if v in self._to_sink:
                flow.add(i, flow.sink, self._to_sink[v])
        reached = flow.saturate()
        return {v for v, i in number.items() if reached[i] >= 0}


class _Flow:
    """A flow network on vertices 0 to count - 1, the source and the sink. Edge e and its reverse, e ^ 1, share what is
    left of the capacity."""

    def __init__(self, count: int) -> None:
        self.source, self.sink = count, count + 1
        self.edges: list[list[int]] = [[] for _ in range(count + 2)]
        self.target: list[int] = []
        self.left: list[int] = []

    def add(self, source: int, target: int, capacity: int) -> None:
        self.edges[source].append(len(self.target))
        self.edges[target].append(len(self.target) + 1)
        self.target += (target, source)
        self.left += (capacity, 0)

    def saturate(self) -> list[int]:
        """Send as much as possible from the source to the sink. Returns which vertices the source then still reaches:
        those with a level of at least 0."""
        while (level := self._levels())[self.sink] >= 0:
            self._block(level)
        return level

    def _levels(self) -> list[int]:
        """The distance of each vertex from the source along edges with capacity; -1 if there is no path."""
        level = [-1] * len(self.edges)
        level[self.source] = 0
        queue = [self.source]
        edges, target, left = self.edges, self.target, self.left
        for vertex in queue:
            following = level[vertex] + 1
            for e in edges[vertex]:
                if left[e] and level[target[e]] < 0:
                    level[target[e]] = following
                    queue.append(target[e])
        return level

    def _block(self, level: Sequence[int]) -> None:
        """Send flow along paths of increasing level until none is left."""
        target, left, sink = self.target, self.left, self.sink
        following = [0] * len(self.edges)  # the next edge of each vertex to try
        path: list[int] = []
        vertex = self.source
        while True:
            if vertex == sink:
                amount = min([left[e] for e in path])
                for e in path:
                    left[e] -= amount
                    left[e ^ 1] += amount
                full = next(i for i, e in enumerate(path) if not left[e])
                vertex = target[path[full] ^ 1]
                del path[full:]
                continue
            edges, above, k = self.edges[vertex], level[vertex] + 1, following[vertex]
            while k < len(edges) and not (left[edges[k]] and level[target[edges[k]]] == above):
                k += 1
            following[vertex] = k
            if k < len(edges):
                path.append(edges[k])
                vertex = target[edges[k]]
            elif not path:
                return
            else:  # a dead end: go back, and do not come here again
                vertex = target[path.pop() ^ 1]
                following[vertex] += 1
