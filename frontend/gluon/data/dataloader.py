"""Batches of a dataset's samples, prefetched by workers.

Workers are threads, also where MXNet starts processes. Decoding and arithmetic release the GIL, arrays are not copied
between processes, and no process outlives the program.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from multiprocessing.pool import ThreadPool
from multiprocessing.reduction import ForkingPickler  # noqa: F401  # other packages import it from here
from typing import Any

import numpy as np

from ... import context
from ... import ndarray as nd
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler


def default_batchify_fn(data: Any) -> Any:
    """Stack samples into one array with a leading batch axis. Samples that are tuples become a list of such arrays."""
    if isinstance(data[0], nd.NDArray):
        return nd.stack(*data)
    if isinstance(data[0], tuple):
        return [default_batchify_fn(parts) for parts in zip(*data, strict=True)]
    data = np.asarray(data)
    return nd.array(data, dtype=data.dtype)


def default_mp_batchify_fn(data: Any) -> Any:
    """`default_batchify_fn` with the result in context `cpu_shared`, as MXNet's worker processes return it."""
    return _as_in_context(default_batchify_fn(data), context.Context("cpu_shared", 0))


def _as_in_context(data: Any, ctx: context.Context) -> Any:
    """Copy arrays, also arrays nested in lists, to `ctx`. Other objects are returned unchanged."""
    if isinstance(data, nd.NDArray):
        return data.as_in_context(ctx)
    if isinstance(data, list | tuple):
        return [_as_in_context(d, ctx) for d in data]
    return data


def _thread_worker_fn(samples: Any, batchify_fn: Callable[[Any], Any], dataset: Any) -> Any:
    """The batch of these samples: the task of a worker."""
    return batchify_fn([dataset[i] for i in samples])


class _MultiWorkerIter:
    """The batches of one epoch. The workers load up to `prefetch` batches in advance."""

    def __init__(
        self,
        worker_pool: Any,
        batchify_fn: Callable[[Any], Any],
        batch_sampler: Any,
        pin_memory: bool = False,
        pin_device_id: int = 0,
        worker_fn: Callable[..., Any] = _thread_worker_fn,
        prefetch: int = 0,
        dataset: Any = None,
        data_loader: Any = None,
        timeout: float = 120,
    ) -> None:
        self._worker_pool = worker_pool
        self._batchify_fn = batchify_fn
        self._batch_sampler = batch_sampler
        self._pinned = context.cpu_pinned(pin_device_id) if pin_memory else None
        self._worker_fn = worker_fn
        self._dataset = dataset
        self._data_loader = data_loader  # a reference, so that the loader does not stop its workers
        self._timeout = timeout
        self._iter = iter(batch_sampler)
        self._pending: deque[Any] = deque()
        for _ in range(max(prefetch, 1)):
            self._push_next()

    def __len__(self) -> int:
        return len(self._batch_sampler)

    def _push_next(self) -> None:
        """Submit the next batch to the workers, if there is one."""
        samples = next(self._iter, None)
        if samples is not None:
            task = (samples, self._batchify_fn, self._dataset)
            self._pending.append(self._worker_pool.apply_async(self._worker_fn, task))

    def __next__(self) -> Any:
        if not self._pending:
            raise StopIteration
        batch = self._pending.popleft().get(self._timeout)
        self._push_next()
        return batch if self._pinned is None else _as_in_context(batch, self._pinned)

    def next(self) -> Any:
        """The next batch."""
        return self.__next__()

    def __iter__(self) -> _MultiWorkerIter:
        return self


class DataLoader:
    """Iterates over batches of a dataset.

    Samples come in order, shuffled, or in the order of `sampler`; or `batch_sampler` lists the samples of each batch.
    `batchify_fn` joins the samples of a batch. If `num_workers` is positive, that many threads load `prefetch` batches
    in advance (default: `2 * num_workers`), and a batch that takes longer than `timeout` seconds raises
    `multiprocessing.TimeoutError`. With `auto_reload`, the end of an epoch starts loading the next one.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = None,
        shuffle: bool = False,
        sampler: Any = None,
        last_batch: str | None = None,
        batch_sampler: Any = None,
        batchify_fn: Callable[[Any], Any] | None = None,
        num_workers: int = 0,
        pin_memory: bool = False,
        pin_device_id: int = 0,
        prefetch: int | None = None,
        thread_pool: bool = False,
        timeout: float = 120,
        auto_reload: bool = False,
    ) -> None:
        assert timeout > 0, f"timeout must be positive, given {timeout}"
        self._dataset = dataset
        self._pin_memory = pin_memory
        self._pin_device_id = pin_device_id
        self._thread_pool = thread_pool
        self._timeout = timeout
        self._batch_sampler = _batches(dataset, batch_size, shuffle, sampler, last_batch, batch_sampler)
        self._num_workers = max(num_workers, 0)
        self._worker_pool = ThreadPool(self._num_workers) if self._num_workers else None
        self._prefetch = max(0, 2 * self._num_workers if prefetch is None else int(prefetch))
        self._batchify_fn = batchify_fn or (default_mp_batchify_fn if self._num_workers else default_batchify_fn)
        self.auto_reload = auto_reload
        self._iter: Iterator[Any] | None = None
        if auto_reload:
            self.refresh()

    def __iter__(self) -> Iterator[Any]:
        if self._iter is None:
            self.refresh()
        batches, self._iter = self._iter, None
        assert batches is not None
        yield from batches
        if self._iter is None and self.auto_reload:
            self.refresh()

    def _prefetch_iter(self) -> Iterator[Any]:
        if self._worker_pool is None:
            return self._own_iter()
        return _MultiWorkerIter(
            self._worker_pool,
            self._batchify_fn,
            self._batch_sampler,
            pin_memory=self._pin_memory,
            pin_device_id=self._pin_device_id,
            prefetch=self._prefetch,
            dataset=self._dataset,
            data_loader=self,
            timeout=self._timeout,
        )

    def _own_iter(self) -> Iterator[Any]:
        for samples in self._batch_sampler:
            batch = self._batchify_fn([self._dataset[i] for i in samples])
            yield _as_in_context(batch, context.cpu_pinned(self._pin_device_id)) if self._pin_memory else batch

    def __len__(self) -> int:
        return len(self._batch_sampler)

    def __del__(self) -> None:
        pool = getattr(self, "_worker_pool", None)
        if pool is not None:
            pool.terminate()

    def refresh(self) -> None:
        """Start loading the next epoch."""
        self._iter = self._prefetch_iter()

    def clean(self) -> None:
        """Drop the epoch that is being loaded."""
        self._iter = None


DataLoaderV1 = DataLoader


def _batches(
    dataset: Any, batch_size: int | None, shuffle: bool, sampler: Any, last_batch: str | None, batch_sampler: Any
) -> Any:
    """The batch sampler for the arguments of a loader. Raises ValueError if they contradict each other."""
    if batch_sampler is not None:
        if batch_size is not None or shuffle or sampler is not None or last_batch is not None:
            raise ValueError(
                "batch_size, shuffle, sampler and last_batch must not be specified if batch_sampler is specified."
            )
        return batch_sampler
    if batch_size is None:
        raise ValueError("batch_size must be specified unless batch_sampler is specified")
    if sampler is None:
        order: Sampler = RandomSampler(len(dataset)) if shuffle else SequentialSampler(len(dataset))
    elif shuffle:
        raise ValueError("shuffle must not be specified if sampler is specified")
    else:
        order = sampler
    return BatchSampler(order, batch_size, last_batch or "keep")
