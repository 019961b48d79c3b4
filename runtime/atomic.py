"""Writes a file whole or not at all: a reader of the path sees the old content or the new one, never a part."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

Chunk = bytes | bytearray | memoryview

_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{16}\.mxforge")


def write_atomically(path: str | os.PathLike[str], data: Chunk | Iterable[Chunk]) -> None:
    """Replace the content of `path` by `data`, which may be produced chunk by chunk.

    The bytes go to a new file in the same folder, reach the disk, and take the path's place in one rename. When
    anything fails on the way, also in the producer of the chunks, the old file stays as it was and the new one is
    removed; what a killed process left is removed by the next that writes to the folder. An existing file keeps its
    permissions and a symbolic link keeps pointing where it did; a new file gets the permissions that `open` would give
    it. A path that is no regular file (a pipe, /dev/null) is written directly. OSError as from `open`.
    """
    chunks = _chunks(data)
    target = Path(os.path.realpath(path))
    mode = _existing_mode(target)
    if mode is not None and not stat.S_ISREG(mode):
        with target.open("wb") as file:
            file.writelines(chunks)
        return
    try:
        with temporary_beside(target, _new_file) as (temporary, descriptor):
            with open(descriptor, "wb", closefd=False) as file:
                file.writelines(chunks)
            os.fsync(descriptor)
            if mode is not None:
                os.fchmod(descriptor, stat.S_IMODE(mode))
            temporary.replace(target)
    except OSError as error:
        if isinstance(error.filename, str) and _TEMPORARY.fullmatch(os.path.basename(error.filename)):
            error.filename = os.fspath(path)  # the name that the caller knows
        raise
    sync_folder(target.parent)


@contextmanager
def temporary_beside(target: Path, make: Callable[[Path], int]) -> Iterator[tuple[Path, int]]:
    """A new file or folder beside `target`, which `make` creates and opens, and its descriptor.

    If it still has its temporary name at the end, it is removed. Files that killed processes left in the folder, which
    no process has locked, are removed first.
    """
    _remove_abandoned(target.parent)
    temporary, descriptor = _locked(target, make)
    try:
        yield temporary, descriptor
    finally:
        _remove(temporary)
        os.close(descriptor)


def _locked(target: Path, make: Callable[[Path], int]) -> tuple[Path, int]:
    while True:
        path = target.with_name(f".{target.name[:64]}.{secrets.token_hex(8)}.mxforge")
        descriptor = make(path)
        with suppress(OSError):  # a file system without locks, where nothing is taken for abandoned either
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):  # another process took it for abandoned before it was locked
            if os.path.samestat(path.stat(), os.fstat(descriptor)):
                return path, descriptor
        os.close(descriptor)


def _remove_abandoned(folder: Path) -> None:
    with suppress(OSError), os.scandir(folder) as entries:  # who cannot list the folder cleans nothing
        found = [entry.path for entry in entries if _TEMPORARY.fullmatch(entry.name)]
        for path in found:
            with suppress(OSError):
                _remove_unlocked(Path(path))


def _remove_unlocked(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _remove(path)
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
        return
    with suppress(OSError):
        path.unlink()


def _new_file(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)


def new_folder(path: Path) -> int:
    """Make a folder, with those above it, and open it."""
    path.mkdir(parents=True)
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def _chunks(data: Chunk | Iterable[Chunk]) -> Iterable[Chunk]:
    return (data,) if isinstance(data, bytes | bytearray | memoryview) else data  # pyright: ignore[reportReturnType]


def _existing_mode(path: Path) -> int | None:
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None


def sync_folder(folder: Path) -> None:
    """Make a rename itself durable; file systems that cannot sync a folder keep their own promise."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
