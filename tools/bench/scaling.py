"""Predicts steps of training on many workers, from the buckets of real backward passes (`--suite scaling`)."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from ...frontend import autograd, gluon, initializer
from ...frontend import ndarray as nd
from ...frontend.kvstore.distributed import DistributedKVStore
from ...runtime.communicator import Alone, Communicator
from .cluster_model import Bucket, Cluster, Link, Step, best, efficiency, step_seconds
from .cluster_simulation import simulated_step
from .link_check import USABLE, check_links
from .training_mxnet import network

_NETWORKS = (
    ("resnet50, batch 32", "train-resnet50", (4, 3, 224, 224), 28.8e-3),
    ("BERT-base, 32 x 128 tokens", "bert", (4, 128, 768), 45e-3),
)
"""Name, network, the batch that is run here, and seconds of a step on the workers' devices."""
_FORWARD = 1 / 3
"""The part of a step before the backward pass: a backward pass computes about twice as much as a forward pass."""
_WORKERS = (8, 64, 512, 4096)
_NVLINK = Link(3e-6, 370e9)
_NETS = {
    "1 Gbit/s": Link(30e-6, USABLE * 0.125e9),
    "10 Gbit/s": Link(15e-6, USABLE * 1.25e9),
    "100 Gbit/s": Link(5e-6, USABLE * 12.5e9),
}


def clusters(workers: int) -> dict[str, Cluster]:
    """Clusters of one worker a machine for each network, and of eight that NVLink connects for the fastest."""
    single = {name: Cluster(workers, link) for name, link in _NETS.items()}
    return {**single, "100 Gbit/s, 8 by NVLink": Cluster(workers, _NETS["100 Gbit/s"], 8, _NVLINK)}


def measure_scaling(threads: int) -> int:
    """Print the tables."""
    check_links()
    for title, name, shape, seconds in _NETWORKS:
        buckets = profiled(network(gluon, name), shape)
        step = Step(_FORWARD * seconds, (1 - _FORWARD) * seconds, buckets)
        total = sum(bucket.nbytes for bucket in buckets)
        early = next(b.ready for i, b in enumerate(buckets) if sum(c.nbytes for c in buckets[: i + 1]) >= total / 2)
        print(f"{title}: {1e3 * seconds:.1f} ms a step, {total / 1e6:.1f} MB of gradients in {len(buckets)} buckets;")
        print(f"half of them are final after {100 * early:.0f} % of the backward pass\n")
        print(f"| {'network':24} | workers | step, model | simulated | 5 % jitter | efficiency | sums of 4 MiB |")
        print(f"|{'-' * 26}|--:|--:|--:|--:|--:|---|")
        for workers in _WORKERS:
            for link, cluster in clusters(workers).items():
                times = step_seconds(step, cluster), *(simulated_step(step, cluster, j) for j in (0, 0.05))
                shown = " | ".join(f"{1e3 * t:.1f} ms" for t in times)
                algorithm = best(4 << 20, cluster)[1]
                print(f"| {link:24} | {workers} | {shown} | {100 * efficiency(step, cluster):.0f} % | {algorithm} |")
        print()
    return 0


class _Twin(Alone):
    """One of two workers whose other one has the same values, all of which are zero: it exchanges nothing, and notes
    when sums begin."""

    size = 2

    def __init__(self, begun: list[tuple[int, float]]) -> None:
        self._begun = begun

    def all_reduce(self, operation: str, values: Any, *, overwrites: bool = False) -> Any:
        if operation == "sum":
            self._begun.append((values.nbytes, time.perf_counter()))
        return values

    def duplicate(self) -> Communicator:
        return self


def profiled(net: Any, shape: tuple[int, ...], steps: int = 3) -> list[Bucket]:
    """The buckets of a network's gradients, with the part of the backward pass after which each is final here.

    The first passes have none: a tape is linked when it comes again.
    """
    net.initialize(initializer.Xavier())
    net.hybridize()
    x = nd.array(np.random.default_rng(0).standard_normal(shape, np.float32))
    net(x)
    begun: list[tuple[int, float]] = []
    store = DistributedKVStore("dist_sync", _Twin(begun))
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.0}, store, update_on_kvstore=False)
    best_pass: tuple[float, list[Bucket]] = (float("inf"), [])
    for _ in range(steps + 2):
        with autograd.record():
            loss = nd.square(net(x)).mean()
        begun.clear()
        begin = time.perf_counter()
        loss.backward()
        seconds = time.perf_counter() - begin
        if begun:
            buckets = [Bucket(nbytes, min(1.0, (at - begin) / seconds)) for nbytes, at in begun]
            best_pass = min(best_pass, (seconds, buckets), key=lambda item: item[0])
        trainer.step(2)
    return best_pass[1]
