"""Tables of tuned schedules as targets have them: entries by the keys of kernels."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

Value = str | int | bool | list[int] | None
Entry = Mapping[str, Value]
"""A schedule as plain JSON, because tables are stored and passed on as files."""


class TunedEntries:
    """The entries of one target by the keys of their kernels. Tables with equal entries are equal."""

    def __init__(self, entries: Mapping[str, Entry] | None = None) -> None:
        self.entries = dict(sorted((entries or {}).items()))
        text = repr([(key, sorted(entry.items())) for key, entry in self.entries.items()])
        self.digest = blake2b(text.encode(), digest_size=16).hexdigest() if self.entries else ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TunedEntries) and other.digest == self.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.digest!r})"
