"""The compile cache on disk: bytes by a hexadecimal key, shared by all processes of a user.

Entries are executed as native code, so a folder is used only if it belongs to the user and no other user can write to
it. An entry is written under another name and renamed, so readers see it whole or not at all; a checksum detects
entries that the disk damaged.

    entry = magic (8 bytes) | length of data (8, little-endian) | BLAKE2b-128 of data (16) | data
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import stat
import threading
import time
import warnings
from pathlib import Path

from ..ir.settings import read_settings

_MAGIC = b"mxforge1"
_HEADER_BYTES = 32
_KEY = re.compile(r"[0-9a-f]{8,128}")
_TEMPORARY = ".new-"
_ABANDONED_SECONDS = 3600


def default_folder() -> Path:
    """MXFORGE_CACHE_DIR, else mxforge in XDG_CACHE_HOME, else ~/.cache/mxforge. RuntimeError if there is no home."""
    if own := read_settings().cache_dir:
        return own
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return Path(shared) / "mxforge"
    return Path.home() / ".cache" / "mxforge"


def default_limit() -> int:
    """The largest size of the folder in bytes: MXFORGE_CACHE_SIZE, which is in MiB."""
    return read_settings().cache_size << 20


def default_enabled() -> bool:
    """False if MXFORGE_CACHE=0 disables the cache."""
    return read_settings().cache


class DiskCache:
    """A cache in `folder` of at most `limit` bytes; the least recently used entries are evicted first.

    The first use opens the folder. If it cannot be used, entries are stored in this process's memory, and the first
    one causes a warning. A cache that is not `enabled` stores nothing.
    """

    def __init__(self, folder: Path | None = None, limit: int | None = None, enabled: bool | None = None) -> None:
        self.enabled = default_enabled() if enabled is None else enabled
        self.limit = default_limit() if limit is None else limit
        self._memory: dict[str, bytes] = {}
        self._warned = False
        self._unmeasured = self.limit  # bytes added since the size of the folder was measured; at first unknown
        self._configured = folder
        self._opened: tuple[Path | None, str] | None = None if self.enabled else (None, "")

    @property
    def folder(self) -> Path | None:
        """The folder of the entries; None if they are stored in memory or not at all."""
        return self._open()[0]

    @property
    def problem(self) -> str:
        """Why entries are stored in memory, and what the user can do; empty if they are not."""
        problem = self._open()[1]
        return _advice(problem) if problem else ""

    def get(self, key: str) -> bytes | None:
        """The bytes stored under `key`, or None. A damaged entry is removed and counts as missing."""
        path = self._path(key)
        if path is None:
            return self._memory.get(key)
        try:
            content = _read_own(path)
        except OSError:
            return self._memory.get(key)
        data = _checked(content)
        with contextlib.suppress(OSError):  # another process may have removed it
            if data is None:
                path.unlink()
            else:
                os.utime(path)
        return data

    def put(self, key: str, data: bytes) -> None:
        """Store `data`. An entry larger than the limit is not stored."""
        if not self.enabled or len(data) + _HEADER_BYTES > self.limit:
            return
        path = self._path(key)
        if path is None:
            self._memory[key] = data
            self._warn(self._open()[1])
            return
        try:
            _write_atomically(path, data)
        except OSError as error:
            self._memory[key] = data
            self._warn(f"cannot write to {path.parent}: {error.strerror}")
            return
        self._unmeasured += len(data)
        if self._unmeasured > self.limit // 16:
            self._unmeasured = 0
            self.evict()

    def usage(self) -> tuple[int, int]:
        """The number of entries in the folder, and their bytes."""
        entries = _entries(self.folder) if self.folder is not None else []
        return len(entries), sum(size for _, size, _ in entries)

    def evict(self) -> None:
        """Remove abandoned temporary files, and the least recently used entries until the others fit the limit."""
        if self.folder is None:
            return
        entries = sorted(_entries(self.folder))
        excess = sum(size for _, size, _ in entries) - self.limit
        for _, size, path in entries:
            if excess <= 0:
                return
            with contextlib.suppress(OSError):
                os.unlink(path)
            excess -= size

    def _path(self, key: str) -> Path | None:
        if not _KEY.fullmatch(key):
            raise ValueError(f"a cache key is 8 to 128 lower-case hexadecimal digits, not {key!r}")
        return None if self.folder is None else self.folder / key

    def _open(self) -> tuple[Path | None, str]:
        """The folder, or None and the problem with it."""
        if self._opened is None:
            self._opened = _open_folder(self._configured)
        return self._opened

    def _warn(self, problem: str) -> None:
        if self._warned:
            return
        self._warned = True
        warnings.warn(_advice(problem), RuntimeWarning, stacklevel=3)


def _advice(problem: str) -> str:
    return (
        f"mxforge's compile cache {problem}. Compiled code is stored only in memory; set "
        "MXFORGE_CACHE_DIR to a folder of your own, or MXFORGE_CACHE=0."
    )


@functools.cache
def default_cache() -> DiskCache:
    """The cache of this process, with the environment's settings at the time of the first call."""
    return DiskCache()


def _open_folder(folder: Path | None) -> tuple[Path | None, str]:
    """The folder, created if it does not exist, or None and the reason why it cannot be used."""
    try:
        folder = folder or default_folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        problem = _folder_problem(folder)
    except (OSError, RuntimeError) as error:
        problem = f"cannot use {folder or 'a folder in the home directory'}: {error}"
    return (None, problem) if problem else (folder, "")


def _folder_problem(folder: Path) -> str:
    """Why code from `folder` must not be executed or cannot be stored there; empty if there is no reason."""
    status = folder.stat()
    if status.st_uid != os.geteuid():
        return f"ignores {folder}: it belongs to user {status.st_uid}, who could put code there that would run as you"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"ignores {folder}: other users can write to it (mode {stat.S_IMODE(status.st_mode):o})"
    return "" if os.access(folder, os.W_OK | os.X_OK) else f"cannot write to {folder}"


def _read_own(path: Path) -> bytes:
    """The content of a regular file that belongs to this user. OSError for any other file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(descriptor, "rb", buffering=0) as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            raise PermissionError(f"{path} is not a file of this user")
        return file.read()


def _checked(content: bytes) -> bytes | None:
    data = content[_HEADER_BYTES:]
    return data if content[:_HEADER_BYTES] == _header(data) else None


def _header(data: bytes) -> bytes:
    return _MAGIC + len(data).to_bytes(8, "little") + hashlib.blake2b(data, digest_size=16).digest()


def _write_atomically(path: Path, data: bytes) -> None:
    temporary = path.parent / f"{_TEMPORARY}{os.getpid()}-{threading.get_ident()}-{time.monotonic_ns()}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(_header(data))
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _entries(folder: Path) -> list[tuple[float, int, str]]:
    """(time of last use, bytes, path) of each entry; temporary files that a killed process left behind are removed."""
    listed: list[tuple[float, int, str]] = []
    with os.scandir(folder) as files:
        for file in files:
            with contextlib.suppress(OSError):
                status = file.stat(follow_symlinks=False)
                if _KEY.fullmatch(file.name):
                    listed.append((status.st_mtime, status.st_size, file.path))
                elif file.name.startswith(_TEMPORARY) and status.st_mtime < time.time() - _ABANDONED_SECONDS:
                    os.unlink(file.path)
    return listed
