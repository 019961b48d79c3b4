"""Identifies the compiler: code that another compiler wrote is not used."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np

from .cache import default_cache

_PACKAGE = Path(__file__).resolve().parent.parent
_FOLDERS = ("ir", "passes", "codegen")


@cache
def compiler_identity() -> str:
    """A digest of the compiler's files, the versions of Python and NumPy, and the machine's architecture.

    The cache folder remembers it by the names, sizes and times of the files, so that a process need not read them all.
    An installation of equal files has the same digest, so it finds what an earlier one compiled.
    """
    return identity_of(_PACKAGE)


def identity_of(package: Path) -> str:
    """The identity of the compiler in the folder of a package."""
    entries = sorted((name, entry) for folder in _FOLDERS for name, entry in _files_in(package / folder, folder))
    status = [(name, entry.stat()) for name, entry in entries]
    listing = _digest(str(package), *(f"{name} {s.st_size} {s.st_mtime_ns}" for name, s in status))
    known = default_cache().get(listing)
    if known is not None:
        return known.decode()
    identity = _digest(*(f"{name} {hashlib.sha256(Path(entry).read_bytes()).hexdigest()}" for name, entry in entries))
    default_cache().put(listing, identity.encode())
    return identity


def _digest(*parts: str) -> str:
    versions = platform.python_version(), np.__version__, platform.machine()
    return hashlib.sha256("\n".join((*versions, *parts)).encode()).hexdigest()


def _files_in(folder: Path | str, name: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """The Python files in a folder, which is `name` in the package."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _files_in(entry.path, f"{name}/{entry.name}")
            elif entry.name.endswith(".py"):
                yield f"{name}/{entry.name}", entry
