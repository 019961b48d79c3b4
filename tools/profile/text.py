"""A profile as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..contexts import machine_text
from ..inspect_text import cut, table, type_text
from ..schemas.profile import Parallelism
from .files import rate
from .report import Profile
from .rows import Row

_DISTURBED = 1.5
"""A whole run that takes so many times its launches was disturbed."""
_COLUMNS = ("us", "%", "GFLOP/s", "GB/s", "FLOP/B", "% of roof", "bound", "threads", "")


def as_text(profile: Profile, rows: Sequence[Row], top: int | None) -> str:
    """The peaks, the rows (or the `top` slowest) and the totals."""
    return "\n".join((*_head(profile), *_rows(profile, rows, top), *_total(profile), *_notes(profile)))


def _head(profile: Profile) -> Iterator[str]:
    machine, peaks = profile.machine, profile.peaks
    yield profile.model
    for argument in profile.inputs:
        yield f"  {argument.name}  {type_text(argument)}"
    yield f"  {machine_text(machine)}"
    cache = "" if peaks.cache_bandwidth is None else f", last cache {peaks.cache_bandwidth / 1e9:.1f} GB/s"
    rates = f"{peaks.operations / 1e9:.1f} GFLOP/s, memory {peaks.bandwidth / 1e9:.1f} GB/s{cache}"
    yield f"  measured peaks: {rates} ({peaks.measured})"


def _rows(profile: Profile, rows: Sequence[Row], top: int | None) -> Iterator[str]:
    by_layer = rows is profile.layers
    what = "layers" if by_layer else "launches"
    shown = rows if top is None else sorted(rows, key=lambda row: -row.seconds)[:top]
    yield f"\n{what} ({len(rows)})" + ("" if len(shown) == len(rows) else f", the {len(shown)} slowest")
    head = ("layer",) if by_layer else ("launch", "kind")
    cells = [(cut(row.name), *(() if by_layer else (row.kind,)), *_cells(profile, row)) for row in shown]
    yield from table([(*head, *_COLUMNS), *cells], "l" * len(head) + "rrrrrrlrl")


def _cells(profile: Profile, row: Row) -> Sequence[str]:
    peaks = profile.peaks
    share = row.seconds / profile.launch_seconds if profile.launch_seconds else 0.0
    return (
        f"{1e6 * row.seconds:.1f}",
        f"{100 * share:.1f}",
        _number(rate(row.operations, row), 1e9),
        _number(rate(row.nbytes, row), 1e9),
        _number(row.intensity, 1),
        _number(row.roof_share(peaks), 0.01, 0),
        row.bound(peaks) or "",
        f"{row.threads:.1f}",
        "LOOPS" if row.fallback else "Winograd" if row.winograd else "",
    )


def _number(value: float | None, unit: float, digits: int = 1) -> str:
    return "" if value is None else f"{value / unit:.{digits}f}"


def _total(profile: Profile) -> Iterator[str]:
    times = ", ".join(f"{name} {1e3 * value:.3f} ms" for name, value in vars(profile.seconds).items())
    yield f"\nrun  {times} of {profile.runs} runs"
    sums = f"launches {1e3 * profile.launch_seconds:.3f} ms, between them {1e3 * profile.between_seconds:.3f} ms"
    yield f"     {sums} (medians of each)"
    share = profile.total.roof_share(profile.peaks)
    if share is not None:
        total = profile.total
        speeds = (
            f"{_number(rate(total.operations, total), 1e9)} GFLOP/s, {_number(rate(total.nbytes, total), 1e9)} GB/s"
        )
        yield f"     {speeds}, {100 * share:.0f} % of the roof, in the p50"
    if profile.parallelism.parallelism is not None:
        yield f"     {_parallelism_text(profile.parallelism, len(profile.launches))}"


def _parallelism_text(parallelism: Parallelism, launches: int) -> str:
    ms = f"{1e3 * parallelism.span_seconds:.3f} ms"
    path = f"the critical path has {len(parallelism.critical_path)} of {launches} launches, {ms}"
    without_reuse = f"{parallelism.data_parallelism:.2f} if no memory were used again"
    return f"parallelism {parallelism.parallelism:.2f}: {path} ({without_reuse})"


def _notes(profile: Profile) -> Iterator[str]:
    if profile.fallbacks:
        yield f"\nplain loops ({len(profile.fallbacks)})"
        yield from table([(cut(row.name), row.fallback) for row in profile.fallbacks], "ll")
    if profile.launches and profile.seconds.p50 > _DISTURBED * (profile.launch_seconds + profile.between_seconds):
        yield "\nwhole runs take longer than their launches: other processes use the CPUs, or launches are short"
    if profile.missing:
        yield f"\n{profile.missing} parameters have no value: they are inputs, so each run packs them again (kind pack)"
    if not profile.knows_work:
        yield "\nthe file does not contain the work of its launches: profile the symbol to see their speeds"
    if any((row.roof_share(profile.peaks) or 0) > 1 for row in profile.launches):
        yield "\nmore than 100 %: the data came from caches, or Winograd did fewer multiply-adds than are counted"
