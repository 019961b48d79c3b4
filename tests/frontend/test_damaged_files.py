"""Damaged files of every format raise one error that names the file."""

from __future__ import annotations

import json
import os
import pickle
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.frontend.artifacts import ArtifactError
from mxforge.frontend.artifacts.named_arrays import read_safetensors
from mxforge.frontend.artifacts.numpy_files import read_npy, read_npz
from mxforge.frontend.optimizer.states import read_states
from mxforge.frontend.optimizer.updater import load_states

TESTS = Path(__file__).resolve().parents[1]


def test_reads_of_damaged_files_succeed_or_raise_the_readers_error() -> None:
    """Runs in a separate process with limited memory."""
    command = [sys.executable, str(TESTS / "mutated_files.py"), "--cases", "60"]
    paths = {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    ran = subprocess.run(command, check=False, capture_output=True, text=True, env={**os.environ, **paths})
    assert ran.returncode == 0, ran.stdout + ran.stderr


# --- archives and arrays of NumPy -------------------------------------------------------------------------------------


def archive(path: Path, damage: Callable[[bytearray], object] = bytes) -> Path:
    np.savez_compressed(path, a=np.arange(6.0), b=np.ones((2, 3), np.int32))
    data = bytearray(path.read_bytes())
    damage(data)
    path.write_bytes(data)
    return path


def set_in_directory(offset: int, value: int, layout: str = "<H") -> Callable[[bytearray], object]:
    """Write a number into the directory entry of the archive's first member."""
    return lambda data: struct.pack_into(layout, data, data.find(b"PK\x01\x02") + offset, value)


def cut(data: bytearray) -> None:
    del data[len(data) // 2 :]


ARCHIVES = {
    "is encrypted": set_in_directory(8, 1),
    "method 12": set_in_directory(10, 12),
    "claims 4000000000 bytes": set_in_directory(24, 4_000_000_000, "<I"),
    "not a .npz file": cut,
}


@pytest.mark.parametrize("what", ARCHIVES)
def test_a_damaged_archive_is_named(what: str, tmp_path: Path) -> None:
    path = archive(tmp_path / "x.npz", ARCHIVES[what])
    with pytest.raises(ArtifactError, match=f"{path}.*{what}" if "not" not in what else f"{path}: {what}"):
        read_npz(path)


def test_an_archive_of_anything_else_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as file:
        file.writestr("readme.txt", "hello")
    with pytest.raises(ArtifactError, match=r"x\.npz: 'readme.txt'.*not a \.npy file"):
        read_npz(tmp_path / "x.npz")


def test_valid_archives_are_read(tmp_path: Path) -> None:
    found = read_npz(archive(tmp_path / "x.npz"))
    np.testing.assert_array_equal(found["a"], np.arange(6.0))
    assert found["b"].dtype == np.int32 and found["b"].shape == (2, 3)


@pytest.mark.parametrize(
    "array", [np.arange(6).reshape(2, 3), np.asfortranarray(np.ones((2, 3), "f2")), np.float64(3), []]
)
def test_valid_arrays_are_read(array: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", array)
    found, expected = read_npy(tmp_path / "x.npy"), np.load(tmp_path / "x.npy")
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def test_python_objects_are_refused_without_advice(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([{}]), allow_pickle=True)
    with pytest.raises(ArtifactError, match=r"x\.npy.*Python objects") as caught:
        read_npy(tmp_path / "x.npy")
    assert "allow_pickle" not in str(caught.value)


@pytest.mark.parametrize("shape", ["(1000000000000,)", "(-1,)", "(3,", "()" * 9999, "open('x')"])
def test_the_header_of_an_array_is_checked(shape: str, tmp_path: Path) -> None:
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}".encode()
    data = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + bytes(8)
    (tmp_path / "x.npy").write_bytes(data)
    with pytest.raises(ArtifactError, match=r"x\.npy"):
        read_npy(tmp_path / "x.npy")


@pytest.mark.parametrize("shape", [[-1], [2], [True], [10**30], ["1"]])
def test_the_shapes_of_safetensors_are_checked_against_their_bytes(shape: list[Any], tmp_path: Path) -> None:
    head = json.dumps({"x": {"dtype": "F32", "shape": shape, "data_offsets": [0, 4]}}).encode()
    (tmp_path / "x.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + bytes(4))
    with pytest.raises(ArtifactError, match=r"x\.safetensors"):
        read_safetensors(tmp_path / "x.safetensors")


# --- other files ------------------------------------------------------------------------------------------------------


def test_an_index_that_is_not_utf_8_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.rec"
    mx.recordio.MXIndexedRecordIO(str(path.with_suffix(".idx")), str(path), "w").close()
    path.with_suffix(".idx").write_bytes(b"0\t0\n\xff\xfe\t0\n")
    with pytest.raises(mx.MXNetError, match=r"x\.idx.*UTF-8"):
        mx.recordio.MXIndexedRecordIO(str(path.with_suffix(".idx")), str(path), "r")


def test_a_slot_without_an_array_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.params").write_bytes(struct.pack("<QQQIiiQ", 0x112, 0, 1, 0xF993FAC9, 0, 0, 0))
    with pytest.raises(mx.MXNetError, match=r"x\.params.*an array without a shape"):
        mx.nd.load(str(tmp_path / "x.params"))


STATES = {
    "a number of bytes": b"\x80\x02c__builtin__\nbytearray\nq\x00J\xff\xff\xff\x7f\x85R.",
    "a long text": b"\x80\x04\x8d" + struct.pack("<Q", 1 << 40) + b"abc.",
    "code": b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R.",
    "a type of objects": b"\x80\x02cnumpy\ndtype\nX\x02\x00\x00\x00O8K\x00K\x01\x87R.",
}


@pytest.mark.parametrize("what", STATES)
def test_states_that_request_too_much_memory(what: str, tmp_path: Path) -> None:
    (tmp_path / "x.states").write_bytes(STATES[what])
    with pytest.raises(pickle.UnpicklingError, match=r"x\.states"):
        load_states(mx.optimizer.get_updater(mx.optimizer.SGD()), tmp_path / "x.states")


def test_a_sparse_memo_takes_no_memory() -> None:
    assert read_states(b"\x80\x02}r\xff\xff\xff\x7f.") == {}


def test_states_with_repeated_references() -> None:
    """2**60 paths lead to the innermost part."""
    nested: list[Any] = []
    for _ in range(60):
        nested = [nested, nested]
    assert len(read_states(pickle.dumps({0: nested}, 2))[0]) == 2


def test_numbers_of_numpy_in_states() -> None:
    values = {"a": np.float64(0.1), "b": np.int32(7), "c": np.float32(2).astype(">f4"), "d": np.bool_(True)}
    found = read_states(pickle.dumps(values, 2))
    assert found == values and type(found["b"]) is np.int32
