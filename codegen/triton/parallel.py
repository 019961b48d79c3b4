"""Compiles the kernels of a program at the same time, in several processes."""

from __future__ import annotations

import os
from collections import deque
from dataclasses import replace
from functools import cache
from threading import Thread
from typing import TYPE_CHECKING
from weakref import finalize

from ...ir.settings import settings
from .compile import compile_kernel
from .worker import Workers

if TYPE_CHECKING:
    from .emit import TritonSource
    from .kernel_code import KernelCode
    from .target import GpuTarget

_FEW = 4  # kernels that one process compiles in less time than a worker needs to start


class Compilations:
    """Compiles the kernels of one program, also while the caller emits more. Few kernels are compiled by this process,
    unless workers wait for work.

    Threads of one program do not wait for those of another: no lock is held while workers compile. They are plain
    threads, since those of concurrent.futures take locks that a fork holds.
    """

    def __init__(self, target: GpuTarget) -> None:
        self._target, self._most = target, settings().compile_processes or len(os.sched_getaffinity(0))
        self._tasks = _Tasks(target, _workers(self._most))
        self._count = 0
        finalize(self, self._tasks.waiting.clear)  # the program is not compiled: it has a construct without a kernel

    def add(self, source: TritonSource) -> None:
        """Add a kernel; workers can begin to compile it."""
        tasks = self._tasks
        tasks.waiting.append(replace(source, grid=(), numbers=()))  # symbolic numbers belong to this process
        self._count += 1
        if self._most > 1 and (self._count >= _FEW or tasks.workers.is_warm):
            for _ in range(min(self._most - tasks.running(), len(tasks.waiting))):
                tasks.start()

    def kernels(self) -> dict[str, KernelCode]:
        """The kernels by name. Raises the errors of `compile_kernel`, and `WorkerEnded` if a compiler crashed."""
        tasks = self._tasks
        if not tasks.threads:
            return {source.name: compile_kernel(source, self._target) for source in tasks.waiting}
        tasks.work()
        tasks.join()
        if tasks.errors:
            raise tasks.errors[0]
        return tasks.kernels


class _Tasks:
    """What the threads of one program share. They end when nothing waits."""

    def __init__(self, target: GpuTarget, workers: Workers) -> None:
        self.target, self.workers = target, workers
        self.waiting: deque[TritonSource] = deque()
        self.kernels: dict[str, KernelCode] = {}
        self.errors: list[BaseException] = []
        self.threads: list[Thread] = []

    def running(self) -> int:
        return sum(thread.is_alive() for thread in self.threads)

    def start(self) -> None:
        thread = Thread(target=self.work, name="mxforge-triton")
        self.threads.append(thread)
        thread.start()

    def join(self) -> None:
        """Wait for the threads. Ctrl-C lets them finish the kernels that they compile, and is an error then."""
        for thread in self.threads:
            while thread.is_alive():
                try:
                    thread.join()
                except KeyboardInterrupt as error:
                    self._fail(error)

    def work(self) -> None:
        """Let workers compile what waits, one kernel at a time."""
        try:
            for source in iter(self._next, None):
                self.kernels[source.name] = self.workers.compile(source, self.target)
        except BaseException as error:
            self._fail(error)

    def _next(self) -> TritonSource | None:
        try:
            return self.waiting.popleft()
        except IndexError:
            return None

    def _fail(self, error: BaseException) -> None:
        self.errors.append(error)
        self.waiting.clear()


@cache
def _workers(most: int) -> Workers:
    return Workers(most)
