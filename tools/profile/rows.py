"""The rows of `mxforge profile`: a launch each, or the launches of layers that are computed together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from ...ir.lazy_dataclass import dataclass
from ...ir.program import Computation, Program
from .peaks import Peaks
from .work import Region, Work


@dataclass(frozen=True)
class Row:
    """One launch or several. Sizes are in bytes, times in seconds. `operations` and `nbytes` are None if they are not
    known. `threads` is the average number of threads that work. `fallback` is the reason why contractions run as plain
    loops. `operators` are those of the layers, if the symbol is known."""

    name: str
    launches: tuple[int, ...]
    kind: str
    kernel: str
    seconds: float
    busy_seconds: float
    multiply_adds: float | None = None
    operations: float | None = None
    nbytes: float | None = None
    fallback: str = ""
    winograd: bool = False
    operators: tuple[str, ...] = ()

    @property
    def threads(self) -> float:
        return self.busy_seconds / self.seconds if self.seconds else 0.0

    @property
    def intensity(self) -> float | None:
        """Operations for each byte."""
        return self.operations / self.nbytes if self.operations is not None and self.nbytes else None

    def roof_share(self, peaks: Peaks) -> float | None:
        """The speed as a share of the most that the machine's peaks allow for this intensity."""
        if self.operations is None or self.nbytes is None or not self.seconds:
            return None
        return peaks.least_seconds(self.operations, self.nbytes) / self.seconds

    def bound(self, peaks: Peaks) -> Literal["compute", "memory"] | None:
        """What limits the speed; None if that is not known."""
        if self.operations is None or self.nbytes is None:
            return None
        return "memory" if peaks.is_memory_bound(self.operations, self.nbytes) else "compute"


def launch_rows(
    program: Program, seconds: Sequence[float], busy: Sequence[float], regions: Sequence[Region]
) -> list[Row]:
    """A row for each launch. Launches of one region have parts of its work in proportion to their times."""
    rows = [_row(program, n, launch, seconds[n], busy[n]) for n, launch in enumerate(program.computations)]
    for region in regions:
        total = sum(seconds[n] for n in region.launches)
        for n in region.launches:
            rows[n] = _with_work(rows[n], region.work, seconds[n] / total if total else 1 / len(region.launches))
    return rows


def _with_work(row: Row, work: Work | None, share: float) -> Row:
    """The row with a share of this work."""
    if work is None:
        return row
    return replace(
        row,
        multiply_adds=share * work.multiply_adds,
        operations=share * work.operations,
        nbytes=share * work.nbytes,
        winograd=work.saves_products,
    )


def _row(program: Program, number: int, launch: Computation, seconds: float, busy: float) -> Row:
    label = program.label(launch)
    return Row(label, (number,), launch.kind, launch.symbol, seconds, busy, fallback=launch.fallback)


def layer_rows(program: Program, rows: Sequence[Row], operators: Mapping[str, str]) -> list[Row]:
    """A row for each set of layers that is computed together, in order: launches of the same layers, and launches of
    some of these layers alone, such as one that packs weights. `operators` are those of layers by name."""
    wholes = _wholes(dict.fromkeys(launch.layers for launch in program.computations))
    groups: dict[tuple[int, ...], list[Row]] = {}
    for row, launch in zip(rows, program.computations, strict=True):
        groups.setdefault(wholes[launch.layers], []).append(row)
    return [_joined(program, layers, members, operators) for layers, members in groups.items()]


def _wholes(groups: Iterable[tuple[int, ...]]) -> dict[tuple[int, ...], tuple[int, ...]]:
    """For each group of layers the first group that contains it and that no other contains."""
    sets = {layers: frozenset(layers) for layers in groups}
    first = {own: layers for layers, own in reversed(sets.items())}
    largest = [own for own in dict.fromkeys(sets.values()) if not any(own < other for other in first)]
    return {
        layers: first[next(whole for whole in largest if own <= whole)] if own else layers
        for layers, own in sets.items()
    }


def _joined(program: Program, layers: Sequence[int], rows: Sequence[Row], operators: Mapping[str, str]) -> Row:
    names = [program.names[i] for i in layers]
    return Row(
        " + ".join(names) or program.name,
        tuple(n for row in rows for n in row.launches),
        " ".join(dict.fromkeys(row.kind for row in rows)),
        " ".join(dict.fromkeys(row.kernel for row in rows)),
        sum(row.seconds for row in rows),
        sum(row.busy_seconds for row in rows),
        _sum([row.multiply_adds for row in rows]),
        _sum([row.operations for row in rows]),
        _sum([row.nbytes for row in rows]),
        "; ".join(dict.fromkeys(row.fallback for row in rows if row.fallback)),
        any(row.winograd for row in rows),
        tuple(dict.fromkeys(operators[name] for name in names if name in operators)),
    )


def total_row(name: str, rows: Sequence[Row], seconds: float) -> Row:
    """The work of all rows, done in this time."""
    joined = replace(rows[0], name=name) if rows else Row(name, (), "", "", 0.0, 0.0)
    return replace(
        joined,
        launches=tuple(n for row in rows for n in row.launches),
        seconds=seconds,
        busy_seconds=sum(row.busy_seconds for row in rows),
        multiply_adds=_sum([row.multiply_adds for row in rows]),
        operations=_sum([row.operations for row in rows]),
        nbytes=_sum([row.nbytes for row in rows]),
    )


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
