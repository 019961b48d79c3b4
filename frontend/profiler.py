"""Measures where time goes: a Chrome trace of every launch of a compiled program, tables of sums, and the user's own
tasks, frames, events, counters and markers.

While it runs, each launch is timed by itself, with the names of the operators that were fused into it. When it does
not run, nothing is recorded.
"""

from __future__ import annotations

import json
import os
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..ir.locks import ForkSafeLock
from ..runtime.atomic import write_atomically
from .base import MXNetError

if TYPE_CHECKING:
    from ..ir.program import Launch, Program
    from ..runtime.function import Call
    from ..runtime.tensor import Tensor

_EVENTS = 1_000_000  # events that are kept; older ones are dropped
_FLAGS = ("profile_all", "profile_symbolic", "profile_imperative", "profile_memory", "profile_api")
_DEFAULTS: dict[str, Any] = {
    **dict.fromkeys(_FLAGS, False),
    "filename": "profile.json",
    "continuous_dump": False,
    "dump_period": 1.0,
    "aggregate_stats": False,
    "profile_process": "worker",
}
_SCOPES = {"global": "g", "process": "p", "thread": "t", "task": "t", "marker": "t"}
_ORDERS: dict[str, Callable[[list[float]], float]] = {
    "total": lambda sums: sums[1],
    "avg": lambda sums: sums[1] / sums[0],
    "min": lambda sums: sums[2],
    "max": lambda sums: sums[3],
    "count": lambda sums: sums[0],
}

profiler_kvstore_handle: Any = None


class _Profiler:
    """What was recorded, and whether more is. Times are in microseconds of `time.perf_counter_ns`."""

    def __init__(self) -> None:
        self.config = dict(_DEFAULTS)
        self.running = False
        self.paused = False
        self.events: deque[dict[str, Any]] = deque(maxlen=_EVENTS)
        self.sums: dict[str, dict[str, list[float]]] = {}
        self.lock = ForkSafeLock()
        self.dumper: threading.Timer | None = None
        self.thread = threading.local()  # `number`: a number is an operand of the call that runs

    @property
    def active(self) -> bool:
        return self.running and not self.paused

    def apply(self) -> None:
        """Listen to programs, or stop listening."""
        from ..runtime import executable
        from ..runtime.modes import hooks

        kernels = self.config["profile_all"] or self.config["profile_symbolic"] or self.config["profile_imperative"]
        listens = self.active and kernels
        executable.listen(self.launched if listens else None)
        hooks.remove(self)
        if listens:
            hooks.add(self)

    def before_call(self, call: Call) -> None:
        """Note whether a Python number is among the operands, which decides the operator's name in MXNet, and what the
        call's layers are called."""
        from .ndarray.arithmetic import number_class

        self.thread.called = call.specialization
        self.thread.number = any(isinstance(operand, number_class()) for operand in call.operands)

    def after_call(self, call: Call, results: Sequence[Tensor]) -> None:
        self.thread.called, self.thread.number = None, False

    def _label(self, program: Program, launch: Launch) -> str:
        """The names of the operators in a launch, as the call's own graph has them. `x + 1` runs the program of
        `broadcast_add` on an array without axes; its name is that of MXNet's operator on numbers."""
        from .ndarray.sparse_arithmetic import OF_NUMBERS

        called = getattr(self.thread, "called", None)
        if called is not None and getattr(called.executable, "program", None) is program:
            program = program.renamed(called.name, called.layers)
        label = program.label(launch)
        names = OF_NUMBERS.get(label)
        if names is None or not getattr(self.thread, "number", False):
            return label
        right, left = names
        return right if program.inputs[1].shape == () else left

    def launched(self, program: Program, launch: Launch | None, begin: int, end: int) -> None:
        if launch is None:
            self.duration(program.name, "program", begin, end)
            return
        about = {"program": program.name, "kernel": launch.symbol, "count": launch.count}
        self.duration(self._label(program, launch), "operator", begin, end, about)

    def duration(self, name: str, category: str, begin: int, end: int, about: dict[str, Any] | None = None) -> None:
        """Record what took from `begin` to `end`, in nanoseconds."""
        self.add("X", name, category, begin, dur=(end - begin) / 1000, **({"args": about} if about else {}))
        if self.config["aggregate_stats"]:
            self._sum(category, name, (end - begin) / 1e6)

    def add(self, phase: str, name: str, category: str, at: int, **more: Any) -> None:
        own = {"ph": phase, "name": name, "cat": category, "ts": at / 1000}
        self.events.append({**own, "pid": os.getpid(), "tid": threading.get_ident(), **more})

    def _sum(self, category: str, name: str, milliseconds: float) -> None:
        with self.lock:
            sums = self.sums.setdefault(category, {}).setdefault(name, [0, 0.0, milliseconds, milliseconds])
            sums[0] += 1
            sums[1] += milliseconds
            sums[2], sums[3] = min(sums[2], milliseconds), max(sums[3], milliseconds)

    def write(self) -> None:
        """The trace as a file that chrome://tracing and Perfetto open."""
        process = {"ph": "M", "name": "process_name", "pid": os.getpid(), "args": {"name": "cpu/0"}}
        trace = {"traceEvents": [process, *self.events], "displayTimeUnit": "ms"}
        write_atomically(self.config["filename"], json.dumps(trace).encode())

    def dump_now_and_then(self) -> None:
        """While it runs, write the trace every `dump_period` seconds."""
        if self.dumper is not None:
            self.write()
        if not self.running:
            self.dumper = None
            return
        self.dumper = threading.Timer(self.config["dump_period"], self.dump_now_and_then)
        self.dumper.daemon = True
        self.dumper.start()


_profiler = _Profiler()


def _truth(name: str, value: Any) -> bool:
    text = str(value).lower()
    if text not in ("0", "1", "true", "false"):
        raise MXNetError(f"profiler.set_config: {name} is True or False, not {value!r}")
    return text in ("1", "true")


def _check_process(profile_process: str) -> None:
    if {"worker": 0, "server": 1}[profile_process]:
        raise MXNetError("profiler: there is no server to profile, which a KVStore of type dist would have")


def set_kvstore_handle(handle: Any) -> None:
    """Note the KVStore whose server is profiled; there is none."""
    global profiler_kvstore_handle  # noqa: PLW0603
    profiler_kvstore_handle = handle


def set_config(**kwargs: Any) -> None:
    """Say what is recorded, and where to.

    `filename` of the trace; `profile_all`, `profile_symbolic` or `profile_imperative` record launches of programs;
    `aggregate_stats` keeps the sums for `dumps`; `continuous_dump` writes the trace every `dump_period` seconds.
    `profile_memory` and `profile_api` record nothing. MXNetError names an argument that is unknown.
    """
    config = dict(_DEFAULTS)
    for name, value in kwargs.items():
        if name not in config:
            raise MXNetError(f"Cannot find argument {name!r}, Possible Arguments: {', '.join(config)}")
        config[name] = _truth(name, value) if isinstance(config[name], bool) else value
    _check_process(config["profile_process"])
    config["filename"], config["dump_period"] = os.fspath(config["filename"]), float(config["dump_period"])
    _profiler.config = config
    _profiler.apply()


def profiler_set_config(mode: str = "symbolic", filename: str = "profile.json") -> None:
    """As `set_config`. Deprecated."""
    _warn("profiler_set_config", "set_config")
    set_config(**{f"profile_{mode}": True, "filename": filename})


def set_state(state: str = "stop", profile_process: str = "worker") -> None:
    """Begin to record ("run") or end ("stop"). KeyError for another word."""
    running = bool({"stop": 0, "run": 1}[state])
    _check_process(profile_process)
    _profiler.running = running
    _profiler.apply()
    if _profiler.config["continuous_dump"]:
        if running and _profiler.dumper is None:
            _profiler.dump_now_and_then()
        elif not running:
            _profiler.write()


def profiler_set_state(state: str = "stop") -> None:
    """As `set_state`. Deprecated."""
    _warn("profiler_set_state", "set_state")
    set_state(state)


def pause(profile_process: str = "worker") -> None:
    """Record nothing until `resume`."""
    _check_process(profile_process)
    _profiler.paused = True
    _profiler.apply()


def resume(profile_process: str = "worker") -> None:
    """Record again after `pause`."""
    _check_process(profile_process)
    _profiler.paused = False
    _profiler.apply()


def dump(finished: bool = True, profile_process: str = "worker") -> None:
    """Write the trace to the file of `set_config`; when `finished`, a later one begins anew."""
    _check_process(profile_process)
    _profiler.write()
    if finished:
        _profiler.events.clear()


def dump_profile() -> None:
    """As `dump`. Deprecated."""
    _warn("dump_profile", "dump")
    dump(True)


def _warn(old: str, new: str) -> None:
    warnings.warn(f"profiler.{old}() is deprecated. Please use profiler.{new}() instead", stacklevel=3)


def dumps(reset: bool = False, format: str = "table", sort_by: str = "total", ascending: bool = False) -> str:
    """The sums by category and name, in milliseconds, as tables or JSON; with `reset` they begin anew.

    Sorted by 'total', 'avg', 'min', 'max' or 'count'. There are sums where `set_config(aggregate_stats=True)` was
    said. AssertionError for other words.
    """
    if format not in ("table", "json"):
        raise AssertionError(f"Invalid value provided for format: {format}. Support: 'table', 'json'")
    if sort_by not in _ORDERS:
        raise AssertionError(f"Invalid value provided for sort_by: {sort_by}. Support: {', '.join(_ORDERS)}")
    for name, value in (("ascending", ascending), ("reset", reset)):
        if value not in (False, True):
            raise AssertionError(f"Invalid value provided for {name}: {value}. Support: False, True")
    with _profiler.lock:
        key = _ORDERS[sort_by]
        ordered = {
            category: dict(sorted(sums.items(), key=lambda pair: key(pair[1]), reverse=not ascending))
            for category, sums in sorted(_profiler.sums.items())
        }
        if reset:
            _profiler.sums = {}
    return _as_json(ordered) if format == "json" else _as_table(ordered)


def _as_json(ordered: dict[str, dict[str, list[float]]]) -> str:
    def entry(sums: list[float]) -> dict[str, float]:
        count, total, least, most = sums
        return {"Count": count, "Total": total, "Min": least, "Max": most, "Avg": total / count}

    found = {category: {name: entry(s) for name, s in sums.items()} for category, sums in ordered.items()}
    return json.dumps({"Time": found, "Memory": {}, "Unit": {"Time": "ms", "Memory": "kB"}}, indent=4)


def _as_table(ordered: dict[str, dict[str, list[float]]]) -> str:
    titles = ("Total Count", "Time (ms)", "Min Time (ms)", "Max Time (ms)", "Avg Time (ms)")
    lines = ["", "Profile Statistics:", "\tNote the difference in units for different entries."]

    width = max([25, *(len(name) for sums in ordered.values() for name in sums)])

    def row(name: str, cells: list[str]) -> str:
        return f"{name:<{width}} {cells[0]:>15}" + "".join(f" {cell:>16}" for cell in cells[1:])

    for category, sums in ordered.items():
        lines += [category, "=================", row("Name", list(titles)), row("----", ["-" * len(t) for t in titles])]
        for name, (count, total, least, most) in sums.items():
            lines.append(row(name, [str(count), *(f"{x:.4f}" for x in (total, least, most, total / count))]))
        lines.append("")
    return "\n".join([*lines, ""])


# --- what users record --------------------------------------------------------------------------------------------


class _Duration:
    """Something with a beginning and an end."""

    _category: str

    def __init__(self, category: str, name: str) -> None:
        self.name, self._category = name, category
        self._begin: int | None = None

    def start(self) -> None:
        """Begin."""
        self._begin = time.perf_counter_ns()

    def stop(self) -> None:
        """End; recorded if the profiler runs. MXNetError without `start`."""
        if self._begin is None:
            raise MXNetError(f"profiler: {type(self).__name__} {self.name!r} was not started")
        if _profiler.active:
            _profiler.duration(self.name, self._category, self._begin, time.perf_counter_ns())
        self._begin = None

    def __str__(self) -> str:
        return self.name


class Domain:
    """A name for what belongs together: a category of the trace."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return self.name

    def new_task(self, name: str) -> Task:
        """A Task of this domain."""
        return Task(self, name)

    def new_frame(self, name: str) -> Frame:
        """A Frame of this domain."""
        return Frame(self, name)

    def new_counter(self, name: str, value: float | None = None) -> Counter:
        """A Counter of this domain."""
        return Counter(self, name, value)

    def new_marker(self, name: str) -> Marker:
        """A Marker of this domain."""
        return Marker(self, name)


class Task(_Duration):
    """A piece of work."""

    def __init__(self, domain: Domain, name: str) -> None:
        super().__init__(domain.name, name)


class Frame(_Duration):
    """One pass of a loop."""

    def __init__(self, domain: Domain, name: str) -> None:
        super().__init__(f"{domain.name},frame", name)


class Event(_Duration):
    """What belongs to no domain."""

    def __init__(self, name: str) -> None:
        super().__init__("event", name)


class Counter:
    """A number that changes; whole, as in MXNet."""

    def __init__(self, domain: Domain, name: str, value: float | None = None) -> None:
        self.name, self._domain = name, domain
        self._value = 0
        if value is not None:
            self.set_value(value)

    def set_value(self, value: float) -> None:
        """Give it a value; recorded if the profiler runs."""
        self._value = int(value)
        if _profiler.active:
            values = {self.name: self._value}
            _profiler.add("C", self.name, self._domain.name, time.perf_counter_ns(), args=values)

    def increment(self, delta: float = 1) -> None:
        """Add to it."""
        self.set_value(self._value + int(delta))

    def decrement(self, delta: float = 1) -> None:
        """Take from it."""
        self.set_value(self._value - int(delta))

    def __iadd__(self, delta: float) -> Counter:
        self.increment(delta)
        return self

    def __isub__(self, delta: float) -> Counter:
        self.decrement(delta)
        return self

    def __str__(self) -> str:
        return self.name


class Marker:
    """A point in time."""

    def __init__(self, domain: Domain, name: str) -> None:
        self.name, self.domain = name, domain

    def mark(self, scope: str = "process") -> None:
        """Mark now, for a 'process', a 'thread' or 'global'; recorded if the profiler runs. MXNetError for another
        word."""
        if scope not in _SCOPES:
            raise MXNetError(f"profiler: the scope of a marker is one of {', '.join(_SCOPES)}, not {scope!r}")
        if _profiler.active:
            category = f"{self.domain.name},instant_marker"
            _profiler.add("i", self.name, category, time.perf_counter_ns(), s=_SCOPES[scope])
