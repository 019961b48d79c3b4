"""MXDataIter, the iterator over files, and the streams of batches that it reads: they start batches ahead of the user.

BatchStream     starts batches in order, ahead of the user, and rewinds
Rounds          divides the examples of a source into batches; fills the last one from the start of the data
MXDataIter      a stream as MXNet's iterator
"""

from __future__ import annotations

import logging
import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, NamedTuple, NoReturn, Protocol, TypeVar

import numpy as np

from ..base import MXNetError
from ..ndarray import NDArray
from .io import DataBatch, DataDesc, DataIter

_LOGGER = logging.getLogger(__name__)

T = TypeVar("T")


class Batch(NamedTuple):
    """One batch: `numbers` are those of its examples, the last `pad` of which are padding."""

    data: NDArray
    label: NDArray
    pad: int
    numbers: np.ndarray


Started = Callable[[], Batch | None]
"""Waits for a batch that was started. None: the epoch has no more."""


class BatchStream(ABC):
    """The batches of an epoch, in order. Up to `ahead` batches are started before they are requested, on `threads`
    threads.

    An error of a batch is raised when that batch is requested, and again until `reset`.
    """

    def __init__(self, name: str, ahead: int, threads: int = 1) -> None:
        self.name = name
        self._ahead = max(ahead, 1)
        self._threads = ThreadPoolExecutor(threads, name)
        self._pending: deque[Started] = deque()
        self._ended = False
        self._error: Exception | None = None
        self._process = os.getpid()

    @abstractmethod
    def start(self) -> Started | None:
        """Start the next batch. None at the end of the epoch."""

    @abstractmethod
    def rewind(self, complete: bool) -> None:
        """Begin another epoch. `complete` is True if all batches of this epoch were taken."""

    def close(self) -> None:
        """Stop the work on batches that were started. Its threads end when they have finished their batches."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def next(self) -> Batch | None:
        """The next batch, or None at the end of the epoch."""
        self._check_process()
        if self._error is not None:
            raise self._error
        try:
            self._start_ahead()
            if not self._pending:
                return None
            batch = self._pending.popleft()()
        except Exception as error:
            self._error = error
            raise
        if batch is None:
            self._ended = True
        self._start_ahead()
        return batch

    def reset(self) -> None:
        """Begin another epoch."""
        self._check_process()
        left = [_result(pending) for pending in self._pending]
        complete = self._ended and self._error is None and not any(left)
        self._pending.clear()
        self._ended, self._error = False, None
        self.rewind(complete)

    def _start_ahead(self) -> None:
        while not self._ended and len(self._pending) < self._ahead:
            try:
                pending = self.start()
            except Exception as error:
                self._pending.append(_raising(error))
                self._ended = True
                return
            if pending is None:
                self._ended = True
            else:
                self._pending.append(pending)

    def _check_process(self) -> None:
        if self._process != os.getpid():
            raise MXNetError(f"{self.name} cannot be used in a forked process: create it there")


def _raising(error: Exception) -> Started:
    def wait() -> NoReturn:
        raise error

    return wait


def _result(pending: Started) -> Batch | Exception | None:
    try:
        return pending()
    except Exception as error:
        return error


class Source(Protocol[T]):
    """Examples in the order of an epoch."""

    def take(self, count: int) -> list[T]:
        """The next examples, fewer than `count` at the end."""
        ...

    def rewind(self) -> None:
        """Go to the first example of the next epoch."""
        ...


class Rounds(Generic[T]):
    """Divides examples into batches. With `round_batch`, the last batch of an epoch is filled with the first examples
    of the next epoch, which then begins after them; otherwise it is shorter.
    """

    def __init__(self, name: str, source: Source[T], batch_size: int, round_batch: bool) -> None:
        if batch_size < 1:
            raise MXNetError(f"{name}: batch_size must be positive, not {batch_size}")
        self._name, self._source, self.size, self._round = name, source, batch_size, round_batch
        self._wrapped = False

    def take(self) -> tuple[list[T], int] | None:
        """The examples of the next batch, and how many are missing or are of the next epoch."""
        if self._wrapped:
            return None
        examples = self._source.take(self.size)
        missing = self.size - len(examples)
        if not examples or not missing or not self._round:
            return (examples, missing) if examples else None
        self._source.rewind()
        self._wrapped = True
        examples += self._source.take(missing)
        if len(examples) < self.size:
            raise MXNetError(
                f"{self._name}: batch_size={self.size} is more than twice the number of examples, which is "
                f"{self.size - missing}; pass round_batch=False"
            )
        return examples, missing

    def rewind(self, complete: bool) -> None:
        """Begin another epoch: after the examples that filled the last batch, if that batch was taken."""
        if not (self._wrapped and complete):
            self._source.rewind()
        self._wrapped = False


class RowStream(BatchStream, Generic[T]):
    """Batches of examples that one thread reads and assembles."""

    def __init__(self, name: str, ahead: int, rounds: Rounds[T]) -> None:
        super().__init__(name, ahead)
        self._rounds = rounds

    @abstractmethod
    def assemble(self, examples: list[T], missing: int) -> Batch:
        """A batch of examples, of which `missing` are not of this epoch, or not there."""

    def start(self) -> Started:
        return self._threads.submit(self._make).result

    def rewind(self, complete: bool) -> None:
        self._rounds.rewind(complete)

    def _make(self) -> Batch | None:
        taken = self._rounds.take()
        return None if taken is None else self.assemble(*taken)


class MXDataIter(DataIter):
    """The iterators over files, such as CSVIter and ImageRecordIter, are of this class. `handle` is a `BatchStream`."""

    def __init__(
        self, handle: BatchStream, data_name: str = "data", label_name: str = "softmax_label", **_: Any
    ) -> None:
        super().__init__()
        self.handle = handle
        self._debug_skip_load = False
        self._debug_at_begin = True
        self._current: Batch | None = None
        self.first_batch: DataBatch | None = None
        self.first_batch = self.next()  # its shapes are those of all batches
        data, label = self.first_batch.data[0], self.first_batch.label[0]  # type: ignore[index]
        self.provide_data = [DataDesc(data_name, data.shape, data.dtype)]
        self.provide_label = [DataDesc(label_name, label.shape, label.dtype)]
        self.batch_size = data.shape[0]

    def __del__(self) -> None:
        handle = self.__dict__.get("handle")
        if handle is not None:
            handle.close()

    def debug_skip_load(self) -> None:
        """Return the first batch again and again, to measure a program without the time of loading."""
        self._debug_skip_load = True
        _LOGGER.info("Set debug_skip_load to be true, will simply return first batch")

    def reset(self) -> None:
        self._debug_at_begin = True
        self.first_batch = None
        self.handle.reset()

    def next(self) -> DataBatch:
        if self._debug_skip_load and not self._debug_at_begin:
            return self._batch()
        if not self.iter_next():
            raise StopIteration
        self._debug_at_begin = False
        return self._batch()

    def iter_next(self) -> bool:
        if self.first_batch is not None:
            self.first_batch = None
            return True
        self._current = self.handle.next()
        return self._current is not None

    def _batch(self) -> DataBatch:
        return DataBatch([self.getdata()], [self.getlabel()], self.getpad(), self.getindex())

    def _taken(self) -> Batch:
        if self._current is None:
            raise MXNetError("there is no current batch: call next first")
        return self._current

    def getdata(self) -> NDArray:
        return self._taken().data

    def getlabel(self) -> NDArray:
        return self._taken().label

    def getindex(self) -> np.ndarray:
        return self._taken().numbers

    def getpad(self) -> int:
        return self._taken().pad
