"""Cuts have the least capacity among all cuts, and the fewest vertices on the source's side."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest
from mxforge.passes.minimum_cut import MinimumCut


@pytest.mark.parametrize("seed", range(40))
def test_random_graphs(seed: int) -> None:
    random = Random(seed)
    count = random.randrange(1, 8)
    cut: MinimumCut[int] = MinimumCut()
    edges: list[tuple[int, int, int]] = []
    for v in range(count):
        cut.add_vertex(v)
    for _ in range(random.randrange(2 * count)):
        x, y, capacity = random.randrange(count), random.randrange(count), random.choice([None, 0, 1, 2, 5, 9])
        cut.add_edge(x, y, capacity)
        edges.append((x, y, 10_000 if capacity is None else capacity))
    source = {v: random.randrange(9) for v in range(count) if random.random() < 0.6}
    sink = {v: random.randrange(9) for v in range(count) if random.random() < 0.6}
    for v, capacity in source.items():
        cut.add_source(v, capacity)
    for v, capacity in sink.items():
        cut.add_sink(v, capacity)

    def total(on_source: set[int]) -> int:
        between = sum(c for x, y, c in edges if x in on_source and y not in on_source)
        return (
            between
            + sum(c for v, c in source.items() if v not in on_source)
            + sum(c for v, c in sink.items() if v in on_source)
        )

    subsets = [set(s) for n in range(count + 1) for s in combinations(range(count), n)]
    least = min(map(total, subsets))
    found = set(range(count)) - cut.sink_side()
    assert total(found) == least
    touched = {v for v in found if not isolated(v, edges, sink)}
    assert touched == {
        v for v in min((s for s in subsets if total(s) == least), key=len) if not isolated(v, edges, sink)
    }


def isolated(vertex: int, edges: list[tuple[int, int, int]], sink: dict[int, int]) -> bool:
    """Whether the component of a vertex has no edge to the sink: such vertices stay on the source's side."""
    component = {vertex}
    while True:
        grown = component | {y for x, y, _ in edges if x in component} | {x for x, y, _ in edges if y in component}
        if grown == component:
            return component.isdisjoint(sink)
        component = grown


def test_long_chains() -> None:
    cut: MinimumCut[int] = MinimumCut()
    cut.add_source(0, 5)
    for v in range(3000):
        cut.add_edge(v, v + 1, 3 if v == 1234 else 4)
    cut.add_sink(3000, 9)
    assert cut.sink_side() == set(range(1235, 3001))
