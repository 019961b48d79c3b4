"""Tables of tuned schedules in files and in the disk cache."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest
from mxforge.codegen.llvm.schedule.kinds import KINDS, GemvSchedule, RegisterTile, TileSchedule
from mxforge.codegen.llvm.schedule.tuned import Tuned, entry_of
from mxforge.codegen.llvm.target import AVX2, AVX512
from mxforge.ir.bounds import Within
from mxforge.ir.settings import settings
from mxforge.runtime.cache import DiskCache
from mxforge.runtime.host import tuning, tuning_file
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


def _file(**changes: object) -> dict[str, object]:
    """The content of a file whose only entry has these changes."""
    return {"format": 1, "tables": [{"target": "t", "kernels": {"k": {**TILE, **changes}}}]}


TILE = entry_of(TileSchedule(lanes=8, main=RegisterTile(4, 2), last=None, points=9, panels=2))
TABLE = {"target": "t", "kernels": {"k": dict(A)}}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\x00", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"", "is not JSON"),
        ([], "is not a file of tuned schedules of format 2: mxforge tune writes such files"),
        ({"format": 3, "tables": []}, "of format 2"),
        ({"format": 1, "tables": {}}, "of format 2"),
        ({"format": 1, "tables": [3]}, r"tables\.0: Input should be an object"),
        ({"format": 1, "tables": [{"target": 3, "kernels": {}}]}, r"tables\.0\.target: Input should be a valid string"),
        ({"format": 1, "tables": [{"target": "t", "kernels": []}]}, r"tables\.0\.kernels: Input should be an object"),
        ({"format": 1, "tables": [{"target": "t"}]}, r"tables\.0\.kernels: Field required"),
        (
            {"format": 1, "tables": [TABLE, {"target": "u", "kernels": {"k": 1}}]},
            r"tables\.1\.kernels\.k: Input should be an object",
        ),
        (_file(kind="LoopSchedule"), "kernels.k: Input tag 'LoopSchedule' .* expected tags: 'TileSchedule', "),
        (_file(kind=["TileSchedule"]), "kernels.k: Input tag .* expected tags: 'TileSchedule', "),
        (_file(kind="x\n" * 999), r"kernels.k: Input tag 'x\\nx.*\.\.\.$"),
        ({"format": 1, "tables": [{"target": "t", "kernels": {"k": {"lanes": 8}}}]}, "kernels.k: Unable to .* 'kind'"),
        (_file(color=3), "TileSchedule.color: Extra inputs are not permitted"),
        (_file(lanes=None), "TileSchedule.lanes: Input should be a valid integer"),
        (_file(lanes="8"), "TileSchedule.lanes: Input should be a valid integer"),
        (_file(lanes=True), "TileSchedule.lanes: Input should be a valid integer"),
        (_file(lanes=0), "TileSchedule.lanes: Input should be greater than or equal to 1"),
        (_file(lanes=65), "TileSchedule.lanes: Input should be less than or equal to 64"),
        (_file(points=1.0), "TileSchedule.points: Input should be a valid integer"),
        (_file(points=-1e400), "TileSchedule.points: Input should be a valid integer"),
        (b'{"format": 1, "tables": [' + b"1" * 5000 + b"]}", "is not JSON"),
        (_file(points=1 << 31), "TileSchedule.points: Input should be less than or equal to 2147483647"),
        (_file(pack=1), "TileSchedule.pack: Input should be a valid boolean"),
        (_file(main=None), "TileSchedule.main: Input should be a valid array"),
        (_file(main=[1, 2, 3]), "TileSchedule.main: Tuple should have at most 2 items"),
        (_file(last=[1, "2"]), "TileSchedule.last.1: Input should be a valid integer"),
        (_file(last=[1, 0]), "TileSchedule.last.1: Input should be greater than or equal to 1"),
        ({"format": 1, "tables": [{"target": "t", "kernels": {"k\n" * 99: 1}}]}, r"kernels\.k\\nk.*\.\.\.: Input"),
    ],
)
def test_other_files_are_errors(tmp_path: Path, content: Any, message: str) -> None:
    file = tmp_path / "t.json"
    file.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    with pytest.raises(TuningError, match=message) as caught:
        read_tables(file)
    assert str(caught.value).startswith(f"{file}: ") and "\n" not in str(caught.value)


def test_each_number_of_a_schedule_has_bounds() -> None:
    for kind in KINDS:
        for name, annotation in get_type_hints(kind, include_extras=True).items():
            is_number = get_origin(annotation) is Annotated and isinstance(get_args(annotation)[1], Within)
            assert is_number or annotation in (bool, RegisterTile, RegisterTile | None), f"{kind.__name__}.{name}"


def test_a_right_file_is_checked_once(cache: DiskCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, tables = tmp_path / "t.json", {"t": {"k": A}}
    write_tables(file, tables)
    assert read_tables(file) == tables
    monkeypatch.setattr(tuning_file, "problem_of", lambda data: "was checked again")
    assert read_tables(file) == tables
    write_tables(file, {"t": {"k": B}})
    with pytest.raises(TuningError, match="was checked again"):
        read_tables(file)


def test_a_wrong_file_stays_wrong(cache: DiskCache, tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(json.dumps(_file(lanes=0)))
    for _ in range(2):
        with pytest.raises(TuningError, match="lanes"):
            read_tables(tmp_path / "t.json")
