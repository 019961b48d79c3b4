"""State dicts of PyTorch are read without unpickling, and other files of PyTorch are refused."""

from __future__ import annotations

import io
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mxforge.frontend.artifacts import ArtifactError, BFloat16Data
from mxforge.frontend.artifacts.torch_files import read_torch

FILES = Path(__file__).resolve().parents[1] / "data" / "torch_files"


def test_tensors_are_read_as_pytorch_reads_them() -> None:
    found = read_torch(FILES / "tensors.pt")
    with np.load(FILES / "tensors.npz") as expected:
        assert sorted(found) == sorted(expected)
        for name, array in found.items():
            plain = array.to_float32() if isinstance(array, BFloat16Data) else array
            assert isinstance(plain, np.ndarray) and plain.dtype == expected[name].dtype, name
            np.testing.assert_array_equal(plain, expected[name], err_msg=name)
    assert isinstance(found["bfloat16"], BFloat16Data)


def test_the_state_dict_of_a_checkpoint_is_read() -> None:
    network, checkpoint = read_torch(FILES / "network.pth"), read_torch(FILES / "checkpoint.pt")
    assert list(network) == list(checkpoint)
    assert all(np.array_equal(network[name], checkpoint[name]) for name in network)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("legacy.pt", "has the format of PyTorch before 1.6, which is not read: load it"),
        ("complex.pt", "a tensor of dtype complex64, which MXNet does not have"),
        ("module.pt", "the name __main__.Network, which is rejected, since a pickle can run any code"),
        ("tensor.pt", "contains a tensor, not a state dict"),
        ("script.pt", "is a TorchScript program, not a state dict"),
    ],
)
def test_other_files_are_refused(name: str, reason: str) -> None:
    with pytest.raises(ArtifactError, match=f"{name}: .*{reason}"):
        read_torch(FILES / name)


class _Name:
    """A name in a pickle."""

    def __init__(self, module: str, name: str) -> None:
        self.text = f"c{module}\n{name}\n".encode()


FLOATS, REBUILD = _Name("torch", "FloatStorage"), _Name("torch._utils", "_rebuild_tensor_v2")


def written(path: Path, pickled: bytes, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x/data.pkl", pickled)
        for name, content in members.items():
            archive.writestr(f"x/{name.replace('_', '/')}", content)
    return path


def tensor(numbers: tuple[Any, ...], size: int = 4, key: bytes = b"0") -> bytes:
    """The pickle of a dictionary with a tensor of offset, shape and strides."""
    storage = b"(X\x07\x00\x00\x00storage" + FLOATS.text + b"X\x01\x00\x00\x00" + key
    storage += b"X\x03\x00\x00\x00cpu" + pickle.dumps(size, 2)[2:-1] + b"tQ"
    rest = b"".join(pickle.dumps(part, 2)[2:-1] for part in numbers)
    return b"\x80\x02}X\x01\x00\x00\x00w" + REBUILD.text + b"(" + storage + rest + b"\x89NtRs."


def test_a_written_tensor_is_read(tmp_path: Path) -> None:
    path = written(tmp_path / "x.pt", tensor((1, (3,), (1,))), data_0=np.arange(4, dtype=np.float32).tobytes())
    assert read_torch(path)["w"].tolist() == [1, 2, 3]  # type: ignore[union-attr]
    big = written(
        tmp_path / "x.pt", tensor((0, (4,), (1,))), data_0=np.arange(4, dtype=">f4").tobytes(), byteorder=b"big"
    )
    assert read_torch(big)["w"].tolist() == [0, 1, 2, 3]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("numbers", "size", "key", "reason"),
    [
        ((2, (3,), (1,)), 4, b"0", "element 4 of a storage of 4 elements"),
        ((0, (4,), (-1,)), 4, b"0", "a size that is negative"),
        ((-1, (2,), (1,)), 4, b"0", "a size that is negative"),
        ((0, (-(1 << 40), 1), (0, 1)), 4, b"0", "a size that is negative"),
        ((0, (2, 2), (1,)), 4, b"0", "are invalid"),
        ((0, (1 << 40,), (0,)), 4, b"0", "many more than the file"),
        ((0, (4,), (1,)), 1 << 40, b"0", "its storage has 16 bytes, not"),
        ((0, (4,), (1,)), 4, b"7", "the file has no storage '7'"),
        ((0, 4, (1,)), 4, b"0", "a shape that is no tuple"),
        ((0, (2.5,), (1,)), 4, b"0", "no integer"),
    ],
)
def test_damaged_tensors_are_refused(
    tmp_path: Path, numbers: tuple[Any, ...], size: int, key: bytes, reason: str
) -> None:
    path = written(tmp_path / "x.pt", tensor(numbers, size, key), data_0=bytes(16))
    with pytest.raises(ArtifactError, match=f"x.pt.*{reason}"):
        read_torch(path)


class _Attack:
    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("executed",)


def test_nothing_in_a_file_is_executed(tmp_path: Path, capsys: Any) -> None:
    path = written(tmp_path / "x.pt", pickle.dumps({"w": _Attack()}, 2))
    with pytest.raises(ArtifactError, match=r"builtin.*print, which is rejected"):
        read_torch(path)
    assert capsys.readouterr().out == ""


def test_damaged_archives_are_refused(tmp_path: Path) -> None:
    content = (FILES / "network.pth").read_bytes()
    for data, reason in ((content[:300], "not a file of PyTorch"), (b"", "not a file of PyTorch")):
        (tmp_path / "x.pt").write_bytes(data)
        with pytest.raises(ArtifactError, match=reason):
            read_torch(tmp_path / "x.pt")
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x/other", bytes(1 << 20))
    (tmp_path / "x.pt").write_bytes(bomb.getvalue())
    with pytest.raises(ArtifactError, match=r"it has no member data\.pkl"):
        read_torch(tmp_path / "x.pt")
