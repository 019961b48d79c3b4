"""Gathers the steps of a program that can run at the same time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence

from .program import Program, Step
from .step_accesses import GROUPED, StepAccess, StepGroup, step_accesses

Part = tuple[Hashable, Hashable]
"""What steps compute together, and the part of it that a step computes. Steps of other parts can run at the same
time, although their accesses overlap: these are ranges of bytes, and the parts can be pixels between others."""


def gather_steps(
    program: Program,
    steps: Sequence[Step],
    kinds_of: Callable[[Step], Collection[Hashable]],
    parts: Mapping[int, Part] | None = None,
) -> list[list[Step]]:
    """The steps of a program, or those that prepare, in groups: the groups run in order, and the steps of a group in
    any order, with the results of the steps in theirs. `parts` are those of steps, by `id`.

    A group has kinds that all of its steps have. A step moves before others to the first group of one of its kinds that
    it need not follow: none of the groups from there on reads or writes what it writes, or writes what it reads. A step
    without kinds, and one that is no launch, copy or fill, is a group of its own; no step moves over one of the latter.
    At last, a step that is alone moves behind others to the next group that it can join.
    """
    groups: list[_Group] = []
    for step, access in zip(steps, step_accesses(program, steps), strict=True):
        kinds = frozenset(kinds_of(step))
        part = (parts or {}).get(id(step))
        group = _first(groups, kinds, access, part) if kinds else None
        if group is None:
            group = _Group(kinds, is_barrier=not isinstance(step, GROUPED))
            groups.append(group)
        group.add(step, kinds, access, part)
    return [group.steps for group in _with_single_steps(groups)]


class _Group:
    def __init__(self, kinds: frozenset[Hashable], is_barrier: bool) -> None:
        self.kinds, self.is_barrier = kinds, is_barrier
        self.steps: list[Step] = []
        self.accesses: list[tuple[StepAccess, Part | None]] = []
        self._memory = StepGroup()

    def add(self, step: Step, kinds: frozenset[Hashable], access: StepAccess, part: Part | None) -> None:
        self.kinds &= kinds
        self.steps.append(step)
        self.accesses.append((access, part))
        self._memory.add(access)

    def take(self, other: _Group) -> None:
        """Add the only step of a group before this one."""
        ((access, part),) = other.accesses
        self.add(other.steps[0], other.kinds, access, part)

    def conflicts(self, access: StepAccess, part: Part | None) -> bool:
        """True if a step must follow one of the group."""
        if not self._memory.conflicts(access):
            return False
        if part is None:
            return True
        memory = StepGroup()
        for other, its in self.accesses:
            if its is None or its[0] != part[0] or its[1] == part[1]:
                memory.add(other)
        return memory.conflicts(access)


def _with_single_steps(groups: Sequence[_Group]) -> list[_Group]:
    """The groups without those of one step that can run with a later group."""
    result: list[_Group] = []
    for group in reversed(groups):
        later = _next(result, group) if len(group.steps) == 1 and group.kinds else None
        if later is None:
            result.append(group)
        else:
            later.take(group)
    return result[::-1]


def _next(later: Sequence[_Group], group: _Group) -> _Group | None:
    """The next of these groups, of which the last one comes first, that the only step of a group can join."""
    ((access, part),) = group.accesses
    for other in reversed(later):
        if other.is_barrier or other.conflicts(access, part):
            return None
        if other.kinds & group.kinds:
            return other
    return None


def _first(
    groups: Sequence[_Group], kinds: frozenset[Hashable], access: StepAccess, part: Part | None
) -> _Group | None:
    """The first group of one of these kinds that a step can join."""
    first = None
    for group in reversed(groups):
        if group.is_barrier or group.conflicts(access, part):
            break
        if group.kinds & kinds:
            first = group
    return first
