"""The loop of a worker process: takes tasks from its socket, and answers each with a batch or an error."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import traceback
from collections import deque
from dataclasses import field
from multiprocessing.connection import Connection
from multiprocessing.reduction import send_handle
from typing import Any

from .....ir.lazy_dataclass import dataclass
from .....runtime.devices import HOST
from .... import autograd
from ....tracebacks import shorten
from ....util import set_np
from .memory import Arena
from .seeds import Seeds, plant
from .tasks import unpickle_task
from .transport import Packed, pack, use_arena


@dataclass(frozen=True, slots=True)
class Start:
    """What a worker gets when it starts. The pickles of tasks refer to the `constants`."""

    constants: tuple[Any, ...]
    np_shape: bool
    np_array: bool


@dataclass(frozen=True, slots=True)
class Task:
    """A function and its arguments, pickled by `pickle_task`, and the seeds of the random generators."""

    number: int
    seeds: Seeds | None
    pickled: bytes


@dataclass(frozen=True, slots=True)
class Message:
    """What a worker receives: a task, the numbers of tasks that it need not start any more, and the numbers of blocks
    that the loader's process does not need any more."""

    task: Task
    cancelled: list[int]
    freed: list[int]


@dataclass(frozen=True, slots=True)
class Failure:
    """An error of a task: the pickled exception (None if it cannot be pickled), its description and its traceback."""

    error: bytes | None
    text: str
    traceback: str


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a task. The descriptors of the `created` blocks (number, bytes) follow; `dropped` blocks no longer
    exist."""

    number: int
    result: Packed | Failure
    created: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    dropped: list[int] = field(default_factory=list[int])


def serve(connection: Connection, start: Start) -> None:
    """Answer the tasks until the socket is closed."""
    _prepare(start)
    arena, tasks = Arena(), deque[Task]()
    use_arena(arena)
    try:
        while True:
            while not tasks or connection.poll():
                _take(connection.recv(), tasks, arena)
            task = tasks.popleft()
            _send(connection, task.number, _result(task, start, arena), arena)
    except (EOFError, ConnectionError):  # the loader is gone
        return


def _prepare(start: Start) -> None:
    """Leave Ctrl-C to the loader's process, and compute with one thread: the workers share the machine's cores."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    HOST.use_threads(1)
    os.environ["OPENCV_FOR_THREADS_NUM"] = "0"  # for an OpenCV that is imported later
    if "cv2" in sys.modules:
        sys.modules["cv2"].setNumThreads(0)  # 0 leaves the threads alone that a forked process does not have
    autograd.set_recording(False)
    set_np(shape=start.np_shape, array=start.np_array)


def _take(message: Message, tasks: deque[Task], arena: Arena) -> None:
    for number in message.freed:
        arena.take_back(number)
    for task in [task for task in tasks if task.number in message.cancelled]:
        tasks.remove(task)
    tasks.append(message.task)


def _result(task: Task, start: Start, arena: Arena) -> Packed | Failure:
    try:
        function, args = unpickle_task(task.pickled, start.constants)
        if task.seeds is not None:
            plant(task.seeds)
        return pack(function(*args), arena)
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        return _failure(error)


def _failure(error: BaseException) -> Failure:
    if isinstance(error, Exception):
        shorten(error)
    lines = traceback.format_exception(error)
    text = traceback.format_exception_only(error)[-1].strip()
    pickled = None
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        try:
            pickled = pickle.dumps(error)
            pickle.loads(pickled)  # the constructor of an exception can refuse its own arguments
        except Exception:
            pickled = None
    return Failure(pickled, text, "".join(lines))


def _send(connection: Connection, number: int, result: Packed | Failure, arena: Arena) -> None:
    created, arena.created = arena.created, []
    dropped, arena.dropped = arena.dropped, []
    connection.send(Answer(number, result, [(block, nbytes) for block, nbytes, _ in created], dropped))
    for _, _, descriptor in created:
        send_handle(connection, descriptor, os.getppid())
        os.close(descriptor)
