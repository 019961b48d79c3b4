"""Profiler: a Chrome trace of every launch of a compiled program, tables of total times, and the user's tasks, frames,
events, counters and markers.

While the profiler runs, each launch is timed separately, under the names of the operators that are fused into it.
Nothing is recorded while it does not run.
"""

from __future__ import annotations

import json
import os
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from ..ir.lazy_dataclass import dataclass
from ..ir.locks import ForkSafeLock
from ..runtime.atomic import write_atomically
from .base import MXNetError

if TYPE_CHECKING:
    from ..ir.program import Computation, Program
    from ..runtime.function import Call
    from ..runtime.tensor import Tensor

_EVENTS = 1_000_000  # the number of events that are kept; older events are dropped
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

_PYTHON = "Custom Operator"
"""The category of users' operators in Python."""

profiler_kvstore_handle: Any = None


@dataclass
class _Python:
    """A method of a user's operator that runs, and the nanoseconds of what it called."""

    name: str
    inside: int = 0


class _Profiler:
    """The recorded events and sums, and whether recording is active. Times of events are microseconds of
    `time.perf_counter_ns`."""

    def __init__(self) -> None:
        self.config = dict(_DEFAULTS)
        self.running = False
        self.paused = False
        self.events: deque[dict[str, Any]] = deque(maxlen=_EVENTS)
        self.sums: dict[str, dict[str, list[float]]] = {}
        self.lock = ForkSafeLock()
        self.dumper: threading.Timer | None = None
        self.thread = threading.local()
        """`called`: the specialization of the running call. `number`: an operand is a number. `python`: the name of the
        user's operator that runs, and the nanoseconds of what it called."""

    @property
    def active(self) -> bool:
        return self.running and not self.paused

    def apply(self) -> None:
        """Register or remove the callbacks that time launches."""
        from ..runtime.devices import HOST
        from ..runtime.modes import hooks

        kernels = self.config["profile_all"] or self.config["profile_symbolic"] or self.config["profile_imperative"]
        listens = bool(self.active and kernels)
        HOST.listen(self.launched if listens else None)
        hooks.remove(self)
        hooks.in_python = self.in_python if listens else nullcontext
        if listens:
            hooks.add(self)

    def before_call(self, call: Call) -> None:
        """Store the call's specialization, which names its layers, and whether an operand is a Python number, on which
        the operator's name in MXNet depends."""
        from .ndarray.arithmetic import number_class

        self.thread.called = call.specialization
        self.thread.number = any(isinstance(operand, number_class()) for operand in call.operands)

    def after_call(self, call: Call, results: Sequence[Tensor]) -> None:
        self.thread.called, self.thread.number = None, False

    @contextmanager
    def in_python(self, name: str) -> Generator[None]:
        """Record the time of a method of a user's operator: `NAME::pure_python`, as in MXNet. What it calls is recorded
        as `NAME::OPERATOR`; the sums of `dumps` have the time without it."""
        called, outer = getattr(self.thread, "called", None), getattr(self.thread, "python", None)
        own = self.thread.python = _Python(name)
        begin = time.perf_counter_ns()
        try:
            yield
        finally:
            end = time.perf_counter_ns()
            self.thread.called, self.thread.python = called, outer
            if outer is not None:
                outer.inside += end - begin
            self.add("X", f"{name}::pure_python", _PYTHON, begin, dur=(end - begin) / 1000)
            if self.config["aggregate_stats"]:
                self._sum(_PYTHON, f"{name}::pure_python", (end - begin - own.inside) / 1e6)

    def _label(self, program: Program, launch: Computation) -> str:
        """The names of the operators in a launch, from the graph of the call. `x + 1` runs the program of
        `broadcast_add` with an array of shape (), but has the name of MXNet's operator on numbers."""
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

    def launched(self, program: Program, launch: Computation | None, begin: int, end: int) -> None:
        if launch is None:
            self.duration(program.name, "program", begin, end)
            return
        about = {"program": program.name, "kernel": launch.symbol, "count": launch.count}
        label, python = self._label(program, launch), getattr(self.thread, "python", None)
        if python is None:
            self.duration(label, "operator", begin, end, about)
        else:
            python.inside += end - begin
            self.duration(f"{python.name}::{label}", _PYTHON, begin, end, about)

    def duration(self, name: str, category: str, begin: int, end: int, about: dict[str, Any] | None = None) -> None:
        """Record an event from `begin` to `end`, in nanoseconds."""
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
        """Write the trace as a file that chrome://tracing and Perfetto can open."""
        process = {"ph": "M", "name": "process_name", "pid": os.getpid(), "args": {"name": "cpu/0"}}
        trace = {"traceEvents": [process, *self.events], "displayTimeUnit": "ms"}
        write_atomically(self.config["filename"], json.dumps(trace).encode())

    def dump_periodically(self) -> None:
        """Write the trace every `dump_period` seconds while the profiler runs."""
        if self.dumper is not None:
            self.write()
        if not self.running:
            self.dumper = None
            return
        self.dumper = threading.Timer(self.config["dump_period"], self.dump_periodically)
        self.dumper.daemon = True
        self.dumper.start()


_profiler = _Profiler()


def _truth(name: str, value: Any) -> bool:
    text = str(value).lower()
    if text not in ("0", "1", "true", "false"):
        raise MXNetError(f"profiler.set_config: {name} must be True or False, not {value!r}")
    return text in ("1", "true")


def _check_process(profile_process: str) -> None:
    if {"worker": 0, "server": 1}[profile_process]:
        raise MXNetError("profiler: there is no server to profile; only a KVStore of type dist has one")


def set_kvstore_handle(handle: Any) -> None:
    """Store the KVStore whose server is profiled. It has no effect: there are no servers."""
    global profiler_kvstore_handle  # noqa: PLW0603
    profiler_kvstore_handle = handle


def set_config(**kwargs: Any) -> None:
    """Configure what is recorded and where it is written. Arguments that are not passed get their defaults.

    Args:
        filename: The file of the trace, by default "profile.json".
        profile_all, profile_symbolic, profile_imperative: Each of them records the launches of programs.
        profile_memory, profile_api: Accepted; they record nothing.
        aggregate_stats: Collect the sums for `dumps`.
        continuous_dump: Write the trace every `dump_period` seconds (default 1).
        profile_process: "worker"; MXNetError for "server".

    MXNetError for an unknown argument.
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
    """Deprecated: use `set_config`."""
    _warn("profiler_set_config", "set_config")
    set_config(**{f"profile_{mode}": True, "filename": filename})


def set_state(state: str = "stop", profile_process: str = "worker") -> None:
    """Start ("run") or stop ("stop") recording. KeyError for another state."""
    running = bool({"stop": 0, "run": 1}[state])
    _check_process(profile_process)
    _profiler.running = running
    _profiler.apply()
    if _profiler.config["continuous_dump"]:
        if running and _profiler.dumper is None:
            _profiler.dump_periodically()
        elif not running:
            _profiler.write()


def profiler_set_state(state: str = "stop") -> None:
    """Deprecated: use `set_state`."""
    _warn("profiler_set_state", "set_state")
    set_state(state)


def pause(profile_process: str = "worker") -> None:
    """Stop recording until `resume`."""
    _check_process(profile_process)
    _profiler.paused = True
    _profiler.apply()


def resume(profile_process: str = "worker") -> None:
    """Continue recording after `pause`."""
    _check_process(profile_process)
    _profiler.paused = False
    _profiler.apply()


def dump(finished: bool = True, profile_process: str = "worker") -> None:
    """Write the trace to the file of `set_config`. If `finished`, the recorded events are then dropped."""
    _check_process(profile_process)
    _profiler.write()
    if finished:
        _profiler.events.clear()


def dump_profile() -> None:
    """Deprecated: use `dump`."""
    _warn("dump_profile", "dump")
    dump(True)


def _warn(old: str, new: str) -> None:
    warnings.warn(f"profiler.{old}() is deprecated. Please use profiler.{new}() instead", stacklevel=3)


def dumps(reset: bool = False, format: str = "table", sort_by: str = "total", ascending: bool = False) -> str:
    """The times by category and name, in milliseconds, as text. Requires `set_config(aggregate_stats=True)`.

    Args:
        reset: Clear the times.
        format: "table" or "json".
        sort_by: "total", "avg", "min", "max" or "count".
        ascending: Sort in ascending order.

    AssertionError for other values.
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

    times = {category: {name: entry(s) for name, s in sums.items()} for category, sums in ordered.items()}
    return json.dumps({"Time": times, "Memory": {}, "Unit": {"Time": "ms", "Memory": "kB"}}, indent=4)


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


# --- events of users ----------------------------------------------------------------------------------------------


class _Duration:
    """An event with a start and an end."""

    _category: str

    def __init__(self, category: str, name: str) -> None:
        self.name, self._category = name, category
        self._begin: int | None = None

    def start(self) -> None:
        """Start the event."""
        self._begin = time.perf_counter_ns()

    def stop(self) -> None:
        """Finish the event; it is recorded if the profiler runs. MXNetError without `start`."""
        if self._begin is None:
            raise MXNetError(f"profiler: {type(self).__name__} {self.name!r} was not started")
        if _profiler.active:
            _profiler.duration(self.name, self._category, self._begin, time.perf_counter_ns())
        self._begin = None

    def __str__(self) -> str:
        return self.name


class Domain:
    """A named group of events: a category of the trace."""

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
    """One iteration of a loop."""

    def __init__(self, domain: Domain, name: str) -> None:
        super().__init__(f"{domain.name},frame", name)


class Event(_Duration):
    """An event without a domain."""

    def __init__(self, name: str) -> None:
        super().__init__("event", name)


class Counter:
    """A number that changes. As in MXNet, values are truncated to integers."""

    def __init__(self, domain: Domain, name: str, value: float | None = None) -> None:
        self.name, self._domain = name, domain
        self._value = 0
        if value is not None:
            self.set_value(value)

    def set_value(self, value: float) -> None:
        """Set the value; it is recorded if the profiler runs."""
        self._value = int(value)
        if _profiler.active:
            values = {self.name: self._value}
            _profiler.add("C", self.name, self._domain.name, time.perf_counter_ns(), args=values)

    def increment(self, delta: float = 1) -> None:
        """Add `delta` to the value."""
        self.set_value(self._value + int(delta))

    def decrement(self, delta: float = 1) -> None:
        """Subtract `delta` from the value."""
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
        """Record this moment if the profiler runs. `scope` is 'global', 'process', 'thread', 'task' or 'marker';
        MXNetError for others."""
        if scope not in _SCOPES:
            raise MXNetError(f"profiler: the scope of a marker must be one of {', '.join(_SCOPES)}, not {scope!r}")
        if _profiler.active:
            category = f"{self.domain.name},instant_marker"
            _profiler.add("i", self.name, category, time.perf_counter_ns(), s=_SCOPES[scope])
