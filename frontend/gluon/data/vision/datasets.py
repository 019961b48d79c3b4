"""Image datasets in files: MNIST, CIFAR, a record file, a list, or a folder with one subfolder per class."""

from __future__ import annotations

import gzip
import os
import tarfile
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .....runtime.atomic import write_atomically
from .... import image, recordio
from .... import ndarray as nd
from ....base import MXNetError, data_dir
from ....downloads import _get_repo_file_url, check_sha1, download
from ....image.lists import read_list, samples_of
from ....tracebacks import cause_of
from ..dataset import Dataset, RecordFileDataset, _DownloadedDataset

__all__ = [
    "CIFAR10",
    "CIFAR100",
    "MNIST",
    "FashionMNIST",
    "ImageFolderDataset",
    "ImageListDataset",
    "ImageRecordDataset",
]

_EXTENSIONS = (".jpg", ".jpeg", ".png")
_BLOCK = 1 << 20

Hashed = tuple[str, str]
"""The name of a file, and its SHA-1 hash."""
Transform = Callable[..., Any] | None


class _ImagesInMemory(_DownloadedDataset):
    """Images and labels that are read completely: `_data` is an array of uint8, `_label` one of int32.

    A subclass sets the names of its files before it calls this constructor. Files that are missing in `root`, or have
    another hash, are downloaded from the folder `_namespace` of MXNet's store.
    """

    _namespace: str

    def _fetch(self, file: Hashed) -> str:
        """The path of a file in `root`, after a download if it is necessary."""
        name, sha1 = file
        return download(_get_repo_file_url(f"gluon/dataset/{self._namespace}", name), self._root, sha1_hash=sha1)


class MNIST(_ImagesInMemory):
    """MNIST: images (28, 28, 1) of handwritten digits, 60,000 of them with `train`, else 10,000 others.

    `root` contains, or gets, the compressed files in the IDX format.
    """

    def __init__(
        self,
        root: str = os.path.join(data_dir(), "datasets", "mnist"),
        train: bool = True,
        transform: Transform = None,
    ) -> None:
        self._train = train
        self._train_data = ("train-images-idx3-ubyte.gz", "6c95f4b05d2bf285e1bfb0e7960c31bd3b3f8a7d")
        self._train_label = ("train-labels-idx1-ubyte.gz", "2a80914081dc54586dbdf242f9805a6b8d2a15fc")
        self._test_data = ("t10k-images-idx3-ubyte.gz", "c3a25af1f52dad7f726cce8cacb138654b760d48")
        self._test_label = ("t10k-labels-idx1-ubyte.gz", "763e7fa3757d93b0cdec073cef058b2004252c17")
        self._namespace = "mnist"
        super().__init__(root, transform)

    def _get_data(self) -> None:
        data, label = (self._train_data, self._train_label) if self._train else (self._test_data, self._test_label)
        images, labels = self._fetch(data), self._fetch(label)
        self._label = _idx_content(labels, header_bytes=8).astype(np.int32)
        content = _idx_content(images, header_bytes=16)
        if content.size != len(self._label) * 28 * 28:
            raise MXNetError(f"{images} has {content.size} pixels, but {labels} has {len(self._label)} labels")
        self._data = nd.array(content.reshape(-1, 28, 28, 1), dtype=np.uint8)


class FashionMNIST(MNIST):
    """Fashion-MNIST: images (28, 28, 1) of clothes in the format of MNIST."""

    def __init__(
        self,
        root: str = os.path.join(data_dir(), "datasets", "fashion-mnist"),
        train: bool = True,
        transform: Transform = None,
    ) -> None:
        self._train = train
        self._train_data = ("train-images-idx3-ubyte.gz", "0cf37b0d40ed5169c6b3aba31069a9770ac9043d")
        self._train_label = ("train-labels-idx1-ubyte.gz", "236021d52f1e40852b06a4c3008d8de8aef1e40b")
        self._test_data = ("t10k-images-idx3-ubyte.gz", "626ed6a7c06dd17c0eec72fa3be1740f146a2863")
        self._test_label = ("t10k-labels-idx1-ubyte.gz", "17f9ab60e7257a1620f4ad76bbbaf857c3920701")
        self._namespace = "fashion-mnist"
        super(MNIST, self).__init__(root, transform)


def _idx_content(path: str, header_bytes: int) -> np.ndarray:
    """The bytes of a compressed IDX file after its header. MXNetError if it is damaged."""
    try:
        with gzip.open(path, "rb") as file:
            file.read(header_bytes)
            return np.frombuffer(file.read(), np.uint8)
    except (OSError, EOFError) as error:
        raise MXNetError(f"cannot read {path}: {error}") from cause_of(error)


class CIFAR10(_ImagesInMemory):
    """CIFAR-10: colour images (32, 32, 3) of ten classes, 50,000 of them with `train`, else 10,000 others.

    `root` contains, or gets from the archive, the files of the binary version: data_batch_1.bin, ..., test_batch.bin.
    """

    def __init__(
        self,
        root: str = os.path.join(data_dir(), "datasets", "cifar10"),
        train: bool = True,
        transform: Transform = None,
    ) -> None:
        self._train = train
        self._archive_file = ("cifar-10-binary.tar.gz", "fab780a1e191a7eda0f345501ccd62d20f7ed891")
        self._train_data = [
            ("data_batch_1.bin", "aadd24acce27caa71bf4b10992e9e7b2d74c2540"),
            ("data_batch_2.bin", "c0ba65cce70568cd57b4e03e9ac8d2a5367c1795"),
            ("data_batch_3.bin", "1dd00a74ab1d17a6e7d73e185b69dbf31242f295"),
            ("data_batch_4.bin", "aab85764eb3584312d3c7f65fd2fd016e36a258e"),
            ("data_batch_5.bin", "26e2849e66a845b7f1e4614ae70f4889ae604628"),
        ]
        self._test_data = [("test_batch.bin", "67eb016db431130d61cd03c7ad570b013799c88c")]
        self._namespace = "cifar10"
        super().__init__(root, transform)

    def _read_batch(self, filename: str) -> tuple[np.ndarray, np.ndarray]:
        """The images (N, 32, 32, 3) and the labels of a file."""
        return _cifar_records(filename, label_bytes=1, label=0)

    def _get_data(self) -> None:
        self._extract_missing([*self._train_data, *self._test_data])
        files = self._train_data if self._train else self._test_data
        images, labels = zip(*(self._read_batch(os.path.join(self._root, name)) for name, _ in files), strict=True)
        self._data = nd.array(np.concatenate(images), dtype=np.uint8)
        self._label = np.concatenate(labels)

    def _extract_missing(self, files: list[Hashed]) -> None:
        """Download and unpack the archive if one of the files is not in `root` with its hash."""
        paths = [(os.path.join(self._root, name), sha1) for name, sha1 in files]
        if all(os.path.exists(path) and check_sha1(path, sha1) for path, sha1 in paths):
            return
        with tarfile.open(self._fetch(self._archive_file)) as archive:
            for member in archive:
                path, content = os.path.join(self._root, os.path.basename(member.name)), archive.extractfile(member)
                if content is not None and path in dict(paths):
                    write_atomically(path, iter(partial(content.read, _BLOCK), b""))


class CIFAR100(CIFAR10):
    """CIFAR-100: as CIFAR-10, with 100 classes (`fine_label`) or their 20 groups. Its files are train.bin, test.bin."""

    def __init__(
        self,
        root: str = os.path.join(data_dir(), "datasets", "cifar100"),
        fine_label: bool = False,
        train: bool = True,
        transform: Transform = None,
    ) -> None:
        self._train = train
        self._archive_file = ("cifar-100-binary.tar.gz", "a0bb982c76b83111308126cc779a992fa506b90b")
        self._train_data = [("train.bin", "e207cd2e05b73b1393c74c7f5e7bea451d63e08e")]
        self._test_data = [("test.bin", "8fb6623e830365ff53cf14adec797474f5478006")]
        self._fine_label = fine_label
        self._namespace = "cifar100"
        super(CIFAR10, self).__init__(root, transform)

    def _read_batch(self, filename: str) -> tuple[np.ndarray, np.ndarray]:
        return _cifar_records(filename, label_bytes=2, label=int(self._fine_label))


def _cifar_records(path: str, label_bytes: int, label: int) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels of a binary CIFAR file: records of labels, one byte each, and an image (3, 32, 32).

    `label` is the position of the label in a record. MXNetError if the file does not consist of whole records.
    """
    content, size = np.fromfile(path, np.uint8), label_bytes + 3 * 32 * 32
    if content.size % size:
        raise MXNetError(f"{path} has {content.size} bytes, which is not a multiple of the {size} of a record")
    records = content.reshape(-1, size)
    images = records[:, label_bytes:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return images, records[:, label].astype(np.int32)


class ImageRecordDataset(RecordFileDataset):
    """Images and labels of a .rec file. `flag` 0 decodes to grayscale, 1 to colour."""

    def __init__(self, filename: str, flag: int = 1, transform: Transform = None) -> None:
        super().__init__(filename)
        self._flag = flag
        self._transform = transform

    def __getitem__(self, idx: Any) -> Any:
        header, data = recordio.unpack(super().__getitem__(idx))
        sample = image.imdecode(data, self._flag), header.label
        return sample if self._transform is None else self._transform(*sample)


class ImageFolderDataset(Dataset):
    """Images in ROOT/CLASS/*.jpg (or .jpeg, .png). A label is the index of CLASS in the sorted names (`synsets`)."""

    def __init__(self, root: str, flag: int = 1, transform: Transform = None) -> None:
        self._root = os.path.expanduser(root)
        self._flag = flag
        self._transform = transform
        self._exts = list(_EXTENSIONS)
        self.synsets: list[str] = []
        self.items: list[tuple[str, int]] = []
        for folder in sorted(os.listdir(self._root)):
            self._list_images(folder)

    def _list_images(self, folder: str) -> None:
        path = os.path.join(self._root, folder)
        if not os.path.isdir(path):
            warnings.warn(f"Ignoring {path}, which is not a directory.", stacklevel=3)
            return
        label = len(self.synsets)
        self.synsets.append(folder)
        for name in sorted(os.listdir(path)):
            if os.path.splitext(name)[1].lower() in self._exts:
                self.items.append((os.path.join(path, name), label))
            else:
                warnings.warn(f"Ignoring {name} of type {os.path.splitext(name)[1]}.", stacklevel=3)

    def __getitem__(self, idx: Any) -> Any:
        path, label = self.items[idx]
        picture = image.imread(path, self._flag)
        return (picture, label) if self._transform is None else self._transform(picture, label)

    def __len__(self) -> int:
        return len(self.items)


class ImageListDataset(Dataset):
    """Images and labels of a list; MXNet 1.9.1 lacks it, and this is MXNet 2's.

    A label is a number, or an array for several numbers.

    Args:
        root: The folder that paths of the list start from.
        imglist: A list file (key, labels and path, separated by tabs), or a list of [label, path] or
            [label, label, ..., path].
        flag: 1 for images in colour, 0 for grey ones.
    """

    def __init__(self, root: str = ".", imglist: str | list[Any] | None = None, flag: int = 1) -> None:
        self._root, self._flag = os.path.expanduser(root), flag
        if isinstance(imglist, str):
            keys, samples = read_list(os.path.join(self._root, imglist), "float32")
            chosen = [samples[key] for key in keys]
        elif isinstance(imglist, list):
            names, listed = samples_of(imglist, "float32")
            chosen = [listed[name] for name in names]
        else:
            raise ValueError(f"imglist must be the name of a file or a list, not {imglist!r}")
        self.items = [(os.path.join(self._root, path), label) for label, path in chosen]

    def __getitem__(self, idx: Any) -> Any:
        path, label = self.items[idx]
        return image.imread(path, self._flag), float(label.asscalar()) if label.size == 1 else label

    def __len__(self) -> int:
        return len(self.items)
