"""Schedules that a search found to be faster than those of the formulas, by the kernels that they are for.

    entry = {"kind": "TileSchedule", "lanes": 16, "main": [6, 4], "last": null, "points": 98, ...}

An entry has the fields of its schedule; those with a default can be missing, as in files of earlier versions. A
register tile is [rows, vectors]. Entries are plain JSON, because tables are stored and passed on as files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ....ir.kernel import Kernel
    from .kinds import Schedule

Value = str | int | bool | list[int] | None
Entry = Mapping[str, Value]


class Tuned:
    """The entries of one target by the keys of their kernels. Tables with equal entries are equal."""

    def __init__(self, entries: Mapping[str, Entry] | None = None) -> None:
        self.entries = dict(sorted((entries or {}).items()))
        text = repr([(key, sorted(entry.items())) for key, entry in self.entries.items()])
        self.digest = blake2b(text.encode(), digest_size=16).hexdigest() if self.entries else ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tuned) and other.digest == self.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"Tuned({self.digest!r})"

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
