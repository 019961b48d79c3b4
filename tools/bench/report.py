"""Formats figures as text, Markdown and JSON."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .measure import Figures


@dataclass(frozen=True)
class Conditions:
    """The workload and the parameters of the measurement."""

    workload: str
    shapes: dict[str, list[int]]
    threads: int
    repeat: int
    tolerance: float


_HEAD = ",min,median,min / ours,median / ours,difference,first result,warm,import,peak memory".split(",")


def _rows(figures: Sequence[Figures]) -> list[tuple[str, ...]]:
    ours = figures[0]
    return [_row(f, ours) for f in figures]


def _row(found: Figures, ours: Figures) -> tuple[str, ...]:
    itself = found is ours
    return (
        f"{found.engine} {found.version}",
        time_text(found.least),
        time_text(found.median),
        "" if itself else f"{found.least / ours.least:.2f}",
        "" if itself else f"{found.median / ours.median:.2f}",
        "" if found.difference is None else f"{found.difference:.1e}",
        time_text(found.cold),
        "" if found.warm is None else time_text(found.warm),
        time_text(found.imported),
        f"{found.peak / 2**20:.0f} MiB",
    )


def time_text(seconds: float) -> str:
    """A time with three digits, in us, ms or s."""
    for unit, scale in (("us", 1e-6), ("ms", 1e-3)):
        if seconds < 999.5 * scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds:.3g} s"


def _describe(conditions: Conditions) -> str:
    shapes = ", ".join(f"{name} {tuple(shape)}" for name, shape in conditions.shapes.items())
    how = f"{conditions.threads} threads; {conditions.repeat} rounds; {cpu_name()}"
    return f"{conditions.workload}: {shapes + '; ' if shapes else ''}{how}"


def cpu_name() -> str:
    """The name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def as_text(conditions: Conditions, figures: Sequence[Figures]) -> str:
    """The figures for a terminal."""
    rows: list[Sequence[str]] = [_HEAD, *_rows(figures)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_HEAD))]
    return "\n".join([_describe(conditions), *(_line(row, widths) for row in rows), *_verdicts(figures)])


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [f"{c:{'>' if i else '<'}{w}}" for i, (c, w) in enumerate(zip(row, widths, strict=True))]
    return "  ".join(cells).rstrip()


def _verdicts(figures: Sequence[Figures]) -> list[str]:
    ours = figures[0]
    shares = [(f.engine, 100 * ours.least / f.least) for f in figures[1:]]
    return [f"mxforge takes {share:.0f} % of the time of {engine} (minimum of each)" for engine, share in shares]


def as_markdown(conditions: Conditions, figures: Sequence[Figures]) -> str:
    """The figures as a table, after a line with the conditions."""
    table: list[Sequence[str]] = [_HEAD, tuple("---" if i == 0 else "--:" for i in range(len(_HEAD))), *_rows(figures)]
    lines = ["| " + " | ".join(row) + " |" for row in table]
    return "\n".join([f"### {conditions.workload}", "", _describe(conditions), "", *lines, ""])


def as_json(conditions: Conditions, figures: Sequence[Figures]) -> dict[str, Any]:
    """All measurements; times are in seconds, sizes in bytes."""
    ours = figures[0]
    return {
        **asdict(conditions),
        "cpu": cpu_name(),
        "programs": [
            {
                **asdict(f),
                "min": f.least,
                "median": f.median,
                "min_ratio": f.least / ours.least,
                "median_ratio": f.median / ours.median,
            }
            for f in figures
        ],
    }
