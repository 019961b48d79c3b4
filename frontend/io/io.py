"""Data batches and iterators: DataDesc, DataBatch, DataIter, NDArrayIter, ResizeIter."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base import mx_real_t
from ..ndarray import NDArray, op
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


_READERS = ("_batchify", "_getdata", "_shuffle_data")
"""The methods of NDArrayIter that users override to read the sources."""


def _in_order(source: Named, order: np.ndarray, axis: int) -> Named:
    return [(name, take_examples(values, order, axis)) for name, values in source]


def _in_float32(source: Named) -> Named:
    dense = [type(values) is NDArray for _, values in source]
    return [(name, v.astype("float32", copy=False) if d else v) for (name, v), d in zip(source, dense, strict=True)]


class NDArrayIter(DataIter):
    """Batches of arrays in memory or in HDF5 files. `data` and `label` are an array, a list, or a dictionary by name.

    Batches of an NDArray have its dtype, but float32 with `shuffle`; batches of other sources are float32.
    `last_batch_handle` determines how an incomplete last batch is handled: 'pad' fills it with samples from the start,
    'discard' drops it, 'roll_over' moves it to the next epoch.

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
        self._order: np.ndarray | None = None  # the samples in the order of the epoch, unless `_sources` have it
        if last_batch_handle not in ("pad", "discard", "roll_over"):
            raise ValueError(f"last_batch_handle must be 'pad', 'discard' or 'roll_over', not {last_batch_handle!r}")
        self._sources: tuple[Named, Named] = (
            named_sources(data, data_name, allow_empty=False),
            named_sources(label, label_name, allow_empty=True),
        )
        if last_batch_handle != "discard" and any(isinstance(v, CSRNDArray) for _, v in (*self.data, *self.label)):
            raise NotImplementedError("NDArrayIter supports csr matrices only with last_batch_handle='discard'")
        self.layout = layout
        self._axis = layout.find("N")
        self.num_data = self.data[0][1].shape[self._axis]
        for name, values in (*self.data, *self.label):
            if values.shape[self._axis] < self.num_data:  # samples beyond those of the first data are not used
                raise ValueError(f"{name} has {values.shape[self._axis]} samples, the first data has {self.num_data}")
        self.idx = np.arange(self.num_data)
        self.shuffle = shuffle
        self.last_batch_handle = last_batch_handle
        self.cursor = -batch_size
        self._cache_data: list[NDArray] | None = None  # of an incomplete batch, which rolls over
        self._cache_label: list[NDArray] | None = None
        self.reset()
        self.num_source = len(self.data) + len(self.label)

    @property
    def data(self) -> Named:
        """The names and arrays of the data, in the order of the epoch."""
        self._apply_order()
        return self._sources[0]

    @data.setter
    def data(self, source: Named) -> None:
        self._apply_order()
        self._sources = source, self._sources[1]

    @property
    def label(self) -> Named:
        """The names and arrays of the labels, in the order of the epoch."""
        self._apply_order()
        return self._sources[1]

    @label.setter
    def label(self, source: Named) -> None:
        self._apply_order()
        self._sources = self._sources[0], source

    @property
    def data_list(self) -> list[Any]:
        """The arrays of the data and of the labels."""
        return [values for _, values in (*self.data, *self.label)]

    def _apply_order(self) -> None:
        """Copy the sources into the order of the epoch. Batches do not need it: they are taken by `_order`."""
        order, self._order = self._order, None
        if order is not None:
            data, label = self._sources
            self._sources = _in_order(data, order, self._axis), _in_order(label, order, self._axis)

    def _in_epoch(self, source: int) -> Named:
        """The data (0) or the labels (1). In the order of the epoch if a subclass reads them."""
        if self._order is not None and any(getattr(type(self), n) is not getattr(NDArrayIter, n) for n in _READERS):
            self._apply_order()
        return self._sources[source]

    def _describe(self, source: Named) -> list[DataDesc]:
        def shape(values: Any) -> tuple[int, ...]:
            return (*values.shape[: self._axis], self.batch_size, *values.shape[self._axis + 1 :])

        return [DataDesc(name, shape(values), dtype_of_source(values), self.layout) for name, values in source]

    @property
    def provide_data(self) -> list[DataDesc]:
        return self._describe(self._sources[0])

    @property
    def provide_label(self) -> list[DataDesc]:
        return self._describe(self._sources[1])

    def hard_reset(self) -> None:
        """Restart and drop a batch that rolled over."""
        if self.shuffle:
            self._shuffle_data()
        self.cursor = -self.batch_size
        self._cache_data = self._cache_label = None

    def reset(self) -> None:
        if self.shuffle:
            self._shuffle_data()
        if self.last_batch_handle == "roll_over" and self.num_data - self.batch_size < self.cursor < self.num_data:
            self.cursor = self.cursor - self.num_data - self.batch_size
        else:
            self.cursor = -self.batch_size

    def _shuffle_data(self) -> None:
        """Shuffle the samples. As in MXNet, `idx` is shuffled again and then applied to the order before, and dense
        arrays become float32."""
        np.random.shuffle(self.idx)
        self._sources = _in_float32(self._sources[0]), _in_float32(self._sources[1])
        self._order = self.idx.copy() if self._order is None else self._order[self.idx]

    def iter_next(self) -> bool:
        self.cursor += self.batch_size
        return self.cursor < self.num_data

    def next(self) -> DataBatch:
        if not self.iter_next():
            raise StopIteration
        data, label = self.getdata(), self.getlabel()
        if data[0].shape[self._axis] != self.batch_size:
            self._cache_data, self._cache_label = data, label
            raise StopIteration
        return DataBatch(data, label, self.getpad(), None)

    def _getdata(self, data_source: Named, start: int | None = None, end: int | None = None) -> list[NDArray]:
        """The samples from `start` to `end` of each source. Either can be None, but not both."""
        assert start is not None or end is not None, "should at least specify start or end"
        positions = np.arange(self.num_data)[start:end]
        if self._order is not None:
            positions = self._order[positions]
        return [take_examples(values, positions, self._axis) for _, values in data_source]

    def _concat(self, first_data: list[NDArray], second_data: list[NDArray]) -> list[NDArray]:
        """The samples of both, source by source. Either list can be empty."""
        if not first_data or not second_data:
            return first_data or second_data
        assert len(first_data) == len(second_data), "data source should contain the same size"
        return [op.concat(one, other, dim=self._axis) for one, other in zip(first_data, second_data, strict=True)]

    def _tile(self, data: list[NDArray], repeats: int) -> list[NDArray]:
        """The samples of each array, several times."""
        return [op.tile(one, reps=(repeats,) + (1,) * (one.ndim - 1)) for one in data]

    def _batchify(self, data_source: Named) -> list[NDArray]:
        """The arrays of the current batch: fewer samples than `batch_size` if they do not suffice and are not padded.

        AssertionError at the end of the epoch.
        """
        assert self.cursor < self.num_data, "DataIter needs reset."
        end = self.cursor + self.batch_size
        if self.cursor < 0:
            return self._concat(self._rolled_over(), self._getdata(data_source, end=end))
        if self.last_batch_handle != "pad" or end <= self.num_data:
            return self._getdata(data_source, self.cursor, min(end, self.num_data))
        return self._concat(self._getdata(data_source, start=self.cursor), self._padding(data_source, end))

    def _padding(self, data_source: Named, end: int) -> list[NDArray]:
        """The samples that fill a batch up to position `end`: those from the start, several times if necessary."""
        rounds, rest = divmod(end - self.num_data, self.num_data)
        if not rounds:
            return self._getdata(data_source, end=rest)
        every = self._tile(self._getdata(data_source, end=self.num_data), rounds)
        return self._concat(every, self._getdata(data_source, end=rest)) if rest else every

    def _rolled_over(self) -> list[NDArray]:
        """The samples that rolled over: first those of the data, then those of the labels."""
        if self._cache_data is not None:
            rest, self._cache_data = self._cache_data, None
        else:
            rest, self._cache_label = self._cache_label, None
        assert rest is not None, "next epoch should have cached data"
        return rest

    def getdata(self) -> list[NDArray]:
        return self._batchify(self._in_epoch(0))

    def getlabel(self) -> list[NDArray]:
        return self._batchify(self._in_epoch(1))

    def getpad(self) -> int:
        if self.last_batch_handle == "pad":
            return max(self.cursor + self.batch_size - self.num_data, 0)
        return max(-self.cursor, 0) if self.last_batch_handle == "roll_over" else 0
