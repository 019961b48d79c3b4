"""A profile as a report for JSON, as CSV and as a Chrome trace."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

from ..schemas import profile as schema
from ..schemas.common import Gpu, Machine
from .report import Profile
from .rows import Row

Record = dict[str, Any]

_PROGRAM, _FIRST_THREAD = 0, 1
"""Numbers of the tracks of a trace: the launches of the program, and the threads."""


def report(profile: Profile) -> schema.ProfileReport:
    """The profile with all numbers of its rows."""
    peaks = profile.peaks
    return schema.ProfileReport(
        model=profile.model,
        inputs=profile.inputs,
        machine=profile.machine,
        peaks=schema.Peaks(
            flop_per_second=peaks.operations,
            bytes_per_second=peaks.bandwidth,
            cache_bytes_per_second=peaks.cache_bandwidth,
            measured=peaks.measured,
        ),
        missing_parameters=profile.missing,
        runs=profile.runs,
        seconds=profile.seconds,
        launch_seconds=profile.launch_seconds,
        between_seconds=profile.between_seconds,
        layers=tuple(_whole_row(row, profile) for row in profile.layers),
        launches=tuple(_whole_row(row, profile) for row in profile.launches),
        total=_whole_row(profile.total, profile),
        parallelism=profile.parallelism,
    )


def _whole_row(row: Row, profile: Profile) -> schema.Row:
    """One row with all of its numbers."""
    return schema.Row(
        name=row.name,
        operators=row.operators,
        launches=row.launches,
        kind=row.kind,
        kernel=row.kernel,
        seconds=row.seconds,
        share=row.seconds / profile.launch_seconds if profile.launch_seconds else None,
        threads=row.threads,
        multiply_adds=_whole(row.multiply_adds),
        flop=_whole(row.operations),
        bytes=_whole(row.nbytes),
        flop_per_second=rate(row.operations, row),
        bytes_per_second=rate(row.nbytes, row),
        flop_per_byte=row.intensity,
        roof_share=row.roof_share(profile.peaks),
        bound=row.bound(profile.peaks),
        winograd=row.winograd,
        fallback=row.fallback or None,
    )


def rate(amount: float | None, row: Row) -> float | None:
    """An amount per second of the row; None if either is not known."""
    return amount / row.seconds if amount is not None and row.seconds else None


def _whole(amount: float | None) -> int | None:
    return None if amount is None else round(amount)


def as_csv(profile: Profile, rows: Sequence[Row]) -> bytes:
    """A line for each row, with the columns of `schema.Row`. Lists are joined by spaces."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(schema.Row)], lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({key: _cell(value) for key, value in vars(_whole_row(row, profile)).items()})
    return text.getvalue().encode()


def _cell(value: Any) -> Any:
    return " ".join(map(str, value)) if isinstance(value, tuple) else value


# --- trace ------------------------------------------------------------------------------------------------------------


def as_trace(profile: Profile) -> bytes:
    """One run as a trace for chrome://tracing and Perfetto: a track of launches, and one of what each thread
    did, or the stream of a GPU."""
    names = ["program", *_tracks(profile.machine)]
    events = [{"ph": "M", "pid": 1, "name": "process_name", "args": {"name": profile.model}}]
    for number, name in enumerate(names):
        events.append({"ph": "M", "pid": 1, "tid": number, "name": "thread_name", "args": {"name": name}})
        events.append({"ph": "M", "pid": 1, "tid": number, "name": "thread_sort_index", "args": {"sort_index": number}})
    return json.dumps({"traceEvents": [*events, *_launch_events(profile)], "displayTimeUnit": "ns"}).encode()


def _tracks(machine: Machine | Gpu) -> list[str]:
    """The names of what runs launches."""
    return ["stream 0"] if isinstance(machine, Gpu) else [f"thread {n}" for n in range(machine.threads)]


def _launch_events(profile: Profile) -> Iterator[Record]:
    times = profile.timeline
    begins, ends = times.launches()
    zero = int(begins.min(initial=int(ends.max(initial=0))))
    for n, row in enumerate(profile.launches):
        record = {k: v for k, v in vars(_whole_row(row, profile)).items() if v not in (None, (), False)}
        yield _event(row.name, _PROGRAM, int(begins[n]), int(ends[n]), zero, record)
        for worker in range(times.begin.shape[1]):
            if times.begin[n, worker]:
                span = int(times.begin[n, worker]), int(times.end[n, worker])
                about = {"busy_us": float(times.busy[n, worker]) / 1000}
                yield _event(row.name, _FIRST_THREAD + worker, *span, zero, about)


def _event(name: str, track: int, begin: int, end: int, zero: int, about: Record) -> Record:
    own = {"ph": "X", "pid": 1, "tid": track, "name": name, "cat": "launch"}
    return {**own, "ts": (begin - zero) / 1000, "dur": (end - begin) / 1000, "args": about}
