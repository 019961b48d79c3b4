"""Data sets in their original files: MNIST, CIFAR and WikiText, from a folder or from MXNet's store."""

from __future__ import annotations

import gzip
import hashlib
import io
import struct
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import pytest

vision, text = mx.gluon.data.vision, mx.gluon.contrib.data.text
IMAGES = np.random.RandomState(0).randint(0, 256, (5, 28, 28, 1), np.uint8)
LABELS = np.array([3, 1, 4, 1, 5], np.uint8)
COLOURS = np.random.RandomState(1).randint(0, 256, (5, 32, 32, 3), np.uint8)
SENTENCES = " = A title = \n\n one two <unk> two\n \n three one two\n"


def written(path: Path, content: bytes) -> tuple[str, str]:
    """Write a file. Returns its name and its hash."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path.name, hashlib.sha1(content).hexdigest()


def idx(array: np.ndarray) -> bytes:
    shape = array.shape[:3]
    return gzip.compress(struct.pack(f">HBB{len(shape)}I", 0, 8, len(shape), *shape) + array.tobytes(), mtime=0)


def cifar(labels: list[np.ndarray]) -> bytes:
    return np.concatenate([np.stack(labels, 1), COLOURS.transpose(0, 3, 1, 2).reshape(5, -1)], axis=1).tobytes()


@pytest.mark.parametrize("kind", ["MNIST", "FashionMNIST"])
def test_mnist(kind: str, tmp_path: Path) -> None:
    class Small(getattr(vision, kind)):
        def _get_data(self) -> None:
            self._train_data = self._test_data = written(tmp_path / self._train_data[0], idx(IMAGES))
            self._train_label = self._test_label = written(tmp_path / self._train_label[0], idx(LABELS))
            super()._get_data()

    data = Small(str(tmp_path), transform=lambda image, label: (image, label + 1))
    assert len(data) == 5 and len(Small(str(tmp_path), train=False)) == 5
    sample: Any = data[2]
    image, label = sample
    assert isinstance(image, mx.nd.NDArray) and image.dtype == np.uint8 and (image.asnumpy() == IMAGES[2]).all()
    assert label.dtype == np.int32 and label == 5
    batches = list(mx.gluon.data.DataLoader(data, 2))
    assert [x.shape for x, _ in batches] == [(2, 28, 28, 1), (2, 28, 28, 1), (1, 28, 28, 1)]
    assert [y.asnumpy().tolist() for _, y in batches] == [[4, 2], [5, 2], [6]] and batches[0][1].dtype == np.int32


def test_files_of_mnist_that_do_not_fit(tmp_path: Path) -> None:
    class Small(vision.MNIST):
        def _get_data(self) -> None:
            self._train_data = written(tmp_path / "images.gz", content)
            self._train_label = written(tmp_path / "labels.gz", idx(LABELS))
            super()._get_data()

    content = idx(IMAGES[1:])
    with pytest.raises(mx.MXNetError, match=r"images.gz has 3136 pixels, but .*labels.gz has 5 labels"):
        Small(str(tmp_path))
    content = idx(IMAGES)[:-9]
    with pytest.raises(mx.MXNetError, match=r"cannot read .*images.gz: "):
        Small(str(tmp_path))


def test_cifar10_from_the_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content, packed = cifar([LABELS]), io.BytesIO()
    names = [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name in [*names, "../outside.bin"]:
            member = tarfile.TarInfo(f"cifar/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    monkeypatch.setenv("MXNET_GLUON_REPO", (tmp_path / "store").as_uri())

    class Small(vision.CIFAR10):
        def _get_data(self) -> None:
            hashed = hashlib.sha1(content).hexdigest()
            self._train_data, self._test_data = [(name, hashed) for name in names[:5]], [(names[5], hashed)]
            self._archive_file = written(tmp_path / "store/gluon/dataset/cifar10/a.tar.gz", packed.getvalue())
            super()._get_data()

    for train, count in ((True, 25), (False, 5), (True, 25)):
        data = Small(str(tmp_path / "files"), train=train)
        assert len(data) == count and (data[4][0].asnumpy() == COLOURS[4]).all() and data[4][1] == 5
        (tmp_path / "store/gluon/dataset/cifar10/a.tar.gz").unlink(missing_ok=True)
    assert sorted(path.name for path in (tmp_path / "files").iterdir()) == sorted([*names, "a.tar.gz"])


@pytest.mark.parametrize("fine", [False, True])
def test_cifar100_has_two_labels(fine: bool, tmp_path: Path) -> None:
    class Small(vision.CIFAR100):
        def _get_data(self) -> None:
            self._train_data = self._test_data = [written(tmp_path / "train.bin", cifar([LABELS, LABELS + 10]))]
            super()._get_data()

    data = Small(str(tmp_path), fine_label=fine)
    assert [int(label) for _, label in data] == (LABELS + 10 * fine).tolist()
    assert data[0][0].shape == (32, 32, 3) and (data[3][0].asnumpy() == COLOURS[3]).all()
    (tmp_path / "train.bin").write_bytes(b"x" * 100)
    with pytest.raises(mx.MXNetError, match=r"train.bin has 100 bytes, .* multiple of the 3074 of a record"):
        data._read_batch(str(tmp_path / "train.bin"))


def test_wikitext(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MXNET_GLUON_REPO", (tmp_path / "store").as_uri())
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("wikitext/", "")
        archive.writestr("wikitext/wiki.train.tokens", SENTENCES)

    class Small(text.WikiText2):
        def _get_data(self) -> None:
            self._archive_file = written(tmp_path / "store/gluon/dataset/wikitext-2/a.zip", packed.getvalue())
            self._data_file = {"train": ("wiki.train.tokens", hashlib.sha1(SENTENCES.encode()).hexdigest())}
            super()._get_data()

    data = Small(str(tmp_path / "files"), seq_len=3)
    tokens = "= A title = <eos> one two <unk> two <eos> three one two <eos>".split()
    known: Any = data.vocabulary
    assert known.idx_to_token[:3] == ["<unk>", "<eos>", "two"] and data.frequencies["two"] == 3
    assert len(data) == 4 and data[0][0].dtype == np.int32
    read = [[known.to_tokens(part.astype(int).asnumpy().tolist()) for part in data[i]] for i in range(4)]
    assert read == [[tokens[3 * i : 3 * i + 3], tokens[3 * i + 1 : 3 * i + 4]] for i in range(4)]
    other = Small(str(tmp_path / "files"), vocab=known, seq_len=5)
    assert other.vocabulary is known and len(other) == 2


def test_the_error_for_a_file_that_cannot_be_downloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MXNET_GLUON_REPO", (tmp_path / "store").as_uri())
    for make, name, sha1 in (
        (vision.MNIST, "train-images-idx3-ubyte.gz", "6c95f4b05d2bf285e1bfb0e7960c31bd3b3f8a7d"),
        (vision.CIFAR10, "cifar-10-binary.tar.gz", "fab780a1e191a7eda0f345501ccd62d20f7ed891"),
        (text.WikiText103, "wikitext-103-v1.zip", "0aec09a7537b58d4bb65362fee27650eeaba625a"),
    ):
        with pytest.raises(OSError) as caught:
            make(str(tmp_path / "files"))
        (note,) = caught.value.__notes__
        assert f"put the file, whose SHA-1 is {sha1}, at {tmp_path}/files/{name} yourself" in note
