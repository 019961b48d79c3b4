"""The schedules of a kernel on a CPU or on a GPU, for a search that does not know which."""

from __future__ import annotations

from ...codegen.llvm.schedule import spaces
from ...codegen.llvm.schedule.kinds import Schedule as CpuSchedule
from ...codegen.llvm.schedule.tuned import entry_of as entry_of_cpu
from ...codegen.llvm.schedule.tuned import schedule_of as schedule_of_cpu
from ...codegen.llvm.target import CpuTarget
from ...codegen.triton import choices
from ...codegen.triton.choices import GpuChoice
from ...codegen.triton.target import GpuTarget
from ...codegen.tuned_entries import Entry, Value
from ...ir.kernel import Kernel
from ...ir.lazy_dataclass import dataclass

Schedule = CpuSchedule | GpuChoice


@dataclass(frozen=True)
class GpuSpaces:
    """A GPU with the mode of float32 products."""

    target: GpuTarget
    precision: str


Machine = CpuTarget | GpuSpaces
"""What schedules are chosen for."""


def default_schedule(kernel: Kernel, machine: Machine, parameters: frozenset[str]) -> Schedule:
    """The schedule of the formulas."""
    if isinstance(machine, GpuSpaces):
        return choices.default_choice(kernel, machine.target, machine.precision)[1]
    schedule = machine.schedule(kernel, parameters)
    assert schedule is not None
    return schedule


def alternatives(kernel: Kernel, schedule: Schedule, machine: Machine, parameters: frozenset[str]) -> list[Schedule]:
    """The schedules near `schedule`."""
    if isinstance(machine, GpuSpaces):
        assert isinstance(schedule, GpuChoice)
        start, _ = choices.default_choice(kernel, machine.target, machine.precision)
        return [*choices.neighbours(kernel, start, schedule, machine.target)]
    assert not isinstance(schedule, GpuChoice)
    return [*spaces.alternatives(kernel, schedule, machine, parameters)]


def allows(kernel: Kernel, schedule: Schedule, machine: Machine, parameters: frozenset[str]) -> bool:
    """True if the schedule computes the kernel rightly."""
    if isinstance(schedule, GpuChoice) != isinstance(machine, GpuSpaces):
        return False
    if isinstance(machine, GpuSpaces):
        assert isinstance(schedule, GpuChoice)
        start, _ = choices.default_choice(kernel, machine.target, machine.precision)
        return choices.allows(kernel, start, schedule, machine.target)
    assert not isinstance(schedule, GpuChoice)
    return spaces.allows(kernel, schedule, machine, parameters)


def entry_of(schedule: Schedule) -> dict[str, Value]:
    """The entry of a schedule in tables."""
    return choices.entry_of(schedule) if isinstance(schedule, GpuChoice) else entry_of_cpu(schedule)


def schedule_of(entry: Entry) -> Schedule:
    """The schedule of an entry. ValueError unless it has the fields of a schedule."""
    return choices.choice_in(entry) if entry.get("kind") == GpuChoice.__name__ else schedule_of_cpu(entry)
