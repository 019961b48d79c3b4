"""Processes that compile Triton kernels. Triton compiles one kernel at a time in a process, and holds Python's lock.

A `Worker` is a Python process that runs `serve`: it reads a pickled source and target from its standard input, and
answers with a pickled kernel or error. It is not a process of `multiprocessing`, which would run the user's script
again. It ends when its input is closed, and when it has had nothing to do for a while.
"""

from __future__ import annotations

import atexit
import os
import pickle
import select
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any, cast

from .kernel_code import KernelCode

if TYPE_CHECKING:
    from .emit import TritonSource
    from .target import GpuTarget

IDLE_SECONDS = 60
"""The time without work after which a worker ends: it holds about 150 MB."""


class WorkerEnded(RuntimeError):
    """A worker ended before it answered, for instance because the compiler crashed."""


class Worker:
    """A process that compiles kernels, one at a time."""

    def __init__(self) -> None:
        program = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import serve; serve()"
        pipes = subprocess.PIPE
        self.process = subprocess.Popen([sys.executable, "-c", program], stdin=pipes, stdout=pipes)

    def compile(self, source: TritonSource, target: GpuTarget) -> KernelCode:
        """The compiled kernel. Raises the errors of `compile_kernel`, and WorkerEnded; then the worker is unusable."""
        try:
            kernel, error = self._answer((source, target))
        except (OSError, EOFError, pickle.UnpicklingError):
            self.stop()
            status = self.process.returncode
            raise WorkerEnded(
                f"kernel {source.name}: the process that compiles it ended with status {status}"
            ) from None
        except BaseException:  # interrupted: the answer would be taken for that of the next kernel
            self.stop()
            raise
        if error is not None:
            raise error
        return cast("KernelCode", kernel)

    def _answer(self, task: object) -> Any:
        pickle.dump(task, _opened(self.process.stdin))
        _opened(self.process.stdin).flush()
        return pickle.load(_opened(self.process.stdout))

    @property
    def lives(self) -> bool:
        return self.process.poll() is None

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with suppress(OSError):  # what was written to it cannot be sent
                _opened(pipe).close()


class Workers:
    """At most `most` workers, which are started when they are needed and used by any thread."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._slots = threading.Semaphore(most)
        self._idle: list[Worker] = []
        self._abandoned: list[Worker] = []  # of the process from which this one was forked
        os.register_at_fork(after_in_child=self._forget)
        atexit.register(self.stop)

    @property
    def is_warm(self) -> bool:
        """True if a worker waits for work."""
        return any(worker.lives for worker in self._idle)

    def compile(self, source: TritonSource, target: GpuTarget) -> KernelCode:
        """Compile a kernel in a worker; waits for one if all are in use. See `Worker.compile`."""
        with self._slots:
            try:
                worker = self._idle.pop()
            except IndexError:
                return self._compile_with(Worker(), source, target)
            try:
                return self._compile_with(worker, source, target)
            except WorkerEnded:  # perhaps because it had nothing to do
                return self._compile_with(Worker(), source, target)

    def _compile_with(self, worker: Worker, source: TritonSource, target: GpuTarget) -> KernelCode:
        try:
            return worker.compile(source, target)
        finally:
            if worker.lives:
                self._idle.append(worker)

    def stop(self) -> None:
        """End the idle workers."""
        while self._idle:
            self._idle.pop().stop()

    def _forget(self) -> None:
        self._slots = threading.Semaphore(self.most)
        self._abandoned += self._idle
        self._idle.clear()


def serve() -> None:
    """Compile what the standard input asks for, until it is closed. What a compiler prints goes to the standard error,
    and Ctrl-C, which a terminal sends to all processes, is left to the process that waits for the answers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    tasks = sys.stdin.buffer
    while select.select([tasks], [], [], IDLE_SECONDS)[0]:
        try:
            source, target = pickle.load(tasks)
        except EOFError:
            return
        pickle.dump(_compiled(source, target), answers)
        answers.flush()


def _compiled(source: TritonSource, target: GpuTarget) -> tuple[KernelCode | None, Exception | None]:
    """(the kernel, None) or (None, the error)."""
    from .compile import compile_kernel

    try:
        return compile_kernel(source, target), None
    except Exception as error:
        return None, _portable(error, source.name)


def _portable(error: Exception, kernel: str) -> Exception:
    """The error, or one with its text if it cannot be sent. Errors of Triton have arguments of their own."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"kernel {kernel}: {type(error).__name__}: {error}")
    return error


def _opened(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe
