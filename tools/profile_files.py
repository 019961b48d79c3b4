"""A profile as JSON, as CSV and as a Chrome trace."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from typing import Any

from .profile_report import Profile
from .profile_rows import Row

Record = dict[str, Any]

_PROGRAM, _FIRST_THREAD = 0, 1
"""Numbers of the tracks of a trace: the launches of the program, and the threads."""


def as_json(profile: Profile) -> Record:
    """Sizes in bytes, times in seconds, rates per second. What is not known is None."""
    least, p50, p90 = profile.seconds
    peaks, machine = profile.peaks, profile.machine
    return {
        "model": profile.model,
        "inputs": [{"name": n, "dtype": dtype, "shape": list(shape)} for n, dtype, shape in profile.inputs],
        "machine": {"cpu": machine.cpu, "vector_bits": machine.vector_bits, "threads": machine.threads},
        "peaks": {
            "flop_per_second": peaks.operations,
            "bytes_per_second": peaks.bandwidth,
            "cache_bytes_per_second": peaks.cache_bandwidth,
        },
        "missing_parameters": profile.missing,
        "runs": profile.runs,
        "seconds": {"min": least, "p50": p50, "p90": p90},
        "launch_seconds": profile.launch_seconds,
        "between_seconds": profile.between_seconds,
        "layers": [row_record(row, profile) for row in profile.layers],
        "launches": [row_record(row, profile) for row in profile.launches],
        "total": row_record(profile.total, profile),
    }


def row_record(row: Row, profile: Profile) -> Record:
    """One row with all of its numbers, by name."""
    return {
        "name": row.name,
        "operators": list(row.operators),
        "launches": list(row.launches),
        "kind": row.kind,
        "kernel": row.kernel,
        "seconds": row.seconds,
        "share": row.seconds / profile.launch_seconds if profile.launch_seconds else None,
        "threads": row.threads,
        "multiply_adds": _whole(row.multiply_adds),
        "flop": _whole(row.operations),
        "bytes": _whole(row.nbytes),
        "flop_per_second": rate(row.operations, row),
        "bytes_per_second": rate(row.nbytes, row),
        "flop_per_byte": row.intensity,
        "roof_share": row.roof_share(profile.peaks),
        "bound": row.bound(profile.peaks) or None,
        "winograd": row.winograd,
        "fallback": row.fallback or None,
    }


def rate(amount: float | None, row: Row) -> float | None:
    """An amount per second of the row; None if either is not known."""
    return amount / row.seconds if amount is not None and row.seconds else None


def _whole(amount: float | None) -> int | None:
    return None if amount is None else round(amount)


def as_csv(profile: Profile, rows: Sequence[Row]) -> bytes:
    """A line for each row, with the columns of `row_record`. Lists are joined by spaces."""
    records = [row_record(row, profile) for row in (*rows, profile.total)]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(records[0]), lineterminator="\n")
    writer.writeheader()
    for record in records[:-1]:
        writer.writerow({key: _cell(value) for key, value in record.items()})
    return text.getvalue().encode()


def _cell(value: Any) -> Any:
    return " ".join(map(str, value)) if isinstance(value, list) else value


# --- trace ------------------------------------------------------------------------------------------------------------


def as_trace(profile: Profile) -> bytes:
    """One run as a trace for chrome://tracing and Perfetto: a track of launches, and one of what each thread did."""
    names = ["program", *(f"thread {n}" for n in range(profile.machine.threads))]
    events = [{"ph": "M", "pid": 1, "name": "process_name", "args": {"name": profile.model}}]
    for number, name in enumerate(names):
        events.append({"ph": "M", "pid": 1, "tid": number, "name": "thread_name", "args": {"name": name}})
        events.append({"ph": "M", "pid": 1, "tid": number, "name": "thread_sort_index", "args": {"sort_index": number}})
    return json.dumps({"traceEvents": [*events, *_launch_events(profile)], "displayTimeUnit": "ns"}).encode()


def _launch_events(profile: Profile) -> Iterator[Record]:
    times = profile.timeline
    begins, ends = times.launches()
    zero = int(begins.min(initial=int(ends.max(initial=0))))
    for n, row in enumerate(profile.launches):
        record = {k: v for k, v in row_record(row, profile).items() if v not in (None, [], False)}
        yield _event(row.name, _PROGRAM, int(begins[n]), int(ends[n]), zero, record)
        for worker in range(times.begin.shape[1]):
            if times.begin[n, worker]:
                span = int(times.begin[n, worker]), int(times.end[n, worker])
                about = {"busy_us": float(times.busy[n, worker]) / 1000}
                yield _event(row.name, _FIRST_THREAD + worker, *span, zero, about)


def _event(name: str, track: int, begin: int, end: int, zero: int, about: Record) -> Record:
    own = {"ph": "X", "pid": 1, "tid": track, "name": name, "cat": "launch"}
    return {**own, "ts": (begin - zero) / 1000, "dur": (end - begin) / 1000, "args": about}
