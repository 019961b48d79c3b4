"""Stores that several workers share: each worker keeps all values, and every worker makes the same updates.

MXNet's servers are not needed: a push adds the arrays of all workers, whose sums have the same bits everywhere, so the
values stay equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from hashlib import blake2b
from operator import add
from typing import Any

import numpy as np

from ...runtime.communicator import CommunicationError, Communicator
from ...runtime.mpi import connect
from .. import ndarray as nd
from ..base import MXNetError
from ..ndarray import NDArray
from .store import Key, KVStore, grouped

Array = np.ndarray[Any, Any]

_BUCKET = 4 << 20
"""Bytes of small arrays that are exchanged at once."""


class DistributedKVStore(KVStore):
    """A store of a group of workers. All workers call the same methods with the same keys in the same order; MXNetError
    on all of them names the first difference."""

    is_shared = True

    def __init__(self, handle: str = "dist_sync", communicator: Communicator | None = None) -> None:
        super().__init__(handle)
        try:
            self._workers = connect() if communicator is None else communicator
        except CommunicationError as error:
            raise MXNetError(f"kvstore {handle!r}: {error}") from error

    def init(self, key: Any, value: Any) -> None:
        """Set the initial values of keys to those of the worker 0."""
        super().init(key, value)
        if self._workers.size == 1:
            return
        values = {k: self._values[k] for k, _ in grouped(key, value)}
        self._agree("init", values)
        dense = {k: array.tostype("default") for k, array in values.items()}
        self.share({k: [array] for k, array in dense.items()})
        self._values.update((k, dense[k].tostype(array.stype)) for k, array in values.items())

    def sums(self, arrays: Sequence[NDArray]) -> list[NDArray]:
        """The sums of arrays of all workers, without a change of the store."""
        return list(self._over_workers(dict(enumerate(arrays))).values())

    def share(self, arrays: Mapping[Key, Sequence[NDArray]], root: int = 0) -> None:
        """Replace arrays by those of a worker, without a change of the store. All arrays of a name, which are on
        several devices, get the values of its first one."""
        if self._workers.size == 1 or not arrays:
            return
        firsts = {k: copies[0] for k, copies in arrays.items()}
        self._agree("initial value", firsts)
        for names in _buckets(firsts):
            own = [firsts[k] for k in names]
            for k, value in zip(names, _divided(self._workers.broadcast(_joined(own), root), own), strict=True):
                for array in arrays[k]:
                    value.copyto(array)

    def _over_workers(self, sums: dict[Key, NDArray]) -> dict[Key, NDArray]:
        if self._workers.size == 1:
            return sums
        self._agree("push", sums)
        totals: dict[Key, NDArray] = {}
        dense = {k: array for k, array in sums.items() if array.stype == "default"}
        for names in _buckets(dense):
            arrays = [dense[k] for k in names]
            joined = self._workers.all_reduce("sum", _joined(arrays), overwrites=True)
            totals.update(zip(names, _divided(joined, arrays), strict=True))
        for k, array in sums.items():
            if k not in dense:
                totals[k] = self._sum_rows(k, array)
        return {k: totals[k] for k in sums}

    def _sum_rows(self, key: Key, array: NDArray) -> NDArray:
        """The sum of the stored rows of all workers."""
        if array.stype != "row_sparse":
            raise MXNetError(f"KVStore: key {key!r}: workers exchange dense and row_sparse arrays, not {array.stype}")
        rows: Any = array
        indices = self._workers.all_gather(rows.indices.asnumpy())
        values = self._workers.all_gather(rows.data.asnumpy())
        parts = [
            nd.sparse.row_sparse_array(pair, shape=array.shape, dtype=array.dtype, ctx=array.context)
            for pair in zip(values, indices, strict=True)
        ]
        return reduce(add, parts)

    def _agree(self, what: str, arrays: Mapping[Key, NDArray]) -> None:
        """MXNetError on all workers unless all come with the same keys, shapes, dtypes and storage types."""
        lines = [f"key {k!r}: {v.stype} {v.shape} {np.dtype(v.dtype)}" for k, v in arrays.items()]
        text = "\n".join((what, *lines)).encode()
        number = int.from_bytes(blake2b(text, digest_size=7).digest())
        most = self._workers.all_reduce("max", np.array([number, -number], np.int64))
        if most[0] == -most[1]:
            return
        texts = [bytes(part).decode() for part in self._workers.all_gather(np.frombuffer(text, np.uint8))]
        other = next(rank for rank, lines in enumerate(texts) if lines != texts[0])
        mine, its = (texts[rank].split("\n") for rank in (0, other))
        pairs = ((a, b) for a, b in zip(mine, its, strict=False) if a != b)
        shorter = f"{len(mine) - 1} keys", f"{len(its) - 1} keys"
        first, second = next(pairs, shorter)
        raise MXNetError(f"KVStore: workers differ in a {mine[0]}: worker 0 has {first}, worker {other} has {second}")

    def save_optimizer_states(self, fname: str, dump_optimizer: bool = False) -> None:
        """Write the optimizer's states, which all workers have, to a file: the worker 0 does it for all."""
        if self.rank == 0:
            super().save_optimizer_states(fname, dump_optimizer)
        self._barrier()

    @property
    def rank(self) -> int:
        return self._workers.rank

    @property
    def num_workers(self) -> int:
        return self._workers.size

    def _barrier(self) -> None:
        """Return when all workers have called it."""
        self._workers.barrier()


def _buckets(arrays: Mapping[Key, NDArray]) -> Iterator[list[Key]]:
    """The keys in groups of arrays of one dtype that are exchanged at once, of at most `_BUCKET` bytes or one array."""
    for dtype in dict.fromkeys(array.dtype for array in arrays.values()):
        names: list[Key] = []
        nbytes = 0
        for k, array in arrays.items():
            if array.dtype != dtype:
                continue
            size = array.size * np.dtype(dtype).itemsize
            if names and nbytes + size > _BUCKET:
                yield names
                names, nbytes = [], 0
            names.append(k)
            nbytes += size
        if names:
            yield names


def _joined(arrays: Sequence[NDArray]) -> Array:
    """The elements of arrays one after another."""
    parts = [array.asnumpy().reshape(-1) for array in arrays]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _divided(values: Array, arrays: Sequence[NDArray]) -> list[NDArray]:
    """Joined values as arrays like those that were joined."""
    parts: list[NDArray] = []
    begin = 0
    for array in arrays:
        part = values[begin : begin + array.size].reshape(array.shape)
        own = nd.from_numpy(part) if array.context.device_type == "cpu" and part.dtype == array.dtype else None
        parts.append(nd.array(part, ctx=array.context, dtype=array.dtype) if own is None else own)
        begin += array.size
    return parts
