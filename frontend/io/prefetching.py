"""PrefetchingIter: reads the next batch of other iterators in background threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from ..ndarray import NDArray
from .io import DataBatch, DataDesc, DataIter

Renames = Sequence[Mapping[str, str]] | None


class PrefetchingIter(DataIter):
    """Combines the batches of several iterators. Each iterator prefetches one batch in its own thread.

    `rename_data` and `rename_label` map old names to new ones, for each iterator. An exception of an iterator is raised
    when its batch is requested.
    """

    def __init__(self, iters: Any, rename_data: Renames = None, rename_label: Renames = None) -> None:
        super().__init__()
        self.iters: list[Any] = iters if isinstance(iters, list) else [iters]
        if not self.iters:
            raise AssertionError("PrefetchingIter requires an iterator")
        self.n_iter = len(self.iters)
        self.rename_data, self.rename_label = rename_data, rename_label
        self.batch_size = self.provide_data[0][1][0]
        self.current_batch: DataBatch | None = None
        self._threads = ThreadPoolExecutor(self.n_iter, "PrefetchingIter")
        self._pending = self._submit()

    def __del__(self) -> None:
        threads = self.__dict__.get("_threads")
        if threads is not None:
            threads.shutdown(wait=False, cancel_futures=True)

    def _submit(self) -> list[Future[DataBatch | None]]:
        return [self._threads.submit(_next_or_none, one) for one in self.iters]

    @property
    def provide_data(self) -> list[DataDesc]:
        return _renamed([one.provide_data for one in self.iters], self.rename_data)

    @property
    def provide_label(self) -> list[DataDesc]:
        return _renamed([one.provide_label for one in self.iters], self.rename_label)

    def reset(self) -> None:
        for future in self._pending:
            future.exception()  # waits: an iterator must not be reset while its thread uses it
        for one in self.iters:
            one.reset()
        self._pending = self._submit()

    def iter_next(self) -> bool:
        results = [future.result() for future in self._pending]
        batches = [batch for batch in results if batch is not None]
        if not batches:
            return False
        if len(batches) < self.n_iter or any(batch.pad != batches[0].pad for batch in batches):
            raise AssertionError("Number of entry mismatches between iterators")
        self.current_batch = DataBatch(
            [array for batch in batches for array in batch.data],
            [array for batch in batches for array in batch.label or ()],
            batches[0].pad,
            batches[0].index,
            provide_data=self.provide_data,
            provide_label=self.provide_label,
        )
        self._pending = self._submit()
        return True

    def next(self) -> DataBatch:
        if not self.iter_next():
            raise StopIteration
        return self._current()

    def _current(self) -> DataBatch:
        if self.current_batch is None:
            raise AssertionError("there is no current batch: call next first")
        return self.current_batch

    def getdata(self) -> Sequence[NDArray]:
        return self._current().data

    def getlabel(self) -> Sequence[NDArray] | None:
        return self._current().label

    def getindex(self) -> Any:
        return self._current().index

    def getpad(self) -> int | None:
        return self._current().pad


def _next_or_none(source: Any) -> DataBatch | None:
    try:
        return source.next()
    except StopIteration:
        return None


def _renamed(described: Sequence[Sequence[Any]], renames: Renames) -> list[DataDesc]:
    if renames is None:
        return [desc for listed in described for desc in listed]
    return [
        DataDesc(names[desc.name], desc.shape, desc.dtype) if isinstance(desc, DataDesc) else DataDesc(*desc)
        for names, listed in zip(renames, described, strict=True)
        for desc in listed
    ]
