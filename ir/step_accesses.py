"""What the steps of a program read and write, and what follows from it: groups of independent steps, and the moment at
which an output has its value. `program_graph.py` makes a graph of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from .lazy_dataclass import dataclass
from .places import Access, Space
from .program import Copy, Fill, Launch, Program, Step, own_places, walk

_UNKNOWN = Access(0, reads=True, writes=True)


@dataclass(frozen=True, slots=True)
class Range:
    """The bytes from `begin` to before `end` of the memory that the places of a space and an index are in."""

    space: Space
    index: int
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class StepAccess:
    """What a step reads, and what it then writes."""

    reads: tuple[Range, ...]
    writes: tuple[Range, ...]


def step_accesses(program: Program, steps: Sequence[Step] | None = None) -> list[StepAccess]:
    """What each step of a program, or each of some of them, reads and writes. A loop or a branch reads all that a step
    in it reads, and writes all that one writes. A launch of unknown accesses reads and writes the whole blocks of
    memory."""
    return [_step_access(program, step) for step in (program.steps if steps is None else steps)]


def _step_access(program: Program, step: Step) -> StepAccess:
    reads: dict[Range, None] = {}
    writes: dict[Range, None] = {}
    for inner, counts in walk((step,)):
        places, accesses = own_places(inner), program.accesses(inner)
        for number, place in enumerate(places):
            if accesses:
                first, last = place.reach(counts)
                access = accesses[number]
                touched = Range(place.space, place.index, first, last + access.nbytes)
            else:
                touched, access = Range(place.space, place.index, 0, program.extent(place)), _UNKNOWN
            if access.reads:
                reads[touched] = None
            if access.writes:
                writes[touched] = None
    return StepAccess(tuple(reads), tuple(writes))


def last_accesses(program: Program) -> dict[int, int]:
    """The position of the last step that accesses an output, for each output to which a step writes. After this step
    the output has its value, which no step reads any more."""
    last: dict[int, int] = {}
    written: set[int] = set()
    for n, access in enumerate(step_accesses(program)):
        written.update(touched.index for touched in access.writes if touched.space is Space.OUTPUT)
        for touched in (*access.reads, *access.writes):
            if touched.space is Space.OUTPUT:
                last[touched.index] = n
    return {position: n for position, n in last.items() if position in written}


def group_steps(program: Program) -> Program:
    """The program whose groups are the longest that the order of its steps allows: consecutive launches, copies and
    fills of which none reads or writes what another one writes."""
    groups: list[int] = []
    group: StepGroup | None = None
    for step, access in zip(program.steps, step_accesses(program), strict=True):
        if group is None or not isinstance(step, GROUPED) or group.conflicts(access):
            groups.append(0)
            group = StepGroup()
        groups[-1] += 1
        group.add(access)
        if not isinstance(step, GROUPED):
            group = None
    return replace(program, groups=tuple(groups))


GROUPED = Launch | Copy | Fill
"""The kinds of steps that can run at the same time."""


class StepGroup:
    """The memory that steps access."""

    def __init__(self) -> None:
        self._reads: dict[tuple[Space, int], list[Range]] = {}
        self._writes: dict[tuple[Space, int], list[Range]] = {}

    def add(self, access: StepAccess) -> None:
        """Add a step."""
        for ranges, by_block in ((access.reads, self._reads), (access.writes, self._writes)):
            for touched in ranges:
                by_block.setdefault((touched.space, touched.index), []).append(touched)

    def conflicts(self, access: StepAccess) -> bool:
        """True if a step writes what the steps read or write, or reads what they write."""
        return any(_overlap(touched, self._writes) for touched in access.reads) or any(
            _overlap(touched, self._writes) or _overlap(touched, self._reads) for touched in access.writes
        )


def _overlap(touched: Range, by_block: Mapping[tuple[Space, int], Sequence[Range]]) -> bool:
    others = by_block.get((touched.space, touched.index), ())
    return any(other.begin < touched.end and touched.begin < other.end for other in others)
