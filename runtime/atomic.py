"""Writes files atomically: a reader of the path sees the old content or the new content, never a part of it."""

from __future__ import annotations

import fcntl
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..ir.file_errors import names_file

Chunk = bytes | bytearray | memoryview

_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{16}\.mxforge")


def write_atomically(path: str | os.PathLike[str], data: Chunk | Iterable[Chunk]) -> None:
    """Replace the content of `path` with `data`; an iterable can produce it chunk by chunk.

    The bytes are written to a new file in the same folder, synced to disk, and renamed to `path` in one step. If
    anything fails, including the iterable, the old file is unchanged and the new one is removed. Files that a killed
    process left are removed by the next process that writes to the folder. An existing file keeps its permissions, and
    a symbolic link its target; a new file gets the permissions that `open` would give it. A path that is not a regular
    file (a pipe, /dev/null) is written directly. Raises OSError as `open` does.
    """
    chunks = _chunks(data)
    target = Path(os.path.realpath(path))
    mode = _existing_mode(target)
    if mode is not None and not stat.S_ISREG(mode):
        with names_file(path), target.open("wb") as file:
            file.writelines(chunks)
        return
    try:
        with names_file(path), temporary_beside(target, _new_file) as (temporary, descriptor):
            with open(descriptor, "wb", closefd=False) as file:
                file.writelines(chunks)
            os.fsync(descriptor)
            if mode is not None:
                os.fchmod(descriptor, stat.S_IMODE(mode))
            temporary.replace(target)
    except OSError as error:
        if isinstance(error.filename, str) and _TEMPORARY.fullmatch(os.path.basename(error.filename)):
            error.filename = os.fspath(path)  # the name that the caller passed
        raise
    sync_folder(target.parent)


@contextmanager
def temporary_beside(target: Path, make: Callable[[Path], int]) -> Iterator[tuple[Path, int]]:
    """A new file or folder beside `target`, which `make` creates and opens, and its descriptor.

    If it still has its temporary name when the context exits, it is removed. Unlocked temporary files in the folder,
    which killed processes left, are removed first.
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
        path = target.with_name(f".{target.name[:64]}.{os.urandom(8).hex()}.mxforge")
        descriptor = make(path)
        with suppress(OSError):  # a file system without locks, where no file counts as abandoned either
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):  # another process removed it as abandoned before it was locked
            if os.path.samestat(path.stat(), os.fstat(descriptor)):
                return path, descriptor
        os.close(descriptor)


def _remove_abandoned(folder: Path) -> None:
    with suppress(OSError), os.scandir(folder) as entries:  # a folder that cannot be listed is not cleaned
        abandoned = [entry.path for entry in entries if _TEMPORARY.fullmatch(entry.name)]
        for path in abandoned:
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
        import shutil

        shutil.rmtree(path, ignore_errors=True)
        return
    with suppress(OSError):
        path.unlink()


def _new_file(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)


def new_folder(path: Path) -> int:
    """Create a folder and its parents, and open it."""
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
    """Make a rename durable. Does nothing on file systems that cannot sync a folder."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
