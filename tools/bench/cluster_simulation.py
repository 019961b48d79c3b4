"""Replays the sums of a training step's buckets message by message, to check `cluster_model.py`.

Each worker has its own clock. It sends when it has what it sends, and goes on when it has sent and received. Workers
can be slower than others by a random part in each step, which the model leaves out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .cluster_model import Cluster, Link, Step, best

Times = np.ndarray[Any, np.dtype[np.float64]]


def simulated_step(step: Step, cluster: Cluster, jitter: float = 0.0, seed: int = 0) -> float:
    """The seconds until the last worker has ended a step. `jitter` is the standard deviation of a worker's computing
    time by the time itself."""
    spread = np.random.default_rng(seed).standard_normal(cluster.workers) * jitter
    slow: Times = 1 + np.maximum(spread, -0.9)
    begin = step.forward * slow
    end = begin.copy()
    for bucket in step.buckets:
        end = simulated_sum(bucket.nbytes, cluster, np.maximum(end, begin + bucket.ready * step.backward * slow))
    return float(np.maximum(end, begin + step.backward * slow).max())


def simulated_sum(nbytes: float, cluster: Cluster, clocks: Times) -> Times:
    """The clocks of all workers after a sum by the fastest algorithm."""
    _, name = best(nbytes, cluster)
    kind = name.removeprefix("hierarchical ")
    if name == "none":
        return clocks
    link = cluster.network if cluster.machines > 1 or cluster.inside is None else cluster.inside
    if kind == name:
        if kind == "ring" and cluster.inside is not None and cluster.machines > 1:
            link = Link(link.latency, min(link.rate, cluster.inside.rate))
        return _FLAT[kind](nbytes, clocks, link)
    assert cluster.inside is not None
    q = cluster.per_machine
    machines = clocks.reshape(-1, q)
    half = np.stack([_ring_rounds(nbytes / q, own, cluster.inside, q - 1) for own in machines])
    joined = _FLAT[kind](nbytes, half.max(1), cluster.network)
    return np.stack([_ring_rounds(nbytes / q, np.full(q, c), cluster.inside, q - 1) for c in joined]).reshape(-1)


def _ring(nbytes: float, clocks: Times, link: Link) -> Times:
    return _ring_rounds(nbytes / clocks.size, clocks, link, 2 * (clocks.size - 1))


def _ring_rounds(nbytes: float, clocks: Times, link: Link, rounds: int) -> Times:
    message = link.latency + nbytes / link.rate
    for _ in range(rounds):
        clocks = np.maximum(clocks, np.roll(clocks, 1)) + message
    return clocks


def _halving(nbytes: float, clocks: Times, link: Link) -> Times:
    core = 1 << int(np.log2(clocks.size))
    inner = _folded(nbytes, clocks, link, core)
    sizes = [nbytes / 2**k for k in range(1, int(np.log2(core)) + 1)]
    distances = [core >> k for k in range(1, len(sizes) + 1)]
    for size, distance in zip(sizes + sizes[::-1], distances + distances[::-1], strict=True):
        inner = np.maximum(inner, inner[np.arange(core) ^ distance]) + link.latency + size / link.rate
    return _unfolded(nbytes, clocks, link, inner)


def _tree(nbytes: float, clocks: Times, link: Link) -> Times:
    core = 1 << int(np.log2(clocks.size))
    inner = _folded(nbytes, clocks, link, core)
    distance = 1
    while distance < core:
        inner = np.maximum(inner, inner[np.arange(core) ^ distance]) + link.latency + nbytes / link.rate
        distance *= 2
    return _unfolded(nbytes, clocks, link, inner)


def _folded(nbytes: float, clocks: Times, link: Link, core: int) -> Times:
    """Workers beyond a power of two send their values to the first ones."""
    inner, extra = clocks[:core].copy(), clocks.size - core
    if extra:
        inner[:extra] = np.maximum(inner[:extra], clocks[core:]) + link.latency + nbytes / link.rate
    return inner


def _unfolded(nbytes: float, clocks: Times, link: Link, inner: Times) -> Times:
    extra = inner[: clocks.size - inner.size] + link.latency + nbytes / link.rate
    return np.concatenate((inner, extra))


_FLAT = {"ring": _ring, "halving": _halving, "tree": _tree}
