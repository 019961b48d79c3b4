"""Collects the kernels that programs of this process compile, for a library of them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from ..codegen.llvm.target import CpuTarget
from ..ir.caches import clear_caches
from ..ir.code_store import CodeStore
from .compile import storing_kernels
from .host.device import HOST
from .host.threads import get_pool


@contextmanager
def kernels_captured(store: CodeStore, target: CpuTarget) -> Generator[None]:
    """Compile all that runs in the body for `target`, and find and store code in `store` alone. The machine must have
    the instructions of the target; its caches, threads and vectors can differ."""
    pool = get_pool()
    threads = pool.threads
    pool.resize(min(threads, target.threads))
    clear_caches()
    try:
        with HOST.compiling_for(target), storing_kernels(store):
            yield
    finally:
        clear_caches()
        pool.resize(threads)
