"""The compile cache: eviction, refused entries and folders, and concurrent processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from mxforge.ir.settings import settings
from mxforge.runtime.cache import DiskCache, default_folder, default_limit
from mxforge.runtime.compile import get_record, put_record

KEY, OTHER = "0123456789abcdef", "fedcba9876543210"
LIMIT = 1 << 20

WRITERS = """
import sys
from collections.abc import Callable
from pathlib import Path
from mxforge.runtime.cache import DiskCache
cache = DiskCache(Path(sys.argv[1]), 40_000)
for i in range(150):
    key = f"{i % 7:016x}"
    cache.put(key, bytes([i % 7]) * 9000)
    data = cache.get(key)
    assert data is None or data == bytes([i % 7]) * 9000, (key, len(data))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def test_bytes_are_kept_across_instances(folder: Path) -> None:
    assert DiskCache(folder, LIMIT).get(KEY) is None
    DiskCache(folder, LIMIT).put(KEY, b"code")
    assert DiskCache(folder, LIMIT).get(KEY) == b"code"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in folder.iterdir()] == [KEY]


DAMAGES = (lambda b: b[:-1], lambda b: b[:10], lambda b: b"", lambda b: b[:-1] + b"!", lambda b: b + b"!")


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_entry_is_missing_and_removed(folder: Path, damage: Callable[[bytes], bytes]) -> None:
    cache = DiskCache(folder, LIMIT)
    cache.put(KEY, b"code of a kernel")
    (folder / KEY).write_bytes(damage((folder / KEY).read_bytes()))
    assert cache.get(KEY) is None
    assert not (folder / KEY).exists()


@pytest.mark.parametrize("key", ["", "../../etc/passwd", "ABCDEF0123", "xyz", "0" * 200])
def test_keys_cannot_leave_the_folder(folder: Path, key: str) -> None:
    with pytest.raises(ValueError, match="hexadecimal"):
        DiskCache(folder, LIMIT).get(key)


def test_the_least_recently_used_entry_is_evicted_first(folder: Path) -> None:
    cache = DiskCache(folder, 3500)
    for i in range(3):
        cache.put(f"{i:016x}", b"x" * 1000)
        os.utime(folder / f"{i:016x}", (i, i))
    assert cache.get(f"{0:016x}") is not None  # now the most recent
    cache.put(KEY, b"x" * 1000)
    assert [cache.get(f"{i:016x}") is not None for i in range(3)] == [True, False, True]
    assert cache.get(KEY) is not None


def test_entry_beyond_the_limit_is_not_kept(folder: Path) -> None:
    cache = DiskCache(folder, 100)
    cache.put(KEY, b"x" * 1000)
    assert cache.get(KEY) is None


def test_abandoned_temporary_files_are_removed(folder: Path) -> None:
    cache = DiskCache(folder, LIMIT)
    assert cache.folder == folder
    old, new = folder / ".new-1-1", folder / ".new-2-2"
    old.touch()
    new.touch()
    os.utime(old, (1, 1))
    cache.evict()
    assert (old.exists(), new.exists()) == (False, True)


def test_the_cache_can_be_switched_off(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MXFORGE_CACHE", "0")
    cache = DiskCache(folder, LIMIT)
    cache.put(KEY, b"code")
    assert cache.get(KEY) is None
    assert not folder.exists()


def test_nothing_is_read_while_stages_are_dumped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_record(KEY, b"derivative")
    assert get_record(KEY) == b"derivative"
    monkeypatch.setenv("MXFORGE_DUMP", str(tmp_path))
    settings.cache_clear()
    try:
        assert get_record(KEY) is None
    finally:
        monkeypatch.undo()
        settings.cache_clear()


def test_folder_that_others_may_write_to_is_ignored(folder: Path) -> None:
    folder.mkdir()
    (folder / KEY).write_bytes(b"planted")
    folder.chmod(0o777)
    cache = DiskCache(folder, LIMIT)
    assert cache.get(KEY) is None and "other users can write to it" in cache.problem
    with pytest.warns(RuntimeWarning, match="other users can write to it"):
        cache.put(KEY, b"code")
    assert cache.get(KEY) == b"code"
    assert (folder / KEY).read_bytes() == b"planted"


def test_folder_of_another_user_is_ignored(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir(mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    cache = DiskCache(folder, LIMIT)
    assert cache.folder is None and "belongs to user" in cache.problem


def test_link_in_the_folder_is_not_followed(folder: Path, tmp_path: Path) -> None:
    cache = DiskCache(folder, LIMIT)
    cache.put(OTHER, b"code")
    (folder / OTHER).rename(tmp_path / "elsewhere")
    (folder / KEY).symlink_to(tmp_path / "elsewhere")
    assert cache.get(KEY) is None


def test_unusable_folder_falls_back_to_memory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    cache = DiskCache(tmp_path / "file" / "cache", LIMIT)
    assert cache.get(KEY) is None
    with pytest.warns(RuntimeWarning, match="cannot use"):
        cache.put(KEY, b"code")
    cache.put(OTHER, b"no second warning")
    assert cache.get(KEY) == b"code"


def test_folder_that_disappears_falls_back_to_memory(folder: Path) -> None:
    cache = DiskCache(folder, LIMIT)
    assert cache.folder == folder
    folder.rmdir()
    with pytest.warns(RuntimeWarning, match="cannot write"):
        cache.put(KEY, b"code")
    cache.put(OTHER, b"no second warning")
    assert cache.get(KEY) == b"code"


def test_processes_share_it(folder: Path) -> None:
    """Writers with a small limit evict entries all the time: every read is complete or missing."""
    command = [sys.executable, "-c", WRITERS, str(folder)]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(3)]
    for process in processes:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors.decode()
    assert not [path for path in folder.iterdir() if path.name.startswith(".new-")]


def test_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MXFORGE_CACHE_DIR", "/a/b")
    assert default_folder() == Path("/a/b")
    monkeypatch.delenv("MXFORGE_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/c")
    assert default_folder() == Path("/c/mxforge")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/d")
    assert default_folder() == Path("/d/.cache/mxforge")
    monkeypatch.setenv("MXFORGE_CACHE_SIZE", "3")
    assert default_limit() == 3 << 20
    monkeypatch.setenv("MXFORGE_CACHE_SIZE", "much")
    with pytest.raises(ValueError, match="MXFORGE_CACHE_SIZE"):
        default_limit()
