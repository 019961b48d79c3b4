"""Tables of tuned schedules: in the disk cache, where all compilations find them, and in the file of MXFORGE_TUNING.

    file = {"format": 2, "tables": [{"target": identity, "kernels": {key: entry}}]}

An identity is that of a `CpuTarget` without tuned schedules, so a table is used only for the instruction set, caches
and threads it was measured on; or that of a `GpuTarget`. The disk cache has one file for each identity. See
`codegen/llvm/schedule/tuned.py` and `codegen/triton/choices.py` for entries, and `tuning_file.py` for the schema of
files. Files of format 1, which have no entries for GPUs, are read too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

from ...ir.settings import settings
from ..atomic import write_atomically
from ..cache import DiskCache, default_cache
from ..compiler_identity import compiler_identity

if TYPE_CHECKING:
    from ...codegen.tuned_entries import Entry

FORMAT = 2
_OFF = Path("off")
Tables = Mapping[str, Mapping[str, "Entry"]]
"""Entries by the keys of kernels, by the identities of targets."""


class Tunable(Protocol):
    """A target whose schedules can be tuned."""

    @property
    def tuning_identity(self) -> str:
        """What schedules were measured on."""
        ...

    def with_entries(self, entries: Mapping[str, Entry]) -> Self:
        """The target with these schedules."""
        ...


_T = TypeVar("_T", bound=Tunable)


class TuningError(ValueError):
    """A file of tuned schedules that cannot be used; the message names file and reason."""


def tuned_target(target: _T) -> _T:
    """The target with what is known of it: the table of the disk cache, and the file that MXFORGE_TUNING names, whose
    entries take precedence; none if it is "off". TuningError if the file cannot be used."""
    if settings().tuning == _OFF:
        return target
    entries = {**stored_entries(target), **_file_entries(settings().tuning, target)}
    return target.with_entries(entries) if entries else target


def _file_entries(file: Path | None, target: Tunable) -> Mapping[str, Entry]:
    return {} if file is None else read_tables(file).get(identity(target), {})


def identity(target: Tunable) -> str:
    """The identity of a target without tuned schedules."""
    return target.tuning_identity


def stored_entries(target: Tunable, cache: DiskCache | None = None) -> Mapping[str, Entry]:
    """The table of the disk cache; empty if it has none."""
    data = (cache or default_cache()).get(_cache_key(target))
    return {} if data is None else _tables(data).get(identity(target), {})


def store_entries(entries: Mapping[str, Entry], target: Tunable, cache: DiskCache | None = None) -> None:
    """Replace the table of the disk cache."""
    (cache or default_cache()).put(_cache_key(target), _text({identity(target): entries}))


def _cache_key(target: Tunable) -> str:
    return sha256(f"tuned schedules {FORMAT} {identity(target)}".encode()).hexdigest()


def read_tables(file: Path) -> Tables:
    """The tables of a file. OSError if it cannot be read, and TuningError if it is no such file.

    The disk cache remembers which files are right, so that later processes need not import pydantic.
    """
    data = file.read_bytes()
    cache, key = default_cache(), sha256(f"right file of {compiler_identity()}\0".encode() + data).hexdigest()
    if cache.get(key) is None:
        from .tuning_file import problem_of

        if problem := problem_of(data):
            raise TuningError(f"{file}: {problem}")
        cache.put(key, b"")
    return _tables(data)


def write_tables(file: Path, tables: Tables) -> None:
    """Write a file at once: another process sees the old one or the new one."""
    write_atomically(file, _text(tables))


def _text(tables: Tables) -> bytes:
    listed = [{"target": target, "kernels": dict(kernels)} for target, kernels in tables.items()]
    return (json.dumps({"format": FORMAT, "tables": listed}, indent=1) + "\n").encode()


def _tables(data: bytes) -> Tables:
    """The tables in `data`, which is right."""
    return {table["target"]: table["kernels"] for table in json.loads(data)["tables"]}
