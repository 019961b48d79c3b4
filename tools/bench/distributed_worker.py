"""A worker of `mxforge bench --suite distributed`: measures one thing with the others, and worker 0 prints it as JSON.

allreduce                        seconds of a sum by its bytes: ours, and MPI's own in the same process
link                             seconds of a sum by its bytes
keys                             seconds of a push of 160 small arrays, and of one sum of all their elements
training NET BATCH SIZE GBITS    seconds of a training step alone, and with sums that begin in the step or in the
                                 backward pass, over a simulated link of this rate, or if it is 0 over that of MPI; a
                                 digest of the parameters of all workers
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from statistics import median
from typing import Any

import numpy as np

from ...frontend import autograd, gluon, initializer, random
from ...frontend import ndarray as nd
from ...frontend.kvstore.distributed import DistributedKVStore
from ...runtime.communicator import Communicator
from ...runtime.mpi import connect
from .slow_link import SlowLink

_BYTES = (8, 1 << 10, 1 << 14, 1 << 17, 1 << 20, 1 << 22, 100_000_000)
_KEYS, _ELEMENTS = 160, 2048
_WARM, _STEPS = 3, 7
"""Training steps before those that are measured, and their number."""


def main() -> None:
    workers = connect()
    kind, *arguments = sys.argv[1:]
    result = {"allreduce": _allreduce, "link": _link, "keys": _keys, "training": _training}[kind](workers, *arguments)
    if workers.rank == 0:
        sys.stdout.write(f"{json.dumps(result)}\n")  # at once: the launcher puts the worker's number before each part


def _allreduce(workers: Communicator) -> Any:
    from mpi4py import MPI  # pyright: ignore[reportMissingImports]

    bare = MPI.COMM_WORLD.Dup()
    results: list[dict[str, float]] = []
    for nbytes in _BYTES:
        values = np.zeros(nbytes // 4, np.float32)
        works = (
            partial(workers.all_reduce, "sum", values, overwrites=True),
            partial(bare.Allreduce, MPI.IN_PLACE, values),
        )
        ours, bares = _alternating(workers, works, max(5, min(500, 100_000_000 // max(nbytes, 1000))))
        results.append({"bytes": nbytes, "mxforge": ours, "mpi": bares})
    return results


def _link(workers: Communicator) -> Any:
    results: dict[int, float] = {}
    for nbytes in (8, 1 << 20, 1 << 22, 1 << 24):
        work = partial(workers.all_reduce, "sum", np.zeros(nbytes // 4, np.float32), overwrites=True)
        (results[nbytes],) = _alternating(workers, (work,), 50 if nbytes < 1 << 20 else 7)
    return results


def _keys(workers: Communicator) -> Any:
    store = DistributedKVStore("dist_sync", workers)
    names = list(range(_KEYS))
    arrays = [nd.ones((_ELEMENTS,)) for _ in names]
    store.init(names, arrays)
    joined = np.zeros(_KEYS * _ELEMENTS, np.float32)
    pushed, once = _alternating(
        workers,
        (
            lambda: store.pushpull(names, arrays, out=arrays),
            lambda: workers.all_reduce("sum", joined, overwrites=True),
        ),
        50,
    )
    return {"keys": _KEYS, "bytes": joined.nbytes, "pushpull": pushed, "allreduce": once}


def _alternating(workers: Communicator, works: tuple[Callable[[], Any], ...], repeats: int) -> list[float]:
    """The median seconds of each work. All workers begin it together."""
    times: list[list[float]] = [[] for _ in works]
    for number in range(repeats + 2):
        for work, own in zip(works, times, strict=True):
            workers.barrier()
            begin = time.perf_counter()
            work()
            if number >= 2:
                own.append(time.perf_counter() - begin)
    return [median(own) for own in times]


def _training(workers: Communicator, name: str, batch: str, size: str, gbits: str) -> Any:
    link = SlowLink(workers, float(gbits) * 1e9 / 8) if float(gbits) else workers
    alone, digest = _steps(workers, None, name, int(batch), int(size))
    after, same = _steps(workers, DistributedKVStore("dist_sync", link), name, int(batch), int(size), False)
    ahead, digest = _steps(workers, DistributedKVStore("dist_sync", link), name, int(batch), int(size), True)
    digests = [bytes(part).hex() for part in workers.all_gather(np.frombuffer(digest + same, np.uint8))]
    return {
        "model": name,
        "batch": int(batch),
        "gbits": float(gbits),
        "alone": alone,
        "after": after,
        "overlapped": ahead,
        "hidden": (after - ahead) / (after - alone),
        "same_bits": len(set(digests)) == 1 and digest == same,
    }


def _steps(
    workers: Communicator, store: Any, name: str, batch: int, size: int, overlaps: bool = True
) -> tuple[float, bytes]:
    """The median seconds of a training step, and a digest of the parameters after all steps."""
    random.seed(1)
    net = gluon.model_zoo.vision.get_model(name, classes=10)
    net.initialize(initializer.Xavier())
    net.hybridize()
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    generator = np.random.RandomState(workers.rank)
    x, y = nd.array(generator.rand(batch, 3, size, size)), nd.array(generator.randint(0, 10, batch))
    net(x)
    sgd = {"learning_rate": 0.01, "momentum": 0.9}
    trainer = gluon.Trainer(net.collect_params(), "sgd", sgd, kvstore=store, update_on_kvstore=False)
    times: list[float] = []
    for _ in range(_WARM + _STEPS):
        workers.barrier()
        begin = time.perf_counter()
        with autograd.record():
            loss = loss_of(net(x), y)
        loss.backward()
        trainer.step(batch * workers.size)
        nd.waitall()
        times.append(time.perf_counter() - begin)
        if store is not None:
            store._overlapped.overlaps = overlaps
    values = [p.data().asnumpy() for p in net.collect_params().values() if p.grad_req != "null"]
    return median(times[_WARM:]), sha256(b"".join(v.tobytes() for v in values)).digest()


if __name__ == "__main__":
    main()
