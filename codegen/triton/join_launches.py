"""Joins the launches of a program that can run at the same time: one launch of a joined kernel (`join.py`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ...ir.gather_steps import Part as PartOfNode
from ...ir.gather_steps import gather_steps
from ...ir.places import Access, Place
from ...ir.program import JOINED, Launch, Program, Step, all_steps
from ...passes.manager import Context, Options
from .emit import TritonSource
from .join import Member, chunks, join, kinds_of
from .kernel_code import KernelCode
from .part import Part
from .program_code import ProgramCode

if TYPE_CHECKING:
    from ...ir.code_store import CodeStore
    from .target import GpuTarget


def join_launches(
    program: Program,
    parts: Mapping[str, Part],
    add: Callable[[TritonSource], None],
    of_steps: Mapping[int, PartOfNode] | None = None,
) -> Program:
    """The program with joined launches; `parts` are the kernels that can be parts of others, by their symbols. `add`
    gets the new kernels. Results are the same: steps move only before others that they do not depend on. `of_steps`:
    see `gather_steps`."""
    joiner = _Joiner(program, parts, add, of_steps)
    return replace(program, prepare=joiner.steps(program.prepare), steps=joiner.steps(program.steps), groups=())


def join_compiled(program: Program, target: GpuTarget, kernels: CodeStore) -> Program:
    """`join_launches` for a program with the code of its kernels; `kernels` is where that of joined ones is."""
    codes = {code.name: (code, data) for data in program.code for code in (KernelCode.from_bytes(data),)}
    parts = {name: code.part for name, (code, _) in codes.items() if code.part is not None}
    new = ProgramCode(target, Context(target, Options(), kernels=kernels))
    joined = join_launches(program, parts, new.add)
    used = symbols_of(joined)
    return replace(joined, code=(*(data for name, (_, data) in codes.items() if name in used), *new.objects()))


def symbols_of(program: Program) -> set[str]:
    """The symbols of the launches of a program."""
    return {step.symbol for step in all_steps((*program.prepare, *program.steps)) if isinstance(step, Launch)}


class _Joiner:
    def __init__(
        self,
        program: Program,
        parts: Mapping[str, Part],
        add: Callable[[TritonSource], None],
        of_steps: Mapping[int, PartOfNode] | None,
    ) -> None:
        self.program, self.parts, self.add, self.of_steps = program, parts, add, of_steps

    def steps(self, steps: Sequence[Step]) -> tuple[Step, ...]:
        """The steps with joined launches."""
        groups = gather_steps(self.program, steps, self._kinds, self.of_steps)
        return tuple([step for group in groups for step in self._joined(group)])

    def _kinds(self, step: Step) -> Collection[Hashable]:
        part = self.parts.get(step.symbol) if isinstance(step, Launch) and step.count and step.accesses else None
        if part is None or not isinstance(step, Launch):
            return ()
        return kinds_of(_member(part, step))

    def _joined(self, group: Sequence[Step]) -> list[Step]:
        """The launches of a group, with few of them."""
        launches = [step for step in group if isinstance(step, Launch)]
        if len(launches) < 2:
            return list(group)
        members = [_member(self.parts[launch.symbol], launch) for launch in launches]
        return [self._launch([launches[i] for i in chunk], [members[i] for i in chunk]) for chunk in chunks(members)]

    def _launch(self, launches: Sequence[Launch], members: Sequence[Member]) -> Launch:
        if len(launches) == 1:
            return launches[0]
        joined = join(members)
        self.add(joined.source)
        arguments = [a if isinstance(a, int) else launches[a[0]].arguments[a[1]] for a in joined.arguments]
        kinds = {launch.kind for launch in launches}
        return Launch(
            joined.source.name,
            tuple(arguments),
            joined.source.programs(),
            1,
            kinds.pop() if len(kinds) == 1 else JOINED,
            tuple(dict.fromkeys(layer for launch in launches for layer in launch.layers)),
            "; ".join(dict.fromkeys(launch.fallback for launch in launches if launch.fallback)),
            tuple(_accesses(launches, arguments)),
        )


def _member(part: Part, launch: Launch) -> Member:
    return Member(part, launch.arguments, launch.count)


def _accesses(launches: Sequence[Launch], arguments: Sequence[Place | int]) -> list[Access]:
    """What a joined launch does with each place of its arguments: what the launches do there."""
    known: dict[Place, Access] = {}
    for launch in launches:
        places = [a for a in launch.arguments if isinstance(a, Place)]
        for place, access in zip(places, launch.accesses, strict=True):
            known[place] = _both(known.get(place, access), access)
    return [known[a] for a in arguments if isinstance(a, Place)]


def _both(a: Access, b: Access) -> Access:
    return Access(max(a.nbytes, b.nbytes), a.reads or b.reads, a.writes or b.writes)
