"""Datasets: samples by index, and operations that derive new datasets."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from ... import recordio
from ...ndarray import NDArray
from .sampler import FilterSampler, Sampler, SequentialSampler


class Dataset:
    """Samples by index. A subclass defines `__getitem__` and `__len__`. Derived datasets read samples on access."""

    def __getitem__(self, idx: Any) -> Any:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    def filter(self, fn: Callable[[Any], Any]) -> Dataset:
        """The samples for which `fn(sample)` is true. `fn` is called on all samples immediately."""
        return _FilteredDataset(self, fn)

    def shard(self, num_shards: int, index: int) -> Dataset:
        """Part `index` of `num_shards` consecutive parts, whose sizes differ by at most one."""
        assert index < num_shards, f"Shard index of out bound: {index} out of {num_shards}"
        assert num_shards > 0, "Number of shards must be greater than 0"
        assert index >= 0, "Index must be non-negative"
        size, rest = divmod(len(self), num_shards)
        start = size * index + min(index, rest)
        return _SampledDataset(self, SequentialSampler(size + (index < rest), start))

    def take(self, count: int | None) -> Dataset:
        """The first `count` samples; all samples if there are fewer or `count` is None."""
        length = len(self) if count is None else min(count, len(self))
        return _SampledDataset(self, SequentialSampler(length))

    def sample(self, sampler: Sampler) -> Dataset:
        """The samples at the sampler's indices, in its order."""
        if not isinstance(sampler, Sampler):
            raise TypeError(f"Invalid sampler type: {type(sampler)}. Expected gluon.data.Sampler instead.")
        return _SampledDataset(self, sampler)

    def transform(self, fn: Callable[..., Any], lazy: bool = True) -> Dataset:
        """The results of `fn` on each sample. A sample that is a tuple is passed as several arguments.

        `fn` is called at each access if `lazy`, otherwise once per sample, immediately.
        """
        transformed = _LazyTransformDataset(self, fn)
        return transformed if lazy else SimpleDataset([transformed[i] for i in range(len(transformed))])

    def transform_first(self, fn: Callable[[Any], Any], lazy: bool = True) -> Dataset:
        """Each sample with `fn` applied to its first element."""
        return self.transform(_TransformFirstClosure(fn), lazy)


class SimpleDataset(Dataset):
    """A dataset of a list, an array, or another object with a length and items."""

    def __init__(self, data: Any) -> None:
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, idx: Any) -> Any:
        return self._data[idx]


class _LazyTransformDataset(Dataset):
    def __init__(self, data: Any, fn: Callable[..., Any]) -> None:
        self._data = data
        self._fn = fn

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, idx: Any) -> Any:
        item = self._data[idx]
        return self._fn(*item) if isinstance(item, tuple) else self._fn(item)


class _TransformFirstClosure:
    """Applies a function to the first element of a sample. A class, so that it can be pickled."""

    def __init__(self, fn: Callable[[Any], Any]) -> None:
        self._fn = fn

    def __call__(self, x: Any, *args: Any) -> Any:
        return (self._fn(x), *args) if args else self._fn(x)


class _SampledDataset(Dataset):
    def __init__(self, dataset: Dataset, sampler: Sampler) -> None:
        self._dataset = dataset
        self._sampler = sampler
        self._indices = list(iter(sampler))

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, idx: Any) -> Any:
        return self._dataset[self._indices[idx]]


class _FilteredDataset(_SampledDataset):
    def __init__(self, dataset: Dataset, fn: Callable[[Any], Any]) -> None:
        super().__init__(dataset, FilterSampler(fn, dataset))


class ArrayDataset(Dataset):
    """Combines arrays, lists or datasets of equal length. A sample is a tuple of one item of each, or the only item.

    Example:
        >>> dataset = mx.gluon.data.ArrayDataset(np.arange(6).reshape(3, 2), [7, 8, 9])
        >>> len(dataset), dataset[1]
        (3, (array([2, 3]), 8))
    """

    def __init__(self, *args: Any) -> None:
        assert len(args) > 0, "Needs at least 1 arrays"
        self._length = len(args[0])
        for number, data in enumerate(args):
            assert len(data) == self._length, (
                f"All arrays must have the same length; array[0] has length {self._length} while array[{number}] has "
                f"{len(data)}."
            )
        self._data = [x.asnumpy() if isinstance(x, NDArray) and len(x.shape) == 1 else x for x in args]

    def __getitem__(self, idx: Any) -> Any:
        if len(self._data) == 1:
            return self._data[0][idx]
        return tuple(data[idx] for data in self._data)

    def __len__(self) -> int:
        return self._length


class RecordFileDataset(Dataset):
    """The records of a .rec file, as bytes. The index is the .idx file of the same name."""

    def __init__(self, filename: str) -> None:
        self.filename = filename
        self.idx_file = os.path.splitext(filename)[0] + ".idx"
        self._record = recordio.MXIndexedRecordIO(self.idx_file, self.filename, "r")

    def __getitem__(self, idx: Any) -> Any:
        return self._record.read_idx(self._record.keys[idx])

    def __len__(self) -> int:
        return len(self._record.keys)


class _DownloadedDataset(Dataset):
    """A dataset whose files are stored in the folder `root`. A subclass reads them in `_get_data`."""

    def __init__(self, root: str, transform: Callable[..., Any] | None) -> None:
        super().__init__()
        self._transform = transform
        self._data: Any = None
        self._label: Any = None
        self._root = os.path.expanduser(root)
        os.makedirs(self._root, exist_ok=True)
        self._get_data()

    def __getitem__(self, idx: Any) -> Any:
        sample = self._data[idx], self._label[idx]
        return sample if self._transform is None else self._transform(*sample)

    def __len__(self) -> int:
        return len(self._label)

    def _get_data(self) -> None:
        raise NotImplementedError
