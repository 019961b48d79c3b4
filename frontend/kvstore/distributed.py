"""Stores that several workers share: each worker keeps all values, and every worker makes the same updates.

MXNet's servers are not needed: a push adds the arrays of all workers, whose sums have the same bits everywhere, so the
values stay equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from hashlib import blake2b
from math import prod
from operator import add
from typing import Any, NoReturn

import numpy as np

from ...ir.caches import Cache
from ...runtime.communicator import CommunicationError, Communicator, DeviceCommunicator
from ...runtime.mpi import connect
from ...runtime.nccl import GpuGroups
from .. import ndarray as nd
from ..base import MXNetError
from ..ndarray import NDArray
from ..ndarray.tape import Variable, finality
from .blocks import Bucket
from .buckets import Key, buckets_of, divided, joined
from .overlapped_sums import OverlappedSums
from .repeated_call import RepeatedCall
from .store import KVStore, grouped

Array = np.ndarray[Any, Any]
BETWEEN_GPUS = ("nccl", "dist_device_sync", "dist_sync_device")
"""Kinds that sum arrays of GPUs by NCCL. The first one requires it; others sum in the host's memory without it."""
_MOST_KEPT = 1 << 30
"""Bytes for the sums of pushes of other keys than the last ones."""
_NONE = object()
"""No more batches."""


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
        self._gpus = GpuGroups(self._workers, handle == "nccl") if handle in BETWEEN_GPUS else None
        self._overlapped: OverlappedSums | None = None
        self._plans: Cache[Any, _Plan] = Cache("keys of stores", 64, lambda plan: plan.kept_bytes, _MOST_KEPT)
        self._summed: Sequence[Bucket] = ()
        self._repeated: RepeatedCall | None = None
        finality.is_wanted = finality.is_wanted or self._workers.size > 1

    def __reduce__(self) -> NoReturn:
        raise MXNetError(f"kvstore {self.type!r} connects this process with others: it cannot be pickled or copied")

    def expect(self, variables: Mapping[Key, Variable]) -> None:
        """Pushes of the gradients of all of these variables, by key, begin in the backward pass. All workers call it
        the first time."""
        if self._workers.size == 1 or self._group_of(v.array for v in variables.values()) is not None:
            return
        if self._overlapped is None:
            self._overlapped = OverlappedSums(self._workers)
        self._overlapped.expect(variables)

    def overflowed(self, here: bool) -> bool:
        """True if it is true on a worker. Then no worker updates: what it sums in this step is dropped."""
        if self._workers.size == 1:
            return here
        (anywhere,) = self._any([here])
        if anywhere and self._overlapped is not None:
            self._overlapped.drop(self._any)
        return anywhere

    def agrees(self, here: bool, what: str = "it") -> bool:
        """See `KVStore.agrees`."""
        having = [bool(part[0]) for part in self._workers.all_gather(np.array([here]))]
        if len(set(having)) == 1:
            return here
        have, lack = ([str(k) for k, has in enumerate(having) if has is wanted] for wanted in (True, False))
        names = [f"worker{'s' * (len(ranks) > 1)} {', '.join(ranks)}" for ranks in (have, lack)]
        verbs = ["have" if len(have) > 1 else "has", "do" if len(lack) > 1 else "does"]
        raise MXNetError(f"{what}: {names[0]} {verbs[0]} it, and {names[1]} {verbs[1]} not")

    def shortest(self, batches: Iterable[Any]) -> Iterator[Any]:
        """See `KVStore.shortest`."""
        remaining = iter(batches)
        while True:
            batch = next(remaining, _NONE)
            if self._any([batch is _NONE])[0]:
                return
            yield batch

    def _any(self, flags: Sequence[bool]) -> list[bool]:
        """For each flag, whether it is true on a worker."""
        return self._workers.all_reduce("max", np.array(flags, np.int64)).astype(bool).tolist()

    def init(self, key: Any, value: Any) -> None:
        """Set the initial values of keys to those of the worker 0."""
        super().init(key, value)
        if self._workers.size == 1:
            return
        values = {k: self._values[k] for k, _ in grouped(key, value)}
        self._agree(self._plan("init", values))
        dense = {k: array.tostype("default") for k, array in values.items()}
        self.share({k: [array] for k, array in dense.items()})
        self._values.update((k, dense[k].tostype(array.stype)) for k, array in values.items())

    def sums(self, arrays: Sequence[NDArray]) -> list[NDArray]:
        """The sums of arrays of all workers, without a change of the store."""
        sums = self._over_workers(dict(enumerate(arrays)))
        return [total.copy() for total in sums.values()] if self._workers.size > 1 else list(sums.values())

    def share(self, arrays: Mapping[Key, Sequence[NDArray]], root: int = 0) -> None:
        """Replace arrays by those of a worker, without a change of the store. All arrays of a name, which are on
        several devices, get the values of its first one."""
        if self._workers.size == 1 or not arrays:
            return
        firsts = {k: copies[0] for k, copies in arrays.items()}
        self._agree(self._plan("initial value", firsts))
        for names in buckets_of(firsts):
            own = [firsts[k] for k in names]
            for k, value in zip(names, divided(self._workers.broadcast(joined(own), root), own), strict=True):
                for array in arrays[k]:
                    value.copyto(array)

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """`push`, then `pull` to `out`, or to the pushed arrays if `out` is None. A call with the keys and arrays of
        the last one takes little more time than the sums."""
        if self._workers.size == 1 or self._compression is not None:
            super().pushpull(key, value, out, priority)
            return
        call = self._repeated
        if call is None or not call.is_made_by(key, value, out):
            super().pushpull(key, value, out, priority)
            self._repeated = RepeatedCall.of(key, value, out)
            return
        plan = call.plan = call.plan or self._plan("push", call.pushed)
        self._apply(self._sums(call.pushed, plan, call.pushed_of))
        call.pull(self._values)

    def _over_workers(self, sums: dict[Key, NDArray]) -> dict[Key, NDArray]:
        return sums if self._workers.size == 1 else self._sums(sums, self._plan("push", sums))

    def _sums(
        self,
        arrays: dict[Key, NDArray],
        plan: _Plan,
        of_keys: Callable[[tuple[Key, ...]], list[NDArray]] | None = None,
    ) -> dict[Key, NDArray]:
        """The sums of arrays over all workers, in memory that the next sums overwrite unless it is given away.
        `of_keys` returns the arrays of some keys, each time the same list."""
        if self._overlapped is None:
            self._agree(plan)
        else:
            gradients = self._overlapped.sums(arrays, lambda flags: self._agree(plan, flags))
            if gradients is not None:
                self._summed = self._overlapped.summed
                return gradients
        totals: dict[Key, NDArray] = {}
        sparse = plan.sparse_keys
        dense = {k: array for k, array in arrays.items() if k not in sparse} if sparse else arrays
        self._summed = plan.buckets(dense)
        gpus = self._group_of(dense.values())
        for bucket in self._summed:
            if of_keys is None:
                bucket.fill([dense[k] for k in bucket.keys])
            else:
                bucket.fill(of_keys(bucket.keys), again=True)
            if gpus is None:
                bucket.replace(self._workers.all_reduce("sum", bucket.values(), overwrites=True))
            else:
                bucket.sum_over(gpus)
            totals.update(bucket.parts)
        if gpus is not None:
            gpus.wait()
        for k in sparse:
            totals[k] = self._sum_rows(k, arrays[k])
        return totals if len(self._summed) == 1 and not sparse else {k: totals[k] for k in arrays}

    def _group_of(self, arrays: Iterable[NDArray]) -> DeviceCommunicator | None:
        """What sums arrays without the host: None unless all are on one GPU, and this store sums between GPUs."""
        devices = set() if self._gpus is None else {array._storage.device for array in arrays}
        if self._gpus is None or len(devices) != 1:
            return None
        (device,) = devices
        try:
            return None if device.stream is None else self._gpus.of(device)
        except CommunicationError as error:
            raise MXNetError(f"kvstore {self.type!r}: {error}") from error

    def _replace_each(self, sums: dict[Key, NDArray]) -> None:
        """Store sums, of which those in buckets are not copied."""
        count = 0
        for bucket in self._summed:
            self._values.update(bucket.give())
            count += len(bucket.keys)
        if count < len(sums):
            kept = {k for bucket in self._summed for k in bucket.keys}
            super()._replace_each({k: total for k, total in sums.items() if k not in kept})

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

    def _plan(self, what: str, arrays: Mapping[Key, NDArray]) -> _Plan:
        """How arrays like these are exchanged."""
        if self._gpus is not None:
            what += " of arrays on " + " and ".join(sorted({v.context.device_type for v in arrays.values()}))
        signature = (what, *[(k, v.stype, v.shape, v.dtype) for k, v in arrays.items()])
        return self._plans.get(signature, lambda: _Plan(*signature))

    def _agree(self, plan: _Plan, flags: Sequence[bool] = ()) -> list[bool]:
        """For each flag, whether it is true on a worker. MXNetError on all workers unless all come with the same keys,
        shapes, dtypes and storage types."""
        most = self._workers.all_reduce("max", np.array([plan.number, -plan.number, *flags], np.int64))
        if most[0] == -most[1]:
            return most[2:].astype(bool).tolist()
        texts = [bytes(part).decode() for part in self._workers.all_gather(np.frombuffer(plan.text, np.uint8))]
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


class _Plan:
    """What workers do with arrays by key: its description, a number for it, and the memory for sums."""

    def __init__(self, what: str, *arrays: tuple[Key, str, tuple[int, ...], Any]) -> None:
        lines = [f"key {k!r}: {stype} {shape} {np.dtype(dtype)}" for k, stype, shape, dtype in arrays]
        self.text = "\n".join((what, *lines)).encode()
        self.number = int.from_bytes(blake2b(self.text, digest_size=7).digest())
        self.sparse_keys = [k for k, stype, _, _ in arrays if stype != "default"]
        self._buckets: list[Bucket] = []
        sizes = [prod(shape) * np.dtype(dtype).itemsize for _, stype, shape, dtype in arrays if stype == "default"]
        self.kept_bytes = 2 * sum(sizes) if len(sizes) > 1 else 0
        """Bytes of the memory that is kept for sums, at most."""

    def buckets(self, arrays: Mapping[Key, NDArray]) -> list[Bucket]:
        """The buckets of dense arrays. Those of several keys keep their memory for the next time."""
        if self._buckets:
            return self._buckets
        buckets = [Bucket({k: arrays[k] for k in names}) for names in buckets_of(arrays)]
        if len(arrays) > 1:
            self._buckets = buckets
        return buckets
