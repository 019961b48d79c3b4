"""Formats figures as text and Markdown, and as a report for JSON."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from pathlib import Path

from ...ir.lazy_dataclass import dataclass
from ..schemas import bench as schema
from ..schemas.record import real
from .measure import Figures, Outcome

Row = tuple[str, ...]

EXPLANATION = (
    "first result: time from the imported framework to the first result, without caches; "
    "warm: the same with mxforge's disk cache filled; import: time of the import"
)


@dataclass(frozen=True)
class Conditions:
    """The workload and the parameters of the measurement. A call computes `batch` elements."""

    workload: str
    shapes: dict[str, list[int]]
    batch: int
    threads: int
    repeat: int
    tolerance: float
    gpu: str = ""


@dataclass(frozen=True)
class Measured:
    """One measurement: its conditions and its outcome."""

    conditions: Conditions
    outcome: Outcome

    @property
    def ours(self) -> Figures:
        return self.outcome.figures[0]

    def programs(self) -> dict[str, Figures | None]:
        """The programs by their engines, with a number after the name that others have too; None: it failed."""
        named: dict[str, Figures | None] = {}
        programs = [(f.engine, f) for f in self.outcome.figures] + [(f.engine, None) for f in self.outcome.failures]
        for engine, figures in programs:
            same = sum(name.split()[0] == engine for name in named)
            named[f"{engine} ({same + 1})" if same else engine] = figures
        return named


# --- cells ------------------------------------------------------------------------------------------------------------


def time_text(seconds: float) -> str:
    """A time with three digits, in us, ms or s."""
    for unit, scale in (("us", 1e-6), ("ms", 1e-3)):
        if seconds < 999.5 * scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds:.3g} s"


def rate_text(rate: float) -> str:
    """A rate with at least three digits."""
    return f"{rate:.0f}" if rate >= 99.95 else f"{rate:.3g}"


_Cell = Callable[[Figures, Measured], str]


def _ratio(value: Callable[[Figures], float]) -> _Cell:
    return lambda f, m: "" if f is m.ours else f"{value(f) / value(m.ours):.2f}"


_TIMES: dict[str, _Cell] = {
    "min": lambda f, m: time_text(f.least),
    "p50": lambda f, m: time_text(f.median),
    "p90": lambda f, m: time_text(f.percentile(90)),
    "p99": lambda f, m: time_text(f.percentile(99)),
    "min / ours": _ratio(lambda f: f.least),
    "p50 / ours": _ratio(lambda f: f.median),
    "per second": lambda f, m: rate_text(f.rate(m.conditions.batch)),
}
_REST: dict[str, _Cell] = {
    "difference": lambda f, m: "" if f.difference is None else f"{f.difference:.1e}",
    "first result": lambda f, m: time_text(f.cold),
    "warm": lambda f, m: "" if f.warm is None else time_text(f.warm),
    "import": lambda f, m: time_text(f.imported),
    "peak memory": lambda f, m: f"{f.peak / 2**20:.0f} MiB",
}
"""The columns of the two tables of a measurement."""


def _table(measured: Measured, columns: dict[str, _Cell]) -> list[Row]:
    """The header, then a row for each program."""
    rows: list[Row] = [("", *columns)]
    for engine, figures in measured.programs().items():
        if figures is None:
            rows.append((engine, "failed", *[""] * (len(columns) - 1)))
        else:
            rows.append((f"{engine} {figures.version}", *(cell(figures, measured) for cell in columns.values())))
    return rows


def _summary(done: Sequence[Measured]) -> list[Row]:
    """The header, then a row for each measurement with the median and the rate of each program."""
    engines = list(dict.fromkeys(engine for measured in done for engine in measured.programs()))
    rows: list[Row] = [("", "batch", "threads", *engines)]
    for measured in done:
        where, programs = measured.conditions, measured.programs()
        cells = [_brief(programs.get(engine), where.batch) for engine in engines]
        rows.append((where.workload.partition(" (")[0], str(where.batch), str(where.threads), *cells))
    return rows


def _brief(figures: Figures | None, batch: int) -> str:
    return "failed" if figures is None else f"{time_text(figures.median)}, {rate_text(figures.rate(batch))}/s"


# --- lines ------------------------------------------------------------------------------------------------------------


def _describe(conditions: Conditions) -> str:
    shapes = ", ".join(f"{name} {tuple(shape)}" for name, shape in conditions.shapes.items())
    threads = f"{conditions.threads} thread{'s' if conditions.threads > 1 else ''}"
    rounds = f"{conditions.repeat} round{'s' if conditions.repeat > 1 else ''}"
    machine = f"{conditions.gpu}; {cpu_name()}" if conditions.gpu else cpu_name()
    return f"{conditions.workload}: {shapes + '; ' if shapes else ''}{threads}; {rounds}; {machine}"


def cpu_name() -> str:
    """The name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _samples(measured: Measured) -> str:
    """What the percentiles and the rate count."""
    batch = measured.conditions.batch
    unit = "calls" if batch == 1 else f"elements of batches of {batch}"
    counts = [(name, len(f.samples), f.calls) for name, f in measured.programs().items() if f is not None]
    listed = ", ".join(f"{engine} {n} of {_calls(calls)}" for engine, n, calls in counts)
    if len({(n, calls) for _, n, calls in counts}) == 1:
        listed = f"{counts[0][1]} of {_calls(counts[0][2])}"
    return f"samples: {listed}; per second: {unit}"


def _calls(calls: int) -> str:
    return "one call" if calls == 1 else f"{calls} calls"


def _verdicts(measured: Measured) -> list[str]:
    shares = {name: 100 * measured.ours.least / f.least for name, f in measured.programs().items() if f is not None}
    peers = list(shares.items())[1:]
    return [f"mxforge takes {share:.0f} % of the time of {name} (minimum of each)" for name, share in peers]


# --- formats ----------------------------------------------------------------------------------------------------------


def as_text(measured: Measured) -> str:
    """The figures for a terminal."""
    tables = [*_aligned(_table(measured, _TIMES)), "", *_aligned(_table(measured, _REST)), ""]
    return "\n".join([_describe(measured.conditions), *tables, _samples(measured), *_verdicts(measured)])


def summary_as_text(done: Sequence[Measured]) -> str:
    """All measurements in one table for a terminal."""
    return "\n".join(["summary: p50, per second", *_aligned(_summary(done))])


def _aligned(rows: Sequence[Row]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(f"{c:{'>' if i else '<'}{w}}" for i, (c, w) in enumerate(zip(row, widths, strict=True))).rstrip()
        for row in rows
    ]


def as_markdown(done: Sequence[Measured]) -> str:
    """The figures as tables, each after a line with its conditions. Several measurements have a summary."""
    parts = [_markdown_section(measured) for measured in done]
    if len(done) > 1:
        parts.append("\n".join(["### Summary: p50, per second", "", *_markdown_table(_summary(done)), ""]))
    return "\n".join([*parts, EXPLANATION, ""])


def _markdown_section(measured: Measured) -> str:
    title = [f"### {measured.conditions.workload}", "", _describe(measured.conditions), ""]
    times, rest = (_markdown_table(_table(measured, columns)) for columns in (_TIMES, _REST))
    return "\n".join([*title, *times, "", *rest, "", _samples(measured), ""])


def _markdown_table(rows: Sequence[Row]) -> list[str]:
    ruler = tuple("---" if i == 0 else "--:" for i in range(len(rows[0])))
    return ["| " + " | ".join(row) + " |" for row in (rows[0], ruler, *rows[1:])]


def report(done: Sequence[Measured]) -> schema.BenchReport:
    """All measurements; times are in seconds, sizes in bytes."""
    measurements = tuple(_measurement(measured) for measured in done)
    return measurements[0] if len(measurements) == 1 else measurements


def _measurement(measured: Measured) -> schema.Measurement:
    conditions, outcome = measured.conditions, measured.outcome
    return schema.Measurement(
        workload=conditions.workload,
        shapes={name: tuple(shape) for name, shape in conditions.shapes.items()},
        batch=conditions.batch,
        threads=conditions.threads,
        repeat=conditions.repeat,
        tolerance=conditions.tolerance,
        cpu=cpu_name(),
        gpu=conditions.gpu or None,
        programs=tuple(_program(f, measured) for f in outcome.figures),
        failures=tuple(schema.Failure(engine=f.engine, reason=f.reason) for f in outcome.failures),
    )


def _program(figures: Figures, measured: Measured) -> schema.Program:
    ours = measured.ours
    return schema.Program(
        engine=figures.engine,
        version=figures.version,
        python=figures.python,
        imported=figures.imported,
        cold=figures.cold,
        warm=figures.warm,
        peak=figures.peak,
        cold_peak=figures.cold_peak,
        difference=None if figures.difference is None else real(figures.difference),
        calls=figures.calls,
        samples=tuple(figures.samples),
        min=figures.least,
        p50=figures.percentile(50),
        p90=figures.percentile(90),
        p99=figures.percentile(99),
        min_ratio=figures.least / ours.least,
        p50_ratio=figures.median / ours.median,
        per_second=figures.rate(measured.conditions.batch),
    )
