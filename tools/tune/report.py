"""What a search found, as text for a terminal and as a report for JSON."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ...runtime.cache import default_enabled
from ..inspect_text import cut, table
from ..schemas.record import real
from ..schemas.tune import TunedKernel, TuneReport
from .search import Climb, Found
from .spaces import Schedule, entry_of

_KINDS = {
    "TileSchedule": "direct",
    "WinogradSchedule": "Winograd",
    "DepthwiseSchedule": "depthwise",
    "GemvSchedule": "dot products",
    "WeightGradientSchedule": "direct",
    "WinogradGradientSchedule": "Winograd",
}


def as_text(tuning: Found, output: Path) -> str:
    """The kernels, the times of whole runs, and where the schedules are stored."""
    return "\n".join((*_kernels(tuning), *_total(tuning, output)))


def _kernels(tuning: Found) -> Iterator[str]:
    faster = len(tuning.schedules())
    yield f"kernels ({len(tuning.climbs)}), {faster} with a faster schedule"
    rows = [("layer", "launches", "default us", "best us", "ratio", "tried", "schedule")]
    yield from table([*rows, *(_row(climb) for climb in tuning.climbs.values())], "lrrrrrl")


def _row(climb: Climb) -> tuple[str, ...]:
    default, best = (f"{1e6 * s:.1f}" if s else "" for s in climb.seconds)
    kernel = climb.kernel
    tried = str(len(climb.measured) - 1)
    return (
        cut(" + ".join(kernel.layers)),
        str(len(kernel.launches)),
        default,
        best,
        f"{climb.ratio:.2f}",
        tried,
        changes(climb.default, climb.best),
    )


def changes(default: Schedule, best: Schedule) -> str:
    """The decisions in which a schedule differs from the default, each with the default's in parentheses."""
    if best == default:
        return "default"
    before, after = entry_of(default), entry_of(best)
    if type(default) is not type(best):
        kinds = f"{_KINDS[type(best).__name__]} ({_KINDS[type(default).__name__]})"
        return ", ".join([kinds, *(f"{n} {_value(after[n])}" for n in ("output", "main", "points") if n in after)])
    changed = [name for name in after if after[name] != before[name]]
    return ", ".join(f"{name} {_value(after[name])} ({_value(before[name])})" for name in changed)


def _value(value: object) -> str:
    if isinstance(value, list):
        return "x".join(map(str, value))  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)


def _total(tuning: Found, output: Path) -> Iterator[str]:
    if tuning.interrupted:
        yield f"\ninterrupted after {tuning.rounds} rounds; the schedules found until then were not measured again"
    if tuning.before is not None and tuning.after is not None:
        times = f"{1e3 * tuning.before:.3f} ms before, {1e3 * tuning.after:.3f} ms after"
        kept = "" if tuning.after < tuning.before else "; not faster, so the schedules of the formulas stay"
        yield f"\nrun  {times} ({tuning.after / tuning.before:.3f}), the least of many in alternation{kept}"
    rest = sum(len(c.queue) for c in tuning.climbs.values())
    more = f"; {rest} schedules were not measured: a higher --time-limit continues" if rest else ""
    yield f"     {tuning.rounds} rounds{more}"
    yield f"stored in {output}{' and in the disk cache' if default_enabled() else ''}"


def report(tuning: Found, name: str, output: Path) -> TuneReport:
    """The same with whole schedules."""
    return TuneReport(
        model=name,
        file=str(output),
        rounds=tuning.rounds,
        interrupted=tuning.interrupted,
        seconds_before=tuning.before,
        seconds_after=tuning.after,
        kernels=tuple(_kernel(key, climb) for key, climb in tuning.climbs.items()),
    )


def _kernel(key: str, climb: Climb) -> TunedKernel:
    return TunedKernel(
        kernel=key,
        layers=climb.kernel.layers,
        launches=climb.kernel.launches,
        default_seconds=climb.seconds[0],
        best_seconds=climb.seconds[1],
        ratio=real(climb.ratio),
        default=entry_of(climb.default),
        best=entry_of(climb.best),
        tried=len(climb.measured) - 1,
        left=len(climb.queue),
    )
