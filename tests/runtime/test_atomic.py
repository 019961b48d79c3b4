"""Atomic writes: the old file or the new one, never a part; permissions and links are kept."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mxforge.runtime import atomic
from mxforge.runtime.atomic import write_atomically

pytestmark = pytest.mark.any_processor


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
def test_an_interrupted_save_leaves_the_old_file_intact(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(type(error)):
        write_atomically(path, failing_chunks(error))
    assert path.read_bytes() == b"old" and names(tmp_path) == ["file"]


def test_a_killed_process_leaves_the_old_file_intact(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    script = (
        "import os, signal, sys\n"
        "from mxforge.runtime.atomic import write_atomically\n"
        "def chunks():\n"
        "    yield b'x' * 1_000_000\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "write_atomically(sys.argv[1], chunks())\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    for _ in range(2):
        result = subprocess.run([sys.executable, "-c", script, str(path)], env=environment, check=False)
        assert result.returncode == -9
        assert path.read_bytes() == b"old"
        assert len(names(tmp_path)) == 2  # the file that it left, which the next save in the folder removes
    write_atomically(tmp_path / "other", b"new")
    assert names(tmp_path) == ["file", "other"]


KILLED_AT_EACH_STEP = """
import os, signal, sys
from mxforge.runtime.atomic import write_atomically

path, old, new = sys.argv[1], b"old" * 1000, b"new" * 1000

def save_until(step):
    seen = 0
    def count(frame, event, argument):
        nonlocal seen
        seen += event == "c_call"
        if seen == step:
            os.kill(os.getpid(), signal.SIGKILL)
    sys.setprofile(count)
    write_atomically(path, [new[:1000], new[1000:]])
    sys.setprofile(None)
    os._exit(0)

found, step, killed = [], 0, True
while killed:
    step += 1
    write_atomically(path, old)
    child = os.fork()
    if not child:
        save_until(step)
    killed = os.waitpid(child, 0)[1] != 0
    found.append(open(path, "rb").read())
assert step > 20 and set(found) == {old, new}, step
assert found == sorted(found, reverse=True)  # old ones first: "old" > "new"
"""


def test_a_process_killed_at_any_step_leaves_an_intact_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    subprocess.run([sys.executable, "-c", KILLED_AT_EACH_STEP, str(path)], check=True, timeout=60)
    write_atomically(path, b"last")
    assert names(tmp_path) == ["file"]


def test_files_that_are_still_being_written_are_kept(tmp_path: Path) -> None:
    path, other = tmp_path / "file", tmp_path / "other"

    def chunks() -> Iterator[bytes]:
        yield b"one "
        write_atomically(path, b"meanwhile")
        write_atomically(other, b"new")
        yield b"two"

    write_atomically(path, chunks())
    assert path.read_bytes() == b"one two" and names(tmp_path) == ["file", "other"]


def test_a_file_that_was_considered_abandoned_is_created_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between its creation and its lock, another process can see it unlocked."""
    made: list[Path] = []

    def removed_at_first(path: Path) -> int:
        descriptor = new_file(path)
        if not made:
            path.unlink()
        made.append(path)
        return descriptor

    new_file = atomic._new_file
    monkeypatch.setattr(atomic, "_new_file", removed_at_first)
    write_atomically(tmp_path / "file", b"new")
    assert len(made) == 2 and names(tmp_path) == ["file"]


def test_other_hidden_files_are_kept(tmp_path: Path) -> None:
    kept = [".file.0123456789abcdef.tmp", ".mxforge", "file.0123456789abcdef.mxforge"]
    for name in kept:
        (tmp_path / name).write_bytes(b"")
    write_atomically(tmp_path / "file", b"new")
    assert names(tmp_path) == sorted([*kept, "file"])


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
