"""The interface of a kind of schedule: which contractions it supports, and how it emits them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from ....ir.lazy_dataclass import dataclass
from ...emission import Emission
from ..cpu import Cpu
from ..emitter import ModuleBuilder
from ..schedule.describe import Contraction
from ..schedule.kinds import ContractionSchedule

C = TypeVar("C", bound=Contraction)
S = TypeVar("S", bound=ContractionSchedule)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleKind(Generic[C, S]):
    """One way to compute contractions of the class `contraction`, with schedules of the class `schedule`.

    `choose(contraction, target, parameters)` returns the schedule, or None for a contraction that this kind does not
    support; `parameters` names the buffers that rarely change. `emit(contraction, schedule, target, module, symbol)`
    adds functions `symbol...` to the module. Both raise ContractionError for a contraction that no kind supports.
    """

    contraction: type[C]
    schedule: type[S]
    choose: Callable[[C, Cpu, frozenset[str]], S | None]
    emit: Callable[[C, S, Cpu, ModuleBuilder, str], Emission]
