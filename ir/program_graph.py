"""The graph of a program's steps: which of them depend on which, by the memory that they read and write.

    step 0 writes 64 bytes, step 1 reads them       an edge 0 -> 1 with data
    step 2 writes other data there                  edges 0 -> 2 and 1 -> 2 without data

An edge without data exists only because memory is used again. Every order of the steps in which all edges point forward
computes the same results, as does running steps at the same time that no path connects.

    dependences(accesses)           the graph, from `step_accesses`; networkx is imported to make it
    data_alone(graph)               the same without the edges that the use of memory causes
    launch_order(program, steps)    the fewest edges that keep the results of a program
    reduced(graph)                  the fewest edges with the same paths: what a graph of launches needs
    critical_path(graph, seconds)   the steps that take the most time one after the other
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from .lazy_dataclass import dataclass
from .places import Space
from .program import Program, Step
from .step_accesses import Range, StepAccess, step_accesses

if TYPE_CHECKING:
    from networkx import DiGraph

    Graph = DiGraph[int]


def dependences(accesses: Sequence[StepAccess]) -> Graph:
    """The graph of steps with these accesses, in the order of the program. A node is the number of a step; the
    attribute `bytes` of an edge counts what the second step reads of what the first one wrote (0: no data).

    Of the steps before it, a step has edges from the last writers of what it reads and writes, and from the readers
    since then of what it writes. There are paths from the others that it depends on.
    """
    from networkx import DiGraph

    graph: Graph = DiGraph()
    graph.add_nodes_from(range(len(accesses)))
    blocks: dict[tuple[Space, int], _Block] = {}
    for number, access in enumerate(accesses):
        for interval, size in _intervals(blocks, access.reads):
            if interval.writer is not None:
                _connect(graph, interval.writer, number, size)
            interval.readers.append(number)
        for interval, _ in _intervals(blocks, access.writes):
            for other in interval.readers or ([] if interval.writer is None else [interval.writer]):
                _connect(graph, other, number, 0)
            interval.writer, interval.readers = number, []
    return graph


def _connect(graph: Graph, before: int, after: int, nbytes: int) -> None:
    if before != after:
        known = graph.edges[before, after]["bytes"] if graph.has_edge(before, after) else 0
        graph.add_edge(before, after, bytes=known + nbytes)


@dataclass(slots=True)
class _Interval:
    """The last writer of some bytes, and the readers since then."""

    writer: int | None
    readers: list[int]


class _Block:
    """Bytes from 0 on, divided into intervals whose bytes have the same history."""

    def __init__(self) -> None:
        self.starts = [0]
        self.intervals = [_Interval(None, [])]

    def within(self, begin: int, end: int) -> Iterator[tuple[_Interval, int]]:
        """The intervals of [begin, end) with their sizes."""
        first, last = self._cut(begin), self._cut(end)
        ends = self.starts[first + 1 : last + 1]
        sizes = [after - start for start, after in zip(self.starts[first:last], ends, strict=True)]
        return zip(self.intervals[first:last], sizes, strict=True)

    def _cut(self, at: int) -> int:
        """The number of the interval that begins at `at`."""
        number = bisect_left(self.starts, at)
        if number == len(self.starts) or self.starts[number] != at:
            before = self.intervals[number - 1]
            self.starts.insert(number, at)
            self.intervals.insert(number, _Interval(before.writer, list(before.readers)))
        return number


def _intervals(blocks: dict[tuple[Space, int], _Block], ranges: Iterable[Range]) -> Iterator[tuple[_Interval, int]]:
    for part in ranges:
        if part.begin < part.end:
            yield from blocks.setdefault((part.space, part.index), _Block()).within(part.begin, part.end)


def data_alone(graph: Graph) -> Graph:
    """The graph without the edges that have no data: the dependences if no memory were used again."""
    copy = graph.copy()
    copy.remove_edges_from([(a, b) for a, b in graph.edges if not graph.edges[a, b]["bytes"]])
    return copy


def reduced(graph: Graph) -> Graph:
    """The graph with the fewest edges that has the same paths."""
    from networkx import transitive_reduction

    copy = graph.copy()
    kept = transitive_reduction(graph)
    copy.remove_edges_from([edge for edge in graph.edges if not kept.has_edge(*edge)])
    return copy


def launch_order(program: Program, steps: Sequence[Step]) -> list[tuple[int, int]]:
    """The edges of the graph of some of a program's steps, as few as possible: what a graph of launches needs.

    An output can be in the memory of an input that is read element by element (`Program.elementwise`), so steps that
    write an output follow those that read such an input.
    """
    shared = tuple(Range(Space.INPUT, i, 0, program.inputs[i].nbytes) for i in sorted(program.elementwise))

    def with_shared(access: StepAccess) -> StepAccess:
        writes_output = any(touched.space is Space.OUTPUT for touched in access.writes)
        return StepAccess(access.reads, (*access.writes, *shared)) if writes_output else access

    return sorted(reduced(dependences([with_shared(access) for access in step_accesses(program, steps)])).edges)


def critical_path(graph: Graph, seconds: Sequence[float]) -> list[int]:
    """The path of steps that takes the most time, if the step of each number takes so long. It is the least time in
    which any number of processors can run the steps."""
    ends: list[float] = []  # the time of the longest path to each step; edges point to higher numbers
    before: list[int | None] = []
    for number, own in enumerate(seconds):
        last = max(graph.pred[number], key=ends.__getitem__, default=None)
        ends.append(own + (0.0 if last is None else ends[last]))
        before.append(last)
    number = max(range(len(ends)), key=ends.__getitem__, default=None)
    path: list[int] = []
    while number is not None:
        path.append(number)
        number = before[number]
    return path[::-1]
