"""Merging of groups: cycles are found, and the cost of the search is linear in the graph."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest
from mxforge.ir.dialects.core import CoreBuilder
from mxforge.ir.graph import Graph, Node, Value
from mxforge.passes.differentiate import differentiate
from mxforge.passes.fuse import find_groups
from mxforge.passes.groups import Group, GroupGraph, find_dataflow
from rewriting import tensor


def _random_graph(rng: random.Random, count: int) -> Graph:
    """Nodes that each read one to three of the earlier results."""
    b = CoreBuilder()
    values = [b.input(tensor(4, 3))]
    for _ in range(count):
        chosen = rng.choices(values[-6:], k=rng.randint(1, 3))
        made = b.exp(chosen[0])
        for other in chosen[1:]:
            made = b.add(made, b.broadcast_to(other, (4, 3)))
        values.append(made)
    return b.build(values[-1:])


def _below(group: Group) -> Iterator[Group]:
    """All groups that depend on `group`, once per path."""
    for reader in group.readers:
        yield reader
        yield from _below(reader)


def _has_longer_path(before: Group, own: Group) -> bool:
    return any(own in _below(g) for g in before.readers if g is not own)


def test_cycles_are_those_of_an_exhaustive_search() -> None:
    assert {verdict for seed in range(60) for verdict in _merge_at_random(random.Random(seed))} == {True, False}


def _merge_at_random(rng: random.Random) -> list[bool]:
    """The answers of `closes_cycle` while groups merge; each answer is checked."""
    groups = GroupGraph(find_dataflow(_random_graph(rng, 12)))
    verdicts: list[bool] = []
    for node in groups.flow.producers:
        groups.add(node)
        for producer in groups.flow.producers[node]:
            before, own = groups.of[producer], groups.of[node]
            if before is own:
                continue
            verdicts.append(groups.closes_cycle(before, own))
            assert verdicts[-1] == _has_longer_path(before, own)
            if not verdicts[-1] and rng.random() < 0.5:
                groups.merge(before, own)
            _check(groups)
    return verdicts


def _check(groups: GroupGraph) -> None:
    """The groups' edges match those of their nodes, and every level is greater than the levels of the inputs."""
    for group in set(groups.of.values()):
        read = {groups.of[p] for n in group.nodes for p in groups.flow.producers[n]}
        assert set(group.inputs) == read - {group}
        assert all(group in g.readers and g.level < group.level for g in group.inputs)
        assert all(group in g.inputs for g in group.readers)


def _residual_training_step(layers: int) -> Graph:
    """Convolutions with batch statistics, ReLU and shortcuts, and their gradient."""
    b = CoreBuilder()
    shape = (2, 8, 6, 6)
    x = shortcut = b.input(tensor(*shape))
    for layer in range(layers):
        weight = b.input(tensor(8, 8, 3, 3))
        y = b.conv(x, weight, (1, 1), ((1, 1), (1, 1)))
        centred = b.sub(y, b.broadcast_to(b.mean(y, (0, 2, 3), keepdims=True), shape))
        scale = b.rsqrt(b.mean(b.mul(centred, centred), (0, 2, 3), keepdims=True))
        x = b.maximum(b.mul(centred, b.broadcast_to(scale, shape)), 0.0)
        if layer % 2:
            x = shortcut = b.add(x, shortcut)
    forward = b.build([x])
    return differentiate(forward, range(len(forward.inputs)))


def _steps_that_read_early_sums(steps: int) -> Graph:
    """Sums of all steps' rows come first. Each step of the recurrence reads its own sum, and a product reads it too."""
    b = CoreBuilder()
    h, w = b.input(tensor(4)), b.input(tensor(4, 4))
    sums = [b.sum(b.input(tensor(4, 3)), 1) for _ in range(steps)]
    for s in sums:
        h = b.add(b.dot(w, h, (), (), (1,), (0,)), s)
    return b.build([h, *(b.dot(w, s, (), (), (1,), (0,)) for s in sums)])


def _sums_that_meet_a_chain(steps: int) -> Graph:
    """Sums and a chain of products that are independent, until nodes at the end read both."""
    b = CoreBuilder()
    h, w = b.input(tensor(4)), b.input(tensor(4, 4))
    side = total = b.sum(b.input(tensor(4, 3)), 1)
    for _ in range(steps):
        h = b.dot(w, h, (), (), (1,), (0,))
        side = b.dot(w, side, (), (), (1,), (0,))
    return b.build([side, *(b.dot(w, b.add(b.mul(h, float(i)), total), (), (), (1,), (0,)) for i in range(steps))])


def _chain(length: int) -> Graph:
    b = CoreBuilder()
    x = y = b.input(tensor(4, 6))
    for _ in range(length):
        y = b.add(b.tanh(y), b.exp(x))
    return b.build([y])


def _readers_of_one_sum(count: int) -> Graph:
    b = CoreBuilder()
    x, w = b.input(tensor(5, 6)), b.input(tensor(5, 5))
    total = b.sum(x, 1)
    near = [b.exp(b.add(total, float(i))) for i in range(count)]
    return b.build([*near, *(b.dot(w, total, (), (), (1,), (0,)) for _ in range(count))])


GRAPHS: dict[str, tuple[Callable[[int], Graph], int]] = {
    "a residual training step": (_residual_training_step, 8),
    "steps that read early sums": (_steps_that_read_early_sums, 60),
    "sums that meet a chain": (_sums_that_meet_a_chain, 60),
    "a chain": (_chain, 150),
    "readers of one sum": (_readers_of_one_sum, 120),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_the_cost_of_the_search_for_cycles_is_linear(name: str) -> None:
    make, size = GRAPHS[name]
    graphs = [make(size * scale) for scale in (1, 2, 4)]
    per_node = [find_groups(g).steps / len(g.nodes) for g in graphs]
    assert per_node[2] < 1.1 * per_node[0] + 0.1, per_node


def _nodes_between(graph: Graph) -> set[Node]:
    return {n for n in graph.nodes if n not in find_dataflow(graph).producers}


def test_virtual_nodes_are_transparent() -> None:
    b = CoreBuilder()
    x = b.input(tensor(6))
    y = b.exp(x)
    spread = b.broadcast_to(b.reshape(y, (1, 6)), (4, 6))
    z = b.add(spread, spread)
    graph = b.build([z, spread])
    flow = find_dataflow(graph)
    first, last = _node(y), _node(z)
    assert _nodes_between(graph) == {n for n in graph.nodes if n not in (first, last)}
    assert (flow.producers[last], flow.readers[first], flow.leaving) == ([first], [last], {first, last})


def _node(value: Value) -> Node:
    assert value.node is not None
    return value.node
