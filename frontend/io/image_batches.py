"""Batches of images: records are decoded, changed and normalized on several threads, ahead of the user."""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random
from typing import Protocol

import numpy as np

from ...ir.types import DType
from ..context import cpu
from ..ndarray.ndarray import empty_array
from .records import Record
from .streams import Batch, BatchStream, Rounds, Started

_PIECES_A_THREAD = 4


class Loader(Protocol):
    """Decodes a record, writes its image and labels into their places in a batch, and returns its number."""

    def __call__(self, record: Record, random: Random, data: np.ndarray, label: np.ndarray) -> int: ...


class ImageStream(BatchStream):
    """Batches of images of a shape and dtype, with labels of a shape.

    The random numbers of an image depend on the seed, the epoch and its position in the epoch, and not on the number of
    threads. Records are read by the thread that requests batches.
    """

    def __init__(
        self,
        name: str,
        ahead: int,
        threads: int,
        rounds: Rounds[Record],
        load: Loader,
        shape: tuple[int, ...],
        dtype: DType,
        label_shape: tuple[int, ...],
        seed: int,
        close: Callable[[], None],
    ) -> None:
        super().__init__(name, ahead, min(threads, len(os.sched_getaffinity(0))))
        self._rounds, self._load = rounds, load
        self._shape, self._dtype, self._label_shape = shape, dtype, label_shape
        self._pieces = _PIECES_A_THREAD * min(threads, len(os.sched_getaffinity(0)))
        self._seed = (seed & 0xFFFFFFFFFFFFFFFF) << 128
        self._epoch = self._started = 0
        self._close = close

    def start(self) -> Started | None:
        taken = self._rounds.take()
        if taken is None:
            return None
        records, missing = taken
        size = self._rounds.size
        data = empty_array((size, *self._shape), self._dtype, cpu())
        label = empty_array((size, *self._label_shape), DType.F32, cpu())
        work = _Work(
            self._load, records, data._memory(), label._memory().reshape(size, -1), self._next_seed(len(records))
        )
        work.clear(len(records))
        step = max(-(-len(records) // self._pieces), 1)
        futures = [self._threads.submit(work.run, i, i + step) for i in range(0, len(records), step)]

        def wait() -> Batch:
            for future in futures:
                future.result()
            return Batch(data, label, missing, work.numbers)

        return wait

    def _next_seed(self, count: int) -> int:
        seed = self._seed | self._epoch << 64 | self._started
        self._started += count
        return seed

    def rewind(self, complete: bool) -> None:
        self._epoch += 1
        self._started = 0
        self._rounds.rewind(complete)

    def close(self) -> None:
        super().close()
        self._close()


class _Work:
    """The images of a batch, and the memory for them."""

    def __init__(self, load: Loader, records: list[Record], data: np.ndarray, label: np.ndarray, seed: int) -> None:
        self._load, self._records, self._data, self._label, self._seed = load, records, data, label, seed
        self.numbers = np.zeros(len(data), np.uint64)

    def clear(self, begin: int) -> None:
        """Fill the images from `begin` on with zeros."""
        self._data[begin:] = 0
        self._label[begin:] = 0

    def run(self, begin: int, end: int) -> None:
        for i, record in enumerate(self._records[begin:end], start=begin):
            self.numbers[i] = self._load(record, Random(self._seed + i), self._data[i], self._label[i])
