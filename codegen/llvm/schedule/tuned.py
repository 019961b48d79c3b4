"""Schedules that a search found to be faster than those of the formulas, by the kernels that they are for.

    entry = {"kind": "TileSchedule", "lanes": 16, "main": [6, 4], "last": null, "points": 98, ...}

An entry has the fields of its schedule; those with a default can be missing, as in files of earlier versions. A
register tile is [rows, vectors]. Entries are plain JSON, because tables are stored and passed on as files.
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any

from ...tuned_entries import Entry, TunedEntries, Value

if TYPE_CHECKING:
    from ....ir.kernel import Kernel
    from .kinds import Schedule


class Tuned(TunedEntries):
    """The entries of a CPU."""

    def find(self, kernel: Kernel, parameters: frozenset[str]) -> Schedule | None:
        """The schedule for a kernel; None if there is no entry. ValueError if the entry is no schedule."""
        entry = self.entries.get(kernel_key(kernel, parameters)) if self.entries else None
        return None if entry is None else schedule_of(entry)


NOT_TUNED = Tuned()


def kernel_key(kernel: Kernel, parameters: frozenset[str]) -> str:
    """The same key for all kernels that differ in names only, whose `parameters` are the same buffers."""
    from ....ir.hashing import structural_hash

    return structural_hash(kernel, tuple(i for i, b in enumerate(kernel.buffers) if b.name in parameters))


def entry_of(schedule: Schedule) -> dict[str, Value]:
    """The entry of a schedule."""
    from .kinds import RegisterTile

    entry: dict[str, Value] = {"kind": type(schedule).__name__}
    for field in fields(schedule):  # type: ignore[arg-type]
        value = getattr(schedule, field.name)
        entry[field.name] = [value.rows, value.vectors] if isinstance(value, RegisterTile) else value
    return entry


def schedule_of(entry: Entry) -> Schedule:
    """The schedule of an entry. ValueError unless it has the fields of a schedule. Readers of files check the types and
    the bounds of numbers (`runtime/host/tuning_file.py`)."""
    from .kinds import KINDS, RegisterTile

    known: dict[str, Any] = {kind.__name__: kind for kind in KINDS}
    name = str(entry.get("kind"))
    if name not in known:
        raise ValueError(f"{name!r} is not a kind of schedule: use {', '.join(known)}")
    names = {f.name for f in fields(known[name])}
    needed = {f.name for f in fields(known[name]) if f.default is MISSING}
    fields_of_entry = set(entry) - {"kind"}
    if wrong := (fields_of_entry - names) | (needed - fields_of_entry):
        raise ValueError(f"a {name} has the fields {', '.join(names)}; wrong or missing: {min(wrong)}")
    values = {f: RegisterTile(*v) if isinstance(v := entry[f], list) else v for f in fields_of_entry}
    return known[name](**values)
