"""Batches of a dataset's samples, prefetched by worker processes or threads."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from multiprocessing.pool import ThreadPool
from multiprocessing.reduction import ForkingPickler  # noqa: F401  # other packages import it from here
from typing import Any

import numpy as np

from ... import autograd, context
from ... import ndarray as nd
from ...ndarray.array_classes import empty_array
from ...tracebacks import api_boundary
from ...util import is_np_array, is_np_shape, set_np
from ..structure import is_numpy, operators_for
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler
from .workers.pool import WorkerPool
from .workers.seeds import EpochSeeds
from .workers.transport import shared_array


@api_boundary
def default_batchify_fn(data: Any) -> Any:
    """Stack samples into one array with a leading batch axis. Samples that are tuples become a list of such arrays."""
    return _batch(data, None)


@api_boundary
def default_mp_batchify_fn(data: Any) -> Any:
    """`default_batchify_fn` with arrays in context `cpu_shared`. A worker process writes large arrays directly into
    memory that it shares with the loader's process."""
    return _batch(data, context.cpu_shared())


def _batch(data: Any, ctx: context.Context | None) -> Any:
    """The samples as an array, or as a list of arrays: in `ctx`, which is cpu_shared or None for the default."""
    if isinstance(data[0], nd.NDArray):
        return _stack(data, ctx)
    if isinstance(data[0], tuple):
        return [_batch(parts, ctx) for parts in _transposed(data)]
    values = np.asarray(data)
    batch = nd.array(values, dtype=values.dtype, ctx=ctx)
    return batch.as_np_ndarray() if is_np_array() else batch


def _transposed(samples: Any) -> Any:
    """The first elements of all samples, their second elements, and so on. ValueError if their numbers differ."""
    sizes = {len(sample) for sample in samples}
    if len(sizes) > 1:
        raise ValueError(f"the samples of a batch have different numbers of elements: {sorted(sizes)}")
    return zip(*samples, strict=True)


def _stack(arrays: Any, ctx: context.Context | None) -> nd.NDArray:
    """The arrays along a new first axis. MXNetError if their shapes or dtypes differ."""
    first = arrays[0]
    if autograd.is_recording() or not all(_is_alike(array, first) for array in arrays):
        stacked = operators_for(is_numpy(first), False).stack(*arrays)
        return stacked if ctx is None else stacked.as_in_context(ctx)
    shape = (len(arrays), *first.shape)
    batch = empty_array(shape, first._dtype, first.context) if ctx is None else shared_array(shape, first._dtype)
    memory = batch._memory()
    for position, array in enumerate(arrays):  # as fast as a compiled program, which each number of samples would need
        memory[position] = array._memory()
    return batch.as_np_ndarray() if is_numpy(first) else batch


def _is_alike(array: Any, first: Any) -> bool:
    """True for dense arrays of one shape and dtype in the host's memory."""
    is_dense = type(array) is nd.NDArray or is_numpy(array)
    return is_dense and type(array) is type(first) and array._on_host and array._type() == first._type()


def _as_in_context(data: Any, ctx: context.Context) -> Any:
    """Copy arrays, also arrays nested in lists, to `ctx`. Other objects are returned unchanged."""
    if isinstance(data, nd.NDArray):
        return data.as_in_context(ctx)
    if isinstance(data, list | tuple):
        return [_as_in_context(d, ctx) for d in data]
    return data


def _pinned(data: Any, device_id: int) -> Any:
    """The arrays of a batch, also arrays nested in lists, on cpu_pinned. Dense arrays on the host are not copied: they
    are on the same memory, and copies to GPUs pass through pinned blocks (`runtime/staging.py`) from any memory of the
    host. Other objects are returned unchanged."""
    if isinstance(data, list | tuple):
        return [_pinned(d, device_id) for d in data]
    pinned = context.cpu_pinned(device_id)
    if not isinstance(data, nd.NDArray) or data._is_sparse or not data._on_host:
        return _as_in_context(data, pinned)
    view = data._alias(data._shape)
    view._context = pinned
    return view


def _worker_fn(samples: Any, batchify_fn: Callable[[Any], Any], dataset: Any) -> Any:
    """The batch of these samples: the task of a worker."""
    return batchify_fn([dataset[i] for i in samples])


_thread_worker_fn = _worker_fn


class _MultiWorkerIter:
    """The batches of one epoch, of which the workers load `prefetch` in advance.

    Other packages derive from this class: `_push_next` gives the next batch to the workers, and `_data_buffer` has the
    results by the numbers of batches, from `_rcvd_idx` to `_sent_idx`. A worker function of theirs returns a pickle.
    """

    def __init__(
        self,
        worker_pool: Any,
        batchify_fn: Callable[[Any], Any],
        batch_sampler: Any,
        pin_memory: bool = False,
        pin_device_id: int = 0,
        worker_fn: Callable[..., Any] = _worker_fn,
        prefetch: int = 0,
        dataset: Any = None,
        data_loader: Any = None,
        timeout: float = 120,
    ) -> None:
        self._worker_pool = worker_pool
        self._batchify_fn = batchify_fn
        self._batch_sampler = batch_sampler
        self._pin_memory = pin_memory
        self._pin_device_id = pin_device_id
        self._worker_fn = worker_fn
        self._dataset = dataset
        self._data_loader = data_loader  # a reference, so that the loader does not end its workers
        self._timeout = timeout
        self._seeds = EpochSeeds() if isinstance(worker_pool, WorkerPool) else None
        self._data_buffer: dict[int, Any] = {}
        self._rcvd_idx = 0
        self._sent_idx = 0
        self._iter = iter(batch_sampler)
        for _ in range(prefetch):
            self._push_next()

    def __len__(self) -> int:
        return len(self._batch_sampler)

    def _push_next(self) -> None:
        """Give the next batch to the workers, if there is one."""
        samples = next(self._iter, None)
        if samples is None:
            return
        call = self._worker_fn, (samples, self._batchify_fn, self._dataset)
        if self._seeds is not None:
            result = self._worker_pool.apply_async(*call, self._seeds.of(self._sent_idx))
        else:
            result = self._worker_pool.apply_async(*call)
        self._data_buffer[self._sent_idx] = result
        self._sent_idx += 1

    def __next__(self) -> Any:
        self._push_next()
        if self._rcvd_idx == self._sent_idx:
            raise StopIteration
        try:
            batch = self._data_buffer[self._rcvd_idx].get(self._timeout)
        except StopIteration as error:  # of the dataset, in a thread: it must not end the epoch
            raise RuntimeError("the dataset or batchify_fn raised StopIteration") from error
        del self._data_buffer[self._rcvd_idx]
        self._rcvd_idx += 1
        if self._worker_fn is not _worker_fn and self._dataset is None:
            batch = pickle.loads(batch)
        return _pinned(batch, self._pin_device_id) if self._pin_memory else batch

    def next(self) -> Any:
        """The next batch."""
        return self.__next__()

    def __iter__(self) -> _MultiWorkerIter:
        return self


class _Threads(ThreadPool):
    """The worker threads of a loader, which ends them."""

    def __del__(self, *_: Any) -> None:
        """ThreadPool warns if it is garbage before it is ended, and garbage has no order."""


class DataLoader:
    """Iterates over batches of a dataset.

    Samples come in order, shuffled, or in the order of `sampler`; or `batch_sampler` lists the samples of each batch.
    `batchify_fn` joins the samples of a batch. If `num_workers` is positive, that many processes (or threads, with
    `thread_pool`) load `prefetch` batches in advance (default: `2 * num_workers`), and a batch that takes longer than
    `timeout` seconds raises `multiprocessing.TimeoutError`. With `auto_reload`, the end of an epoch starts loading the
    next one. With `pin_memory` batches are on `cpu_pinned(pin_device_id)`, in the same memory: all copies to GPUs pass
    through pinned blocks.

    An error in a worker is raised where the batch would be. If a worker dies, MXNetError is raised at once; the next
    epoch starts new workers.

    Example:
        >>> dataset = mx.gluon.data.ArrayDataset(np.zeros((5, 2), "float32"), np.arange(5))
        >>> loader = mx.gluon.data.DataLoader(dataset, batch_size=2, last_batch="keep")
        >>> [(data.shape, label.asnumpy().tolist()) for data, label in loader]
        [((2, 2), [0, 1]), ((2, 2), [2, 3]), ((1, 2), [4])]
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
        self._prefetch = max(0, 2 * self._num_workers if prefetch is None else int(prefetch))
        self._batchify_fn = batchify_fn or (default_mp_batchify_fn if self._num_workers else default_batchify_fn)
        self._worker_pool = self._start_workers()
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

    def _start_workers(self) -> Any:
        """The workers of this loader; None without any."""
        if not self._num_workers:
            return None
        if self._thread_pool:
            return _Threads(self._num_workers, set_np, (is_np_shape(), is_np_array()))
        return WorkerPool(self._num_workers, (self._dataset, self._batchify_fn))

    def _prefetch_iter(self) -> Iterator[Any]:
        if self._worker_pool is None:
            return self._own_iter()
        if isinstance(self._worker_pool, WorkerPool) and not self._worker_pool.alive:
            self._worker_pool = self._start_workers()
        return _MultiWorkerIter(
            self._worker_pool,
            self._batchify_fn,
            self._batch_sampler,
            pin_memory=self._pin_memory,
            pin_device_id=self._pin_device_id,
            worker_fn=_worker_fn,
            prefetch=self._prefetch,
            dataset=self._dataset,
            data_loader=self,
            timeout=self._timeout,
        )

    def _own_iter(self) -> Iterator[Any]:
        for samples in self._batch_sampler:
            batch = self._batchify_fn([self._dataset[i] for i in samples])
            yield _pinned(batch, self._pin_device_id) if self._pin_memory else batch

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
