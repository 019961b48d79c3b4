"""Monitor: statistics of the arrays of executors, collected every few batches."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from math import sqrt
from typing import TYPE_CHECKING, Any

from . import ndarray
from .base import py_str
from .ndarray import NDArray

if TYPE_CHECKING:
    from .executor import Executor

__all__ = ["Monitor", "NDArray", "ndarray", "py_str"]

Statistic = Callable[[NDArray], Any]


class Monitor:
    """Statistics of the arrays whose names match `pattern`, in every `interval`-th batch.

    `stat_func` takes an array and returns an array or a list of arrays; by default it is norm / sqrt(size).
    `monitor_all` includes the operands of operators, not only their results; `sort` orders by name.
    """

    def __init__(
        self,
        interval: int,
        stat_func: Statistic | None = None,
        pattern: str = ".*",
        sort: bool = False,
        monitor_all: bool = False,
    ) -> None:
        self.stat_func = _root_mean_square if stat_func is None else stat_func
        self.interval = interval
        self.activated = False
        self.queue: list[tuple[int, str, Any]] = []
        self.step = 0
        self.exes: list[Executor] = []
        self.re_prog = re.compile(pattern)
        self.sort = sort
        self.monitor_all = monitor_all

    def stat_helper(self, name: bytes, array: NDArray) -> None:
        """The callback of executors: records a statistic if the batch is monitored and the name matches."""
        if self.activated:
            self._take(py_str(name), array)

    def _take(self, name: str, array: NDArray) -> None:
        if self.re_prog.match(name):
            self.queue.append((self.step, name, self.stat_func(array)))

    def install(self, exe: Executor) -> None:
        """Monitor an executor. Several executors can be installed."""
        exe.set_monitor_callback(self.stat_helper, self.monitor_all)
        self.exes.append(exe)

    def tic(self) -> None:
        """Start a batch: call it before `forward`."""
        if self.step % self.interval == 0:
            self.queue = []
            self.activated = True
        self.step += 1

    def toc(self) -> list[tuple[int, str, str]]:
        """Finish a batch; returns (batch number, name, statistic as text) for each array that matched."""
        if not self.activated:
            return []
        for exe in self.exes:
            for name, array in (*exe.arg_dict.items(), *exe.aux_dict.items()):
                self._take(name, array)
        self.activated = False
        if self.sort:
            self.queue.sort(key=lambda entries: entries[1])
        entries = [(step, name, _text(values)) for step, name, values in self.queue]
        self.queue = []
        return entries

    def toc_print(self) -> None:
        """Finish a batch and log its statistics."""
        for step, name, text in self.toc():
            logging.info("Batch: %7d %30s %s", step, name, text)


def _root_mean_square(x: NDArray) -> NDArray:
    return ndarray.norm(x) / sqrt(x.size)


def _text(values: Any) -> str:
    listed = [values] if isinstance(values, NDArray) else values
    if not isinstance(listed, list) or not all(isinstance(v, NDArray) for v in listed):
        raise AssertionError(f"a statistic must be an NDArray or a list of them, not {type(values).__name__}")
    return "".join(str(v.asscalar() if v.shape == (1,) else v.asnumpy()) + "\t" for v in listed)
