"""Compiles the kernels of a program at the same time, in several processes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from ...ir.settings import settings
from .compile import compile_kernel
from .worker import Workers

if TYPE_CHECKING:
    from .emit import TritonSource
    from .kernel_code import KernelCode
    from .target import GpuTarget

_FEW = 4  # kernels that one process compiles in less time than a worker needs to start


def compile_kernels(sources: Sequence[TritonSource], target: GpuTarget) -> list[KernelCode]:
    """The compiled kernels, in order. Raises the errors of `compile_kernel`, and `WorkerEnded` if a compiler crashed.

    Threads can call this at the same time: no lock is held while workers compile.
    """
    most = settings().compile_processes or len(os.sched_getaffinity(0))
    workers = _workers(most)
    if most == 1 or not sources or (len(sources) < _FEW and not workers.is_warm):
        return [compile_kernel(source, target) for source in sources]
    sent = [replace(source, grid=(), numbers=()) for source in sources]  # symbolic numbers belong to this process
    with ThreadPoolExecutor(min(most, len(sent))) as threads:
        return list(threads.map(workers.compile, sent, [target] * len(sent)))


@cache
def _workers(most: int) -> Workers:
    return Workers(most)
