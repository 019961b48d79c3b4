"""`dist_async`: stores whose workers do not wait for each other. Each key has one worker that owns its value.

A worker sends a gradient to the key's owner, where a thread updates the value with it at once, and asks the owner for
the value. Messages of one worker arrive in their order, so a pull sees the pushes of its own worker before it.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Iterable, Iterator
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np

from ...ir.settings import settings
from ...runtime.at_exit import at_exit
from ...runtime.communicator import CommunicationError, Communicator, Mailbox
from .. import ndarray as nd
from ..base import MXNetError
from ..ndarray import NDArray
from .buckets import Key
from .distributed import DistributedKVStore
from .store import grouped

Array = np.ndarray[Any, Any]

_PUSH, _PULL, _VALUE, _END = range(4)
"""Kinds of messages. The numbers of a message are its kind and the number of its key."""
_PAUSE, _LOOK = 1e-4, 0.2
"""Seconds between looks for messages, and between looks for an error while a value is awaited."""


class AsynchronousKVStore(DistributedKVStore):
    """A store of a group of workers, whose pushes update at once. Before the first push, all workers call `init` with
    the same keys and `set_optimizer`."""

    def __init__(self, handle: str = "dist_async", communicator: Communicator | None = None) -> None:
        super().__init__(handle, communicator)
        self._owners = _Owners(self, self._workers.mailbox(), self._workers.size)
        self._numbers: dict[Key, int] = {}

    def init(self, key: Any, value: Any) -> None:
        """Set the initial values of keys to those of the worker 0."""
        super().init(key, value)
        for k, _ in grouped(key, value):
            self._numbers[k] = len(self._numbers)
            self._owners.keys.append(k)
        self._barrier()

    def set_optimizer(self, optimizer: Any) -> None:
        """Set the optimizer with which the owners of keys update their values."""
        super().set_optimizer(optimizer)
        self._barrier()

    def push(self, key: Any, value: Any, priority: int = 0) -> None:
        """Update values with the sum of each key's arrays, without waiting for other workers."""
        if self._updater is None:
            raise MXNetError(f"kvstore {self.type!r}: a push requires set_optimizer or an updater")
        for k, arrays in grouped(key, value):
            total = self._sum(k, arrays)
            if total.stype != "default":
                raise MXNetError(f"kvstore {self.type!r}: key {k!r}: only dense arrays are pushed, not {total.stype}")
            if total.shape != self._value(k).shape or total.dtype != self._value(k).dtype:
                types = (f"{v.shape} {np.dtype(v.dtype)}" for v in (self._value(k), total))
                raise MXNetError("kvstore {!r}: key {!r} has shape {}, pushed is {}".format(self.type, k, *types))
            self._owners.send(_PUSH, self._numbers[k], total.asnumpy())

    def pull(self, key: Any, out: Any = None, priority: int = 0, ignore_sparse: bool = True) -> None:
        """Copy the present values of their owners to the arrays `out`."""
        pairs = grouped(key, out)
        for k, _ in pairs:
            self._value(k)
            self._owners.send(_PULL, self._numbers[k])
        for k, _ in pairs:
            stored = self._values[k]
            values = self._owners.value(self._numbers[k]).view(np.dtype(stored.dtype)).reshape(stored.shape)
            if not self._owners.owns(self._numbers[k]):
                nd.array(values, ctx=stored.context, dtype=stored.dtype).copyto(stored)
        super().pull(key, out, priority, ignore_sparse)

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """`push`, then `pull` to `out`, or to the pushed arrays if `out` is None."""
        self.push(key, value, priority)
        self.pull(key, value if out is None else out, priority)

    def shortest(self, batches: Iterable[Any]) -> Iterator[Any]:
        """All batches."""
        yield from batches

    def expect(self, variables: Any) -> None:
        """Does nothing: pushes wait for no one."""

    def overflowed(self, here: bool) -> bool:
        """Whether it is true here: workers do not wait for each other."""
        return here

    def save_optimizer_states(self, fname: str, dump_optimizer: bool = False) -> None:
        """AssertionError: each worker has the states of the keys that it owns."""
        raise AssertionError("Cannot save states for distributed training")

    def close(self) -> None:
        """Wait until all workers have closed the store, or ended. It is not used any more."""
        self._owners.close()

    def update(self, key: Key, gradient: NDArray) -> None:
        """Update a value that this worker owns."""
        self._updater(key, gradient, self._values[key])


class _Owners:
    """The messages of a worker to the owners of keys, and a thread that serves the keys that it owns. It ends when all
    workers have ended."""

    def __init__(self, store: AsynchronousKVStore, mailbox: Mailbox, size: int) -> None:
        self.keys: list[Key] = []
        self._store, self._mailbox, self._size = weakref.ref(store), mailbox, size
        self._rank = store.rank
        self._values: dict[int, SimpleQueue[Array]] = {}
        self._error: BaseException | None = None
        self._is_open = True
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        at_exit(self.close)

    def owns(self, number: int) -> bool:
        return number % self._size == self._rank

    def send(self, kind: int, number: int, content: Array | None = None) -> None:
        """Send a message to the owner of a key."""
        self._raise()
        empty = np.empty(0, np.uint8)
        self._mailbox.send(number % self._size, (kind, number, 0, 0), empty if content is None else content)

    def value(self, number: int) -> Array:
        """The value of the next key that was asked for. CommunicationError at the deadline."""
        seconds = settings().communication_seconds
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                return self._values.setdefault(number, SimpleQueue()).get(timeout=_LOOK)
            except Empty:
                self._raise()
        owner = number % self._size
        raise CommunicationError(f"worker {self._rank}: worker {owner} did not answer for {seconds} s")

    def _raise(self) -> None:
        if self._error is not None:
            raise MXNetError(f"worker {self._rank} could not serve its values: {self._error}") from self._error

    def _serve(self) -> None:
        """Serve until all workers have ended. An error is that of this worker's next call."""
        try:
            self._serve_all()
        except Exception as error:
            self._error = self._error or error

    def _serve_all(self) -> None:
        ended = 0
        while ended < self._size:
            message = self._mailbox.receive()
            if message is None:
                time.sleep(_PAUSE)
                continue
            sender, (kind, number, *_), content = message
            if kind == _VALUE:
                self._values.setdefault(number, SimpleQueue()).put(content)
            elif kind == _END:
                ended += 1
            else:
                try:
                    self._take(sender, kind, number, content)
                except Exception as error:  # the others are served until this worker's error ends the job
                    self._error = self._error or error

    def _take(self, sender: int, kind: int, number: int, content: Array) -> None:
        store = self._store()
        if store is None:
            return
        key = self.keys[number]
        stored = store._values[key]
        if kind == _PULL:
            self._mailbox.send(sender, (_VALUE, number, 0, 0), stored.tostype("default").asnumpy())
        else:
            values = content.view(np.dtype(stored.dtype)).reshape(stored.shape)
            store.update(key, nd.array(values, ctx=stored.context, dtype=stored.dtype))

    def close(self) -> None:
        """Send no more messages, and serve the others until they do so too."""
        if not self._is_open:
            return
        self._is_open = False
        for rank in range(self._size):
            self._mailbox.send(rank, (_END, 0, 0, 0), np.empty(0, np.uint8))
        self._thread.join(settings().communication_seconds)
