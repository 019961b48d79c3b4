"""Damaged record files raise an error with the position of the damage; readers can be pickled."""

from __future__ import annotations

import pickle
import struct
from pathlib import Path

import mxforge as mx
import pytest


def written(path: Path, *records: bytes) -> Path:
    writer = mx.recordio.MXIndexedRecordIO(str(path.with_suffix(".idx")), str(path), "w")
    for number, record in enumerate(records):
        writer.write_idx(number, record)
    writer.close()
    return path


def read_all(path: Path) -> list[bytes]:
    reader = mx.recordio.MXRecordIO(str(path), "r")
    return list(iter(reader.read, None))  # type: ignore[arg-type]


MAGIC = 0xCED7230A
DAMAGES = {
    "ends within the header": lambda data: data[:-3],
    "no record starts here": lambda data: b"\0" * 4 + data[4:],
    "exceeds the end": lambda data: data[:4] + struct.pack("<I", 1 << 28) + data[8:],
    "starts with a middle": lambda data: data[:4] + struct.pack("<I", 2 << 29 | 8) + data[8:],
    "lacks its last part": lambda data: data[:4] + struct.pack("<I", 1 << 29 | 8) + data[8:16] + b"\0" * 8,
    "at least 24 bytes exceeds": lambda data: data[:4] + struct.pack("<I", 1 << 29 | 8) + data[8:16],
}


@pytest.mark.parametrize("what", DAMAGES)
def test_damage_is_named(what: str, tmp_path: Path) -> None:
    path = written(tmp_path / "a.rec", b"12345678", b"")
    path.write_bytes(DAMAGES[what](path.read_bytes()))
    with pytest.raises(mx.MXNetError, match=f"{path}.*{what}"):
        read_all(path)


def test_every_truncation_is_an_error_or_a_shorter_file(tmp_path: Path) -> None:
    whole = written(tmp_path / "a.rec", b"123", b"4567", b"8" * 9).read_bytes()
    for length in range(len(whole)):
        (tmp_path / "b.rec").write_bytes(whole[:length])
        try:
            assert read_all(tmp_path / "b.rec") == {0: [], 12: [b"123"], 24: [b"123", b"4567"]}[length]
        except mx.MXNetError:
            assert length not in (0, 12, 24)


def test_a_bad_index_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "a.rec", b"123")
    path.with_suffix(".idx").write_text("0\t0\nnonsense\n")
    with pytest.raises(mx.MXNetError, match=r"a\.idx, line 2"):
        mx.gluon.data.RecordFileDataset(str(path))
    path.with_suffix(".idx").write_text("0\t999\n")
    with pytest.raises(mx.MXNetError, match="at byte 999"):
        mx.gluon.data.RecordFileDataset(str(path))[0]


def test_readers_can_be_pickled(tmp_path: Path) -> None:
    reader = mx.recordio.MXRecordIO(str(written(tmp_path / "a.rec", b"123", b"45")), "r")
    copy = pickle.loads(pickle.dumps(reader))
    assert copy.read() == b"123"
    with pytest.raises(mx.MXNetError, match="closed"):
        reader.read()


def test_a_truncated_label_is_refused() -> None:
    with pytest.raises(mx.MXNetError, match="has 3 labels by its header, but ends after 1"):
        mx.recordio.unpack(mx.recordio.pack((0, [1, 2, 3], 0, 0), b"")[:-8])
    with pytest.raises(mx.MXNetError, match="no header"):
        mx.recordio.unpack(b"short")
