"""An alpha-beta model of training on many workers: how long sums of gradients take, and how much of that a step shows.

A message of n bytes takes `latency + n / rate`. The formulas are those of Thakur, Rabenseifner and Gropp, Optimization
of Collective Communication Operations in MPICH (2005). `cluster_simulation.py` checks them message by message.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log2
from typing import NamedTuple


class Link(NamedTuple):
    """`latency` in seconds, `rate` in bytes per second and direction."""

    latency: float
    rate: float


class Cluster(NamedTuple):
    """Machines of `per_machine` workers, which links `inside` connect; the machines' single links to the network are
    `network`, which has no other limit."""

    workers: int
    network: Link
    per_machine: int = 1
    inside: Link | None = None

    @property
    def machines(self) -> int:
        return self.workers // self.per_machine


class Bucket(NamedTuple):
    """Gradients that are summed at once: their bytes, and the part of the backward pass after which they are final."""

    nbytes: int
    ready: float


class Step(NamedTuple):
    """A training step: the seconds of its forward pass with the update, and of its backward pass."""

    forward: float
    backward: float
    buckets: Sequence[Bucket]


def ring(nbytes: float, workers: int, link: Link) -> float:
    """A sum in 2 (p - 1) messages of n / p bytes: the least bytes, with neighbours alone."""
    return 2 * (workers - 1) * (link.latency + nbytes / workers / link.rate)


def halving(nbytes: float, workers: int, link: Link) -> float:
    """A sum in 2 log2 p messages, of n / 2, n / 4 ... n / p bytes and back: the least bytes too. Workers beyond a power
    of two send their values to another one first, and receive the sum at last."""
    rounds = int(log2(workers))
    core = 1 << rounds
    time = 2 * rounds * link.latency + 2 * nbytes * (1 - 1 / core) / link.rate
    return time if core == workers else time + 2 * (link.latency + nbytes / link.rate)


def tree(nbytes: float, workers: int, link: Link) -> float:
    """A sum in log2 p exchanges of all bytes: the fewest messages."""
    rounds = int(log2(workers))
    extra = 0 if 1 << rounds == workers else 2
    return (rounds + extra) * (link.latency + nbytes / link.rate)


FLAT = {"ring": ring, "halving": halving, "tree": tree}


def times(nbytes: float, cluster: Cluster) -> dict[str, float]:
    """The seconds of a sum by each algorithm. Over several workers of a machine flat ones share its link, except a
    ring, which passes it once; `hierarchical` ones first add inside of the machines, in a ring."""
    p, q = cluster.workers, cluster.per_machine
    if p == 1:
        return {"none": 0.0}
    if cluster.machines == 1:
        assert cluster.inside is not None
        return {name: f(nbytes, p, cluster.inside) for name, f in FLAT.items()}
    if q == 1 or cluster.inside is None:
        return {name: f(nbytes, p, cluster.network) for name, f in FLAT.items()}
    slowest = Link(cluster.network.latency, min(cluster.network.rate, cluster.inside.rate))
    inside = ring(nbytes, q, cluster.inside)
    between = {
        f"hierarchical {name}": inside + f(nbytes, cluster.machines, cluster.network) for name, f in FLAT.items()
    }
    return {"ring": ring(nbytes, p, slowest), **between}


def best(nbytes: float, cluster: Cluster) -> tuple[float, str]:
    """The fastest algorithm and its seconds."""
    name, seconds = min(times(nbytes, cluster).items(), key=lambda item: item[1])
    return seconds, name


def step_seconds(step: Step, cluster: Cluster) -> float:
    """The seconds of a step in which sums of buckets begin as they are final, one after another."""
    end = 0.0
    for bucket in step.buckets:
        end = max(end, bucket.ready * step.backward) + best(bucket.nbytes, cluster)[0]
    return step.forward + max(step.backward, end)


def efficiency(step: Step, cluster: Cluster) -> float:
    """The part of the time of a step in which it computes: that of a worker alone by that of one of many."""
    return (step.forward + step.backward) / step_seconds(step, cluster)
