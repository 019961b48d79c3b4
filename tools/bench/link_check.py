"""Compares the model of sums on many workers with sums between network namespaces, whose links have a known rate."""

from __future__ import annotations

import sys
from math import log2

from .cluster_model import Cluster, Link, best
from .distributed import measured_by_workers
from .linked_hosts import NoHosts, linked_hosts

USABLE = 0.94
"""The part of a link's rate that is left for the content of messages: the rest are headers."""
_CASES = ((2, 1.0), (4, 1.0), (2, 10.0))
"""Hosts, and Gbit/s of each link."""


def check_links() -> None:
    """Print measured sums beside those of the model. Its rate is that of the links; its latency is that of the smallest
    sum, which is a tree."""
    print(f"| {'workers':7} | {'link':9} | {'latency':8} | {'bytes':>8} | measured | model | algorithm |")
    print("|--:|---|--:|--:|--:|--:|---|")
    for workers, gbits in _CASES:
        try:
            with linked_hosts(workers, gbits) as hosts:
                measured = measured_by_workers(workers, 1, "link", hosts=hosts)
        except NoHosts as error:
            print(f"mxforge: the model is not compared with links: {error}", file=sys.stderr)
            return
        times = {int(nbytes): seconds for nbytes, seconds in measured.items()}
        latency = times.pop(min(times)) / log2(workers)
        cluster = Cluster(workers, Link(latency, USABLE * gbits * 1e9 / 8))
        for nbytes, seconds in times.items():
            model, algorithm = best(nbytes, cluster)
            shown = f"{1e3 * seconds:.1f} ms | {1e3 * model:.1f} ms | {algorithm}"
            print(f"| {workers:7} | {gbits:g} Gbit/s | {1e6 * latency:5.0f} us | {nbytes:8} | {shown} |")
    print()
