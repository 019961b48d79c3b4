"""The report of `--suite all-operators`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..progress import Progress
from .operator_cases import CASES
from .operator_sweep import TOLERANCE, Row, Sweep, geometric_mean, measure_all
from .report import cpu_name, time_text

_OWN = "mxforge"


def measure_operators(pythons: Mapping[str, str], threads: int, repeat: int) -> int:
    """Print the table; `pythons` are the interpreters of the peers. Returns status 1 if a peer fails or has other
    results, else 0. Times on one thread are processor times, which other processes affect little."""
    clock = "process_time" if threads == 1 else "perf_counter"
    with Progress("starting") as progress, Sweep(pythons, threads, repeat, clock) as sweep:
        versions = sweep.versions
        rows = measure_all(sweep, CASES, progress)
    print(f"{threads} thread{'s' * (threads > 1)}; the least {clock} of {repeat} rounds; {cpu_name()}")
    print("\n".join(report(rows, versions)))
    return int(any(row.failed or row.different for row in rows))


def report(rows: Sequence[Row], versions: Mapping[str, str]) -> Iterator[str]:
    """The lines of the report: rows that are slower than a peer first, then geometric means."""
    peers = [name for name in versions if name != _OWN]
    width = max(len(row.name) for row in rows)
    titles = [f"{name} {version}" for name, version in versions.items()]
    yield "  ".join(["", f"{'':{width}}", "by best", "by floor", *(f"{title:>16}" for title in titles)])
    for row in sorted(rows, key=lambda row: (-row.ratio, -row.by_floor)):
        times = (f"{time_text(row.times[name]) if name in row.times else '':>16}" for name in versions)
        ratio = f"{row.ratio:.2f}" if row.best else ""
        yield "  ".join(["", f"{row.name:{width}}", f"{ratio:>7}", f"{row.by_floor:8.1f}", *times])
    yield ""
    for peer in peers:
        yield _mean(f"by {peer}", [row.ours / row.times[peer] for row in rows if peer in row.times])
    if peers:
        yield _mean("by the best peer", [row.ratio for row in rows if row.best])
    yield f"by the floor: geometric mean {geometric_mean(row.by_floor for row in rows):.2f} of {len(rows)} rows"
    yield from _faults(rows)


def _mean(title: str, ratios: Sequence[float]) -> str:
    above = sum(ratio > 1 for ratio in ratios)
    return f"{title}: geometric mean {geometric_mean(ratios):.3f} of {len(ratios)} rows, {above} above 1"


def _faults(rows: Sequence[Row]) -> Iterator[str]:
    for row in rows:
        for reason in row.failed.values():
            yield f"failed: {row.name}: {reason}"
        for peer, difference in row.different.items():
            yield f"results differ by more than {TOLERANCE}: {row.name}: {peer} {difference:.1e}"
