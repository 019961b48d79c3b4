"""The base class of spaces of schedules, for tuning, and the register tiles that several spaces contain.

Space    the schedules of one kind that compute the right result for a kernel: `contains` tests a schedule, and
         `neighbours` are those that differ from one in a single decision
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from typing import Generic, TypeVar

from ....ir.lazy_dataclass import dataclass
from ..cpu import Cpu
from .contract import Channels
from .kinds import RegisterTile, Schedule
from .registers import fits, tile_of

S = TypeVar("S", bound=Schedule)


class Space(ABC, Generic[S]):
    """The schedules of one kind that compute the right result for one kernel on one target."""

    @property
    @abstractmethod
    def start(self) -> S:
        """The schedule that the formulas choose for this kind."""

    @abstractmethod
    def contains(self, schedule: S) -> bool:
        """True if the schedule computes the right result."""

    @abstractmethod
    def near(self, schedule: S) -> Iterator[S]:
        """Schedules that differ from `schedule` in one decision, the ones with the largest effects first. Some can be
        outside of the space."""

    def neighbours(self, schedule: S) -> list[S]:
        """The schedules of the space that differ from `schedule` in one decision."""
        near = dict.fromkeys(s for s in self.near(schedule) if s != schedule)
        return [s for s in near if self.contains(s)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiles:
    """The pairs of register tiles that cover the channels of a panel for `points` points."""

    channels: Channels
    points: int
    target: Cpu

    def contains(self, main: RegisterTile, last: RegisterTile | None) -> bool:
        c, end = self.channels, last.vectors if last else 0
        tiles = (main, last) if last else (main,)
        if any(t.vectors % c.unit or not fits(t, self.target) for t in tiles):
            return False
        return c.vectors > end and (c.vectors - end) % main.vectors == 0

    def near(self, main: RegisterTile, last: RegisterTile | None) -> Iterator[tuple[RegisterTile, RegisterTile | None]]:
        """Tiles that are wider or narrower by up to two units, then lower or higher by a row."""
        for step in (1, -1, 2, -2):
            width = main.vectors + step * self.channels.unit
            if width > 0:
                yield from self._of_width(width)
        yield from self._of_width(main.vectors)
        for step in (-1, 1):
            rows = main.rows + step
            yield replace(main, rows=rows), last and replace(last, rows=max(rows, last.rows))

    def _of_width(self, width: int) -> Iterator[tuple[RegisterTile, RegisterTile | None]]:
        rest = self.channels.vectors % width
        for end in (rest, rest + width):
            if all(fits(RegisterTile(1, n), self.target) for n in (width, end) if n):
                yield self._tile(width), self._tile(end) if end and end != width else None

    def _tile(self, width: int) -> RegisterTile:
        return tile_of(width, self.points, self.target)
