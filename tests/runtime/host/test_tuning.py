"""Tables of tuned schedules in files and in the disk cache."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mxforge.codegen.llvm.schedule.kinds import GemvSchedule
from mxforge.codegen.llvm.schedule.tuned import Tuned, entry_of
from mxforge.codegen.llvm.target import AVX2, AVX512
from mxforge.ir.settings import settings
from mxforge.runtime.cache import DiskCache
from mxforge.runtime.host import tuning
from mxforge.runtime.host.tuning import (
    TuningError,
    identity,
    read_tables,
    store_entries,
    stored_entries,
    tuned_target,
    write_tables,
)

A = entry_of(GemvSchedule(lanes=8, rows=1, channels=4))
B = entry_of(GemvSchedule(lanes=8, rows=1, channels=8))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DiskCache:
    found = DiskCache(tmp_path / "cache", enabled=True)
    monkeypatch.setattr(tuning, "default_cache", lambda: found)
    return found


@pytest.fixture
def use_file(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that sets MXFORGE_TUNING."""

    def use(path: object) -> None:
        monkeypatch.setenv("MXFORGE_TUNING", str(path))
        settings.cache_clear()

    yield use
    monkeypatch.undo()
    settings.cache_clear()


def test_a_file_keeps_its_tables(tmp_path: Path) -> None:
    tables = {identity(AVX2): {"k1": A}, identity(AVX512): {"k1": B, "k2": A}}
    write_tables(tmp_path / "t.json", tables)
    assert read_tables(tmp_path / "t.json") == tables


def test_the_disk_cache_has_a_table_for_each_target(cache: DiskCache) -> None:
    assert stored_entries(AVX2) == {}
    store_entries({"k": A}, AVX2)
    store_entries({"k": B}, replace(AVX2, threads=4))
    assert stored_entries(AVX2) == {"k": A}
    assert stored_entries(replace(AVX2, threads=4)) == {"k": B}
    assert stored_entries(replace(AVX2, l2_bytes=1 << 20)) == {}
    assert cache.usage()[0] == 2


def test_a_table_of_another_format_is_not_used(cache: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    store_entries({"k": A}, AVX2)
    monkeypatch.setattr(tuning, "_tables", lambda data, check: (_ for _ in ()).throw(TuningError("old")))
    assert stored_entries(AVX2) == {}


def test_a_file_takes_precedence(cache: DiskCache, tmp_path: Path, use_file: Any) -> None:
    assert tuned_target(AVX2) is AVX2
    store_entries({"both": A, "cache": A}, AVX2)
    assert tuned_target(AVX2).tuned == Tuned({"both": A, "cache": A})
    file = tmp_path / "t.json"
    write_tables(file, {identity(AVX2): {"both": B, "file": B}, identity(AVX512): {"other": B}})
    use_file(file)
    assert tuned_target(AVX2).tuned == Tuned({"both": B, "cache": A, "file": B})
    assert identity(tuned_target(AVX2)) == identity(AVX2)
    use_file("off")
    assert tuned_target(AVX2) is AVX2


def test_a_missing_file_is_an_error(cache: DiskCache, tmp_path: Path, use_file: Any) -> None:
    use_file(tmp_path / "none.json")
    with pytest.raises(FileNotFoundError):
        tuned_target(AVX2)


TABLE = {"target": "t", "kernels": {"k": dict(A)}}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\x00", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"", "is not JSON"),
        ([], "is not a file of tuned schedules of format 1: mxforge tune writes such files"),
        ({"format": 2, "tables": []}, "of format 1"),
        ({"format": 1, "tables": {}}, "of format 1"),
        ({"format": 1, "tables": [3]}, "lacks its target or its kernels"),
        ({"format": 1, "tables": [{"target": 3, "kernels": {}}]}, "lacks its target"),
        ({"format": 1, "tables": [{"target": "t", "kernels": []}]}, "lacks its target"),
        ({"format": 1, "tables": [TABLE, {"target": "u", "kernels": {"k": 1}}]}, "kernel k: 'None' is not a kind"),
        ({"format": 1, "tables": [{"target": "t", "kernels": {"k": {**A, "rows": -1e400}}}]}, "kernel k: rows: -inf"),
    ],
)
def test_other_files_are_errors(tmp_path: Path, content: Any, message: str) -> None:
    file = tmp_path / "t.json"
    file.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    with pytest.raises(TuningError, match=message) as caught:
        read_tables(file)
    assert str(caught.value).startswith(f"{file}: ") and "\n" not in str(caught.value)
