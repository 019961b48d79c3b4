"""Data batches and iterators: DataDesc, DataBatch, DataIter, NDArrayIter, ResizeIter."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base import mx_real_t
from ..ndarray import NDArray
from ..ndarray.sparse import CSRNDArray
from .sources import Named, dtype_of_source, named_sources, take_examples

__all__ = ["DataBatch", "DataDesc", "DataIter", "NDArrayIter", "ResizeIter"]


class DataDesc(namedtuple("DataDesc", ["name", "shape"])):
    """Name, shape, dtype and layout of an input. It is compared and unpacked as (name, shape)."""

    dtype: Any
    layout: str

    def __new__(cls, name: str, shape: Sequence[int], dtype: Any = mx_real_t, layout: str = "NCHW") -> DataDesc:
        desc = super().__new__(cls, name, tuple(shape))
        desc.dtype, desc.layout = dtype, layout
        return desc

    def __repr__(self) -> str:
        return f"DataDesc[{self.name},{self.shape},{self.dtype},{self.layout}]"

    @staticmethod
    def get_batch_axis(layout: str | None) -> int:
        """The index of N in a layout: 0 if the layout is None, -1 if it has no N."""
        return 0 if layout is None else layout.find("N")

    @staticmethod
    def get_list(shapes: Any, types: Any) -> list[DataDesc]:
        """Descriptions from a list of (name, shape), and a list of (name, dtype) or None."""
        if types is None:
            return [DataDesc(name, shape) for name, shape in shapes]
        kinds = dict(types)
        return [DataDesc(name, shape, kinds[name]) for name, shape in shapes]


class DataBatch:
    """Lists of data and label arrays. The last `pad` samples are padding.

    Example:
        >>> batch = mx.io.DataBatch([mx.nd.ones((2, 3))], [mx.nd.zeros((2,))])
        >>> batch.data[0].shape
        (2, 3)
    """

    def __init__(
        self,
        data: Sequence[NDArray],
        label: Sequence[NDArray] | None = None,
        pad: int | None = None,
        index: Any = None,
        bucket_key: Any = None,
        provide_data: Any = None,
        provide_label: Any = None,
    ) -> None:
        for what, value in (("Data", data), ("Label", label)):
            if value is not None and not isinstance(value, list | tuple):
                raise AssertionError(f"{what} must be list of NDArrays")
        self.data, self.label = data, label
        self.pad, self.index, self.bucket_key = pad, index, bucket_key
        self.provide_data, self.provide_label = provide_data, provide_label

    def __str__(self) -> str:
        labels = [a.shape for a in self.label] if self.label else None
        return f"{type(self).__name__}: data shapes: {[a.shape for a in self.data]} label shapes: {labels}"


class DataIter:
    """An iterator over batches. Subclasses define `iter_next`, `getdata`, `getlabel` and `getpad`, or `next`."""

    def __init__(self, batch_size: int = 0) -> None:
        self.batch_size = batch_size

    def __iter__(self) -> DataIter:
        return self

    def __next__(self) -> DataBatch:
        return self.next()

    def reset(self) -> None:
        """Restart the iteration."""

    def next(self) -> DataBatch:
        """The next batch. Raises StopIteration at the end."""
        if not self.iter_next():
            raise StopIteration
        return DataBatch(self.getdata(), self.getlabel(), self.getpad(), self.getindex())

    def iter_next(self) -> bool:
        """Advance to the next batch. Returns False at the end."""
        raise NotImplementedError(f"{type(self).__name__} has no iter_next")

    def getdata(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no getdata")

    def getlabel(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no getlabel")

    def getindex(self) -> Any:
        return None

    def getpad(self) -> int | None:
        raise NotImplementedError(f"{type(self).__name__} has no getpad")


class ResizeIter(DataIter):
    """Changes the number of batches per epoch of another iterator to `size`. It restarts that iterator as needed.

    Example:
        >>> batches = mx.io.NDArrayIter(np.zeros((4, 1)), batch_size=2)
        >>> len(list(mx.io.ResizeIter(batches, size=5)))
        5
    """

    def __init__(self, data_iter: Any, size: int, reset_internal: bool = True) -> None:
        super().__init__(data_iter.batch_size)
        self.data_iter, self.size, self.reset_internal = data_iter, size, reset_internal
        self.provide_data, self.provide_label = data_iter.provide_data, data_iter.provide_label
        self.cur = 0
        self.current_batch: DataBatch | None = None

    def reset(self) -> None:
        self.cur = 0
        if self.reset_internal:
            self.data_iter.reset()

    def iter_next(self) -> bool:
        if self.cur == self.size:
            return False
        try:
            self.current_batch = self.data_iter.next()
        except StopIteration:
            self.data_iter.reset()
            self.current_batch = self.data_iter.next()
        self.cur += 1
        return True

    def next(self) -> DataBatch:
        if not self.iter_next() or self.current_batch is None:
            raise StopIteration
        return self.current_batch


class NDArrayIter(DataIter):
    """Batches of arrays in memory or in HDF5 files. `data` and `label` are an array, a list, or a dictionary by name.

    Batches of an NDArray have its dtype; batches of other sources are float32. `last_batch_handle` determines how an
    incomplete last batch is handled: 'pad' fills it with samples from the start, 'discard' drops it, 'roll_over' moves
    it to the next epoch.

    Example:
        >>> batches = mx.io.NDArrayIter(np.arange(6).reshape(3, 2), np.array([0, 1, 0]), batch_size=2)
        >>> [(batch.data[0].shape, batch.pad) for batch in batches]
        [((2, 2), 0), ((2, 2), 1)]
    """

    def __init__(
        self,
        data: Any,
        label: Any = None,
        batch_size: int = 1,
        shuffle: bool = False,
        last_batch_handle: str = "pad",
        data_name: str = "data",
        label_name: str = "softmax_label",
        layout: str = "NCHW",
    ) -> None:
        super().__init__(batch_size)
        if last_batch_handle not in ("pad", "discard", "roll_over"):
            raise ValueError(f"last_batch_handle must be 'pad', 'discard' or 'roll_over', not {last_batch_handle!r}")
        self.data = named_sources(data, data_name, allow_empty=False)
        self.label = named_sources(label, label_name, allow_empty=True)
        if last_batch_handle != "discard" and any(isinstance(v, CSRNDArray) for _, v in (*self.data, *self.label)):
            raise NotImplementedError("NDArrayIter supports csr matrices only with last_batch_handle='discard'")
        self.layout = layout
        self._axis = layout.find("N")
        self.num_data = self.data[0][1].shape[self._axis]
        for name, values in (*self.data, *self.label):
            if values.shape[self._axis] < self.num_data:  # samples beyond those of the first data are not used
                raise ValueError(f"{name} has {values.shape[self._axis]} samples, the first data has {self.num_data}")
        self.idx = np.arange(self.num_data)
        self._order = self.idx.copy()  # the sources' samples in the order of this epoch
        self._rolled = self.idx[:0]  # the samples that begin this epoch because they rolled over
        self.shuffle = shuffle
        self.last_batch_handle = last_batch_handle
        self.cursor = -batch_size
        self.reset()

    def _describe(self, source: Named) -> list[DataDesc]:
        def shape(values: Any) -> tuple[int, ...]:
            return (*values.shape[: self._axis], self.batch_size, *values.shape[self._axis + 1 :])

        return [DataDesc(name, shape(values), dtype_of_source(values), self.layout) for name, values in source]

    @property
    def provide_data(self) -> list[DataDesc]:
        return self._describe(self.data)

    @property
    def provide_label(self) -> list[DataDesc]:
        return self._describe(self.label)

    def hard_reset(self) -> None:
        """Restart and drop a batch that rolled over."""
        if self.shuffle:
            self._shuffle()
        self.cursor = -self.batch_size

    def reset(self) -> None:
        self._rolled = self._order[max(self.cursor, 0) :]
        if self.shuffle:
            self._shuffle()
        if self.last_batch_handle == "roll_over" and self.num_data - self.batch_size < self.cursor < self.num_data:
            self.cursor = self.cursor - self.num_data - self.batch_size
        else:
            self.cursor = -self.batch_size

    def _shuffle(self) -> None:
        """Shuffle the samples. As in MXNet, `idx` is shuffled again and then applied to the order before."""
        np.random.shuffle(self.idx)
        self._order = self._order[self.idx]

    def iter_next(self) -> bool:
        self.cursor += self.batch_size
        return self.cursor < self.num_data

    def next(self) -> DataBatch:
        if not self.iter_next():
            raise StopIteration
        incomplete = self.cursor + self.batch_size > self.num_data
        if incomplete and self.last_batch_handle != "pad":
            raise StopIteration
        return DataBatch(self.getdata(), self.getlabel(), self.getpad(), None)

    def _positions(self) -> np.ndarray:
        """The indices of the samples of the current batch: samples that rolled over are before position 0."""
        if self.cursor >= self.num_data:
            raise AssertionError("DataIter needs reset.")
        end = self.cursor + self.batch_size
        if self.cursor < 0:
            return np.concatenate([self._rolled, self._order[:end]])
        return self._order[np.arange(self.cursor, end) % self.num_data]

    def _batch(self, source: Named) -> list[NDArray]:
        positions = self._positions()
        return [take_examples(values, positions, self._axis) for _, values in source]

    def getdata(self) -> list[NDArray]:
        return self._batch(self.data)

    def getlabel(self) -> list[NDArray]:
        return self._batch(self.label)

    def getpad(self) -> int:
        if self.last_batch_handle == "pad":
            return max(self.cursor + self.batch_size - self.num_data, 0)
        return max(-self.cursor, 0) if self.last_batch_handle == "roll_over" else 0
