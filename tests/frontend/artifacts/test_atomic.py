"""Atomic writes: the old file or the new one, never a part, and the permissions and links that were there."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mxforge.frontend.artifacts import write_atomically


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def failing_chunks(error: BaseException) -> Iterator[bytes]:
    yield b"half of the new content"
    raise error


def test_writes_bytes_and_chunks(tmp_path: Path) -> None:
    path = tmp_path / "file"
    forms: list[Any] = [b"one", bytearray(b"one"), memoryview(b"one"), [b"o", memoryview(b"ne")], iter([b"one"])]
    for data in forms:
        write_atomically(path, b"before")
        write_atomically(str(path), data)
        assert path.read_bytes() == b"one"
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_an_interrupted_save_leaves_the_old_file_whole(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(type(error)):
        write_atomically(path, failing_chunks(error))
    assert path.read_bytes() == b"old" and names(tmp_path) == ["file"]


def test_a_killed_process_leaves_the_old_file_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    script = (
        "import os, signal, sys\n"
        "from mxforge.frontend.artifacts.atomic import write_atomically\n"
        "def chunks():\n"
        "    yield b'x' * 1_000_000\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "write_atomically(sys.argv[1], chunks())\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run([sys.executable, "-c", script, str(path)], env=environment, check=False)
    assert result.returncode == -9
    assert path.read_bytes() == b"old"


def test_permissions_are_those_of_the_old_file_or_of_open(tmp_path: Path) -> None:
    path, fresh, usual = tmp_path / "file", tmp_path / "fresh", tmp_path / "usual"
    path.write_bytes(b"old")
    path.chmod(0o640)
    write_atomically(path, b"new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    write_atomically(fresh, b"new")
    usual.write_bytes(b"new")
    assert fresh.stat().st_mode == usual.stat().st_mode


def test_a_link_keeps_pointing_at_the_file(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    write_atomically(link, b"new")
    assert link.is_symlink() and target.read_bytes() == b"new"


def test_special_files_are_written_directly() -> None:
    write_atomically(os.devnull, b"new")
    assert not stat.S_ISREG(os.stat(os.devnull).st_mode)


def test_a_missing_folder_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_atomically(tmp_path / "missing" / "file", b"new")
