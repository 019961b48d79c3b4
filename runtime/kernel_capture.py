"""Collects the kernels that programs of this process compile, for a library of them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..ir.caches import clear_caches
from ..ir.code_store import CodeStore
from .compile import storing_kernels
from .devices import HOST

if TYPE_CHECKING:
    from ..codegen.llvm.target import CpuTarget


@contextmanager
def kernels_captured(store: CodeStore, target: CpuTarget) -> Generator[None]:
    """Compile all that runs in the body for `target`, and find and store code in `store` alone. The machine must have
    the instructions of the target; its caches, threads and vectors can differ."""
    threads = HOST.threads
    HOST.use_threads(min(threads, target.threads))
    clear_caches()
    try:
        with HOST.compiling_for(target), storing_kernels(store):
            yield
    finally:
        clear_caches()
        HOST.use_threads(threads)
