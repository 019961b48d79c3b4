"""The graph of a program's steps from the memory that they read and write."""

from __future__ import annotations

from itertools import combinations
from random import Random

import networkx as nx
import pytest
from mxforge.ir.program import Space
from mxforge.ir.program_graph import critical_path, data_alone, dependences, reduced
from mxforge.ir.step_accesses import Range, StepAccess


def arena(*bounds: tuple[int, int]) -> tuple[Range, ...]:
    return tuple(Range(Space.ARENA, 0, begin, end) for begin, end in bounds)


def step(reads: tuple[Range, ...] = (), writes: tuple[Range, ...] = ()) -> StepAccess:
    return StepAccess(reads, writes)


def edges(*accesses: StepAccess) -> dict[tuple[int, int], int]:
    graph = dependences(accesses)
    return {(a, b): graph.edges[a, b]["bytes"] for a, b in graph.edges}


def test_a_reader_depends_on_the_writers_of_its_bytes() -> None:
    steps = step(writes=arena((0, 64))), step(writes=arena((64, 128))), step(arena((32, 80)))
    assert edges(*steps) == {(0, 2): 32, (1, 2): 16}


def test_memory_that_is_used_again_orders_steps() -> None:
    steps = step(writes=arena((0, 8))), step(arena((0, 8))), step(arena((4, 8))), step(writes=arena((0, 8)))
    assert edges(*steps) == {(0, 1): 8, (0, 2): 4, (1, 3): 0, (2, 3): 0}
    assert set(data_alone(dependences(steps)).edges) == {(0, 1), (0, 2)}
    assert edges(step(writes=arena((0, 8))), step(writes=arena((7, 9)))) == {(0, 1): 0}


def test_a_step_in_place_reads_before_it_writes() -> None:
    first, change = step(writes=arena((0, 8))), step(arena((0, 8)), arena((0, 8)))
    assert edges(first, change, change, step(arena((0, 4)))) == {(0, 1): 8, (1, 2): 8, (2, 3): 4}


def test_other_memory_is_independent() -> None:
    places = [Range(Space.INPUT, 0, 0, 8), Range(Space.INPUT, 1, 0, 8), Range(Space.OUTPUT, 0, 0, 8), *arena((0, 8))]
    assert edges(*(step(writes=(place,)) for place in places)) == {}
    assert edges(*(step(reads=(places[0],)) for _ in range(3))) == {}
    assert edges(step(writes=arena((0, 0))), step(arena((0, 0)))) == {}


def _overlap(a: tuple[Range, ...], b: tuple[Range, ...]) -> bool:
    return any(
        (x.space, x.index) == (y.space, y.index) and max(x.begin, y.begin) < min(x.end, y.end) for x in a for y in b
    )


def _random_ranges(random: Random, most: int) -> tuple[Range, ...]:
    found: list[Range] = []
    for _ in range(random.randint(0, most)):
        begin = random.randint(0, 30)
        space, index = random.choice([(Space.ARENA, 0), (Space.ARENA, 0), (Space.INPUT, 1)])
        found.append(Range(space, index, begin, begin + random.randint(1, 12)))
    return tuple(found)


@pytest.mark.parametrize("seed", range(60))
def test_paths_are_those_of_all_pairs_that_conflict(seed: int) -> None:
    random = Random(seed)
    steps = [step(_random_ranges(random, 3), _random_ranges(random, 2)) for _ in range(random.randint(1, 25))]
    pairs: nx.DiGraph[int] = nx.DiGraph()
    pairs.add_nodes_from(range(len(steps)))
    for (i, a), (j, b) in combinations(enumerate(steps), 2):
        if _overlap(a.writes, (*b.reads, *b.writes)) or _overlap(a.reads, b.writes):
            pairs.add_edge(i, j)
    graph = dependences(steps)
    expected = set(nx.transitive_closure_dag(pairs).edges)
    assert set(graph.edges) <= set(pairs.edges)
    assert set(nx.transitive_closure_dag(graph).edges) == expected
    least = reduced(graph)
    assert set(nx.transitive_closure_dag(least).edges) == expected
    assert all(least.edges[e] == graph.edges[e] for e in least.edges)
    for edge in least.edges:
        fewer = least.copy()
        fewer.remove_edge(*edge)
        assert not nx.has_path(fewer, *edge)


@pytest.mark.parametrize("seed", range(20))
def test_the_critical_path_is_the_longest(seed: int) -> None:
    random = Random(seed)
    steps = [step(_random_ranges(random, 2), _random_ranges(random, 1)) for _ in range(9)]
    seconds = [random.random() for _ in steps]
    graph = dependences(steps)
    paths = [p for a in graph for b in graph for p in ([[a]] if a == b else nx.all_simple_paths(graph, a, b))]
    longest = max(sum(seconds[n] for n in path) for path in paths)
    assert sum(seconds[n] for n in critical_path(graph, seconds)) == pytest.approx(longest)


def test_graphs_without_steps_or_times() -> None:
    assert critical_path(dependences([]), []) == []
    assert critical_path(dependences([step()]), [0.0]) == [0]
