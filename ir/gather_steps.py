"""Gathers the steps of a program that can run at the same time."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from .program import Program, Step
from .step_accesses import GROUPED, StepAccess, StepGroup, step_accesses


def gather_steps(
    program: Program, steps: Sequence[Step], kind_of: Callable[[Step], Hashable | None]
) -> list[list[Step]]:
    """The steps of a program, or those that prepare, in groups: the groups run in order, and the steps of a group in
    any order, with the results of the steps in theirs.

    A step moves before others to the first group of its kind that it need not follow: none of the groups from there on
    reads or writes what it writes, or writes what it reads. A step of the kind None, and one that is no launch, copy or
    fill, is a group of its own; no step moves over one of the latter.
    """
    groups: list[_Group] = []
    for step, access in zip(steps, step_accesses(program, steps), strict=True):
        kind = kind_of(step)
        group = None if kind is None else _first(groups, kind, access)
        if group is None:
            group = _Group(kind, is_barrier=not isinstance(step, GROUPED))
            groups.append(group)
        group.steps.append(step)
        group.memory.add(access)
    return [group.steps for group in groups]


class _Group:
    def __init__(self, kind: Hashable | None, is_barrier: bool) -> None:
        self.kind, self.is_barrier = kind, is_barrier
        self.steps: list[Step] = []
        self.memory = StepGroup()


def _first(groups: Sequence[_Group], kind: Hashable, access: StepAccess) -> _Group | None:
    """The first group of a kind that a step can join."""
    first = None
    for group in reversed(groups):
        if group.is_barrier or group.memory.conflicts(access):
            break
        if group.kind == kind:
            first = group
    return first
