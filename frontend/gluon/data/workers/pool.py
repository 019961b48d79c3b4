"""The worker processes of a loader, as its own process sees them.

The pool has no threads: it sends tasks when they are added, and receives answers while a thread waits for one.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import recv_handle
from typing import Any

from .....ir.locks import ForkSafeLock
from ....base import MXNetError
from ....tracebacks import cause_of
from ....util import is_np_array, is_np_shape
from .memory import Mapping, ReceivedStorage
from .process import Answer, Failure, Message, Start, Task, serve
from .seeds import Seeds
from .tasks import pickle_task
from .transport import Packed, unpack

_MOST_UNREAD = 1 << 16  # bytes of tasks in a worker's socket: it buffers more, so sending does not wait for the worker
_OVERHEAD = 1 << 10  # of a message in a socket
_POLL_SECONDS = 1.0  # between checks that workers live whose sockets are still open in a process that they started
_EXIT_SECONDS = 0.2  # for a worker to leave its loop before it is terminated
_TERMINATION_SECONDS = 2.0  # for a worker to end before it is killed


class WorkerTraceback(Exception):
    """The traceback of an error in a worker, as text. It is the cause of the error that the loader raises."""


class Result:
    """The result of a task that `WorkerPool.apply_async` added. A task whose result is dropped is not started."""

    def __init__(self, pool: WorkerPool, number: int) -> None:
        self._pool = pool
        self._number = number
        self._answer: Callable[[], Any] | None = None

    def __del__(self) -> None:
        if getattr(self, "_answer", self) is None:  # without the attribute the constructor was interrupted
            self._pool.forget(self._number)

    def ready(self) -> bool:
        """True if `get` does not wait."""
        return self._answer is not None

    def answer(self, answer: Callable[[], Any]) -> None:
        """Set the function that returns the value or raises the error."""
        self._answer = answer

    def get(self, timeout: float | None = None) -> Any:
        """The value. Raises the task's error, multiprocessing.TimeoutError after `timeout` seconds, and MXNetError if a
        worker died."""
        if self._answer is None:
            self._pool.receive(self, timeout)
        assert self._answer is not None
        return self._answer()


class _Worker:
    """A worker: its process, its socket, the tasks that it has, and its blocks of shared memory."""

    def __init__(self, number: int, context: Any, start: Start) -> None:
        self.number = number
        self.connection, theirs = multiprocessing.Pipe()
        _open_connections.add(self.connection)
        self.process = context.Process(target=serve, args=(theirs, start), name=f"DataLoader-{number}", daemon=True)
        self.tasks: dict[int, int] = {}  # bytes by number
        self.blocks: dict[int, Mapping] = {}
        self.cancelled: list[int] = []
        self.freed: deque[int] = deque()  # finalizers append to it
        try:
            self.process.start()
        except BaseException:
            self.connection.close()
            raise
        finally:
            theirs.close()

    def has_room(self, nbytes: int) -> bool:
        """True if a task of `nbytes` can be sent without waiting for the worker."""
        return not self.tasks or sum(self.tasks.values()) + nbytes <= _MOST_UNREAD

    def cancel(self, numbers: Iterable[int]) -> None:
        """Note that the results of these tasks are unused. The next message passes that on."""
        for number in numbers:
            if self.tasks.pop(number, None) is not None:
                self.cancelled.append(number)

    def send(self, task: Task) -> None:
        """Send a task. If the worker is dead, the next `receive` reports that."""
        self.tasks[task.number] = len(task.pickled) + _OVERHEAD
        cancelled, self.cancelled = self.cancelled, []
        freed = [self.freed.popleft() for _ in range(len(self.freed))]
        with suppress(ConnectionError):
            self.connection.send(Message(task, cancelled, freed))

    def end(self, seconds: float) -> None:
        """Let the process end by itself within some seconds, or else end it."""
        self.process.join(seconds)
        if self.process.is_alive():
            self.process.terminate()
            self.process.join(_TERMINATION_SECONDS)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.process.close()

    def receive(self) -> Answer:
        """The next answer, with its blocks mapped. EOFError or ConnectionError if the worker is dead."""
        answer: Answer = self.connection.recv()
        for number, nbytes in answer.created:
            descriptor = self._descriptor()
            try:
                self.blocks[number] = Mapping(descriptor, nbytes)
            finally:
                os.close(descriptor)
        for number in answer.dropped:
            del self.blocks[number]
        self.tasks.pop(answer.number, None)
        return answer

    def _descriptor(self) -> int:
        try:
            return recv_handle(self.connection)
        except RuntimeError as error:
            reason = "this process may not open more files (ulimit -n)"
            raise MXNetError(f"cannot receive the memory of a batch from a worker: {reason}") from cause_of(error)

    def storages(self, packed: Packed) -> list[ReceivedStorage]:
        """The memory of a batch, which returns to the worker when nothing uses it any more."""
        return [ReceivedStorage(self.blocks[n], n, nbytes, self.freed) for n, nbytes in packed.blocks]

    def death(self) -> MXNetError:
        """The error for a worker that died."""
        self.process.join(_EXIT_SECONDS)
        code = self.process.exitcode
        how = f"ended with exit code {code}"
        if code is None:
            how = "closed its connection"
        elif code < 0:
            how = f"was killed by {signal.Signals(-code).name}"
            if code == -signal.SIGKILL:
                how += ", perhaps because the machine had no memory left"
        return MXNetError(f"worker {self.number} of a DataLoader (process {self.process.pid}) {how}")


class WorkerPool:
    """Processes that run tasks. `constants` are objects that they get when they start; see `pickle_task`.

    Attributes:
        alive: False after `terminate`, and after a worker died.
    """

    def __init__(self, count: int, constants: Sequence[Any]) -> None:
        self.alive = True
        self._owner = os.getpid()
        self._constants = tuple(constants)
        self._lock = ForkSafeLock()
        self._numbers = 0
        self._results: weakref.WeakValueDictionary[int, Result] = weakref.WeakValueDictionary()
        self._waiting: deque[Task] = deque()  # tasks that no worker has room for
        self._dropped: deque[int] = deque()  # tasks with unused results; finalizers append to it
        self._workers: list[_Worker] = []
        self._stop = weakref.finalize(self, _stop, self._workers, self._owner)
        start, context = Start(self._constants, is_np_shape(), is_np_array()), _process_context()
        try:
            for number in range(count):
                self._workers.append(_Worker(number, context, start))
        except BaseException:
            self.terminate()
            raise

    def terminate(self) -> None:
        """End the workers. Results that have not arrived do not arrive any more."""
        self.alive = False
        self._stop()

    def apply_async(self, function: Callable[..., Any], args: tuple[Any, ...], seeds: Seeds | None = None) -> Result:
        """Run `function(*args)` in a worker, after seeding its random generators."""
        pickled = pickle_task((function, args), self._constants)
        with self._lock:
            self._require_alive()
            number = self._numbers
            self._numbers += 1  # first: a call that is interrupted below drops its result, and with it its number
            result = self._results[number] = Result(self, number)
            self._waiting.append(Task(number, seeds, pickled))
            self._exchange(0)
        return result

    def forget(self, number: int) -> None:
        """The result of this task is unused. Finalizers call this at any point, so it only takes a note."""
        self._dropped.append(number)

    def receive(self, result: Result, timeout: float | None) -> None:
        """Wait for the answer of a task; see `Result.get`."""
        end = None if timeout is None else time.monotonic() + timeout
        with self._lock:
            while not result.ready():
                self._require_alive()
                left = _POLL_SECONDS if end is None else min(_POLL_SECONDS, end - time.monotonic())
                if left <= 0:
                    raise multiprocessing.TimeoutError(
                        f"no batch within {timeout} seconds: the dataset, its transforms or batchify_fn take longer, "
                        "or wait for something. DataLoader(timeout=...) allows more time"
                    )
                self._exchange(left)

    def _require_alive(self) -> None:
        if os.getpid() != self._owner:
            raise MXNetError("a DataLoader's workers serve the process that created it: create a DataLoader here")
        if not self.alive:
            raise MXNetError("the workers of this DataLoader have been ended")

    def _exchange(self, seconds: float) -> None:
        """Send tasks that workers have room for, wait up to `seconds` for an answer, and receive what has arrived.

        After any error the workers are ended: a message can have been sent or received in part.
        """
        with self._ended_by_errors():
            self._send_waiting()
        ready = wait([worker.connection for worker in self._workers], seconds)
        with self._ended_by_errors():
            for worker in self._workers:
                if worker.connection in ready:
                    self._receive_from(worker)
                elif not worker.process.is_alive():  # its socket can be open in a process that it started
                    raise worker.death()

    @contextmanager
    def _ended_by_errors(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.terminate()
            raise

    def _send_waiting(self) -> None:
        dropped: list[int] = []
        while self._dropped:
            dropped.append(self._dropped.popleft())
        for task in [task for task in self._waiting if task.number in dropped]:
            self._waiting.remove(task)
        for worker in self._workers:
            worker.cancel(dropped)
        while self._waiting:
            worker = min(self._workers, key=lambda worker: len(worker.tasks))
            if not worker.has_room(len(self._waiting[0].pickled)):
                return
            worker.send(self._waiting.popleft())

    def _receive_from(self, worker: _Worker) -> None:
        try:
            answer = worker.receive()
        except (EOFError, OSError):
            raise worker.death() from None
        result, content = self._results.get(answer.number), answer.result
        if isinstance(content, Packed):
            storages = worker.storages(content)
            if result is not None:
                result.answer(partial(unpack, content, storages))
        elif result is not None:
            result.answer(partial(_raise, content, worker.number))


def _raise(failure: Failure, worker: int) -> None:
    """Raise the error of a task, with the worker's traceback as its cause."""
    if failure.error is None:
        error: Exception = MXNetError(f"worker {worker} of a DataLoader raised {failure.text}")
    else:
        error = pickle.loads(failure.error)
    raise error from WorkerTraceback(f"\n\n{failure.traceback}")


def _stop(workers: list[_Worker], owner: int) -> None:
    """End the workers of a pool, which belongs to the process `owner`."""
    if os.getpid() != owner:
        return
    for worker in workers:
        worker.connection.close()
    end = time.monotonic() + _EXIT_SECONDS
    for worker in workers:
        worker.end(max(end - time.monotonic(), 0))
    workers.clear()


def _process_context() -> Any:
    """How workers start: by multiprocessing's start method if it is set, else as a fork on Linux. A fork needs no
    pickles of the dataset and of functions."""
    method = multiprocessing.get_start_method(allow_none=True)
    return multiprocessing.get_context(method or ("fork" if sys.platform == "linux" else None))


_open_connections: weakref.WeakSet[Connection] = weakref.WeakSet()


def _close_in_child() -> None:
    """Close the sockets that a forked process inherits: a worker ends when the last copy of its loader's end is
    closed."""
    for connection in tuple(_open_connections):
        connection.close()


os.register_at_fork(after_in_child=_close_in_child)
