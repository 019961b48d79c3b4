"""Image datasets in files: a record file, or a folder with one subfolder per class."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any

from .... import image, recordio
from ..dataset import Dataset, RecordFileDataset

_EXTENSIONS = (".jpg", ".jpeg", ".png")


class ImageRecordDataset(RecordFileDataset):
    """Images and labels of a .rec file. `flag` 0 decodes to grayscale, 1 to colour."""

    def __init__(self, filename: str, flag: int = 1, transform: Callable[..., Any] | None = None) -> None:
        super().__init__(filename)
        self._flag = flag
        self._transform = transform

    def __getitem__(self, idx: Any) -> Any:
        header, data = recordio.unpack(super().__getitem__(idx))
        sample = image.imdecode(data, self._flag), header.label
        return sample if self._transform is None else self._transform(*sample)


class ImageFolderDataset(Dataset):
    """Images in ROOT/CLASS/*.jpg (or .jpeg, .png). A label is the index of CLASS in the sorted names (`synsets`)."""

    def __init__(self, root: str, flag: int = 1, transform: Callable[..., Any] | None = None) -> None:
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
