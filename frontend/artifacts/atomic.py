"""Writes a file whole or not at all: whoever reads the path sees the old content or the new one, never a part."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

Chunk = bytes | bytearray | memoryview


def write_atomically(path: str | os.PathLike[str], data: Chunk | Iterable[Chunk]) -> None:
    """Replace the content of `path` by `data`, which may be produced chunk by chunk.

    The bytes go to a new file in the same folder, reach the disk, and take the path's place in one rename. When
    anything fails on the way, also in the producer of the chunks, the old file stays as it was and the new one is
    removed. An existing file keeps its permissions and a symbolic link keeps pointing where it did; a new file gets
    the permissions that `open` would give it. A path that is no regular file (a pipe, /dev/null) is written directly.
    OSError as from `open`.
    """
    chunks = _chunks(data)
    target = Path(os.path.realpath(path))
    mode = _existing_mode(target)
    if mode is not None and not stat.S_ISREG(mode):
        with target.open("wb") as file:
            file.writelines(chunks)
        return
    temporary = target.with_name(f".{target.name[:64]}.{secrets.token_hex(8)}.tmp")
    try:
        _write_durably(temporary, chunks)
        if mode is not None:
            temporary.chmod(stat.S_IMODE(mode))
        temporary.replace(target)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError) and error.filename == str(temporary):
            error.filename = os.fspath(path)  # the name that the caller knows
        raise
    _sync_folder(target.parent)


def _chunks(data: Chunk | Iterable[Chunk]) -> Iterable[Chunk]:
    return (data,) if isinstance(data, bytes | bytearray | memoryview) else data  # pyright: ignore[reportReturnType]


def _existing_mode(path: Path) -> int | None:
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None


def _write_durably(path: Path, chunks: Iterable[Chunk]) -> None:
    with path.open("xb") as file:
        file.writelines(chunks)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable; file systems that cannot sync a folder keep their own promise."""
    if os.name != "posix":
        return
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
