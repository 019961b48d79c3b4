"""`mxforge profile --simulate-threads`: the times that a model would take on more threads than this machine has.

The model is compiled for each number of threads and its launches are measured on one thread; `thread_model.py` predicts
the rest.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from ...ir.lazy_dataclass import dataclass
from ...ir.program_graph import critical_path, data_alone, dependences
from ...ir.step_accesses import step_accesses
from ...ir.types import TensorType
from ...runtime.devices import HOST
from ...runtime.host.probes import RunTimes
from ...runtime.host.threads import LARGEST_POOL
from ..errors import UsageError
from ..inspect_model import memory_name
from ..model_files import ModelFiles
from ..models import Model, data_types, load_model
from ..parameters import require_parameters
from ..progress import Progress
from ..schemas.common import Argument
from ..schemas.print_json import as_json
from .nested_launches import Nested, nested_launches
from .parallelism import launch_steps
from .rows import Row, launch_rows
from .simulation_report import Simulated, Simulation, as_text, report
from .source import Source, symbol_source, timed_runs
from .thread_model import LaunchWork, ThreadCosts, predict
from .thread_schedule import together_seconds

if TYPE_CHECKING:
    from networkx import DiGraph

_LAUNCH_COST, _CHUNK_COST, _BANDWIDTH = 1.0, 100.0, 200.0
"""Microseconds, nanoseconds and GB per second, if the user names no numbers. `sharing_seconds` of
`runtime/host/probes.py` measured the first two on two cores of Zen 5; the third is about eight channels of DDR4-3200
with eight bytes each."""


def run_simulation(files: ModelFiles, options: argparse.Namespace) -> int:
    """Print the prediction for each number of threads; returns status 0."""
    _check(files, options)
    with Progress(f"reading {files.name}") as progress:
        model = load_model(files, options.weights)
        require_parameters(model, options.shapes, options.allow_missing)
        types = data_types(model, options.shapes)
        with _one_thread():
            progress.step(f"measuring {files.name} for 1 thread")
            single = launch_works(model, types, 1, options.repeat)
            measured_by_threads: dict[int, Measured] = {}
            for threads in options.simulate_threads:
                progress.step(f"measuring {files.name} for {threads} threads")
                measured_by_threads[threads] = (
                    single if threads == 1 else launch_works(model, types, threads, options.repeat)
                )
    costs = _costs(options)
    predictions = {threads: _predicted(measured, threads, costs) for threads, measured in measured_by_threads.items()}
    inputs = tuple(Argument(name=name, dtype=memory_name(t), shape=t.shape) for name, t in types.items())
    simulation = Simulation(files.name, inputs, costs, sum(work.seconds for work in single.works), predictions)
    print(as_json("simulation", report(simulation)) if options.json else as_text(simulation, options.top))
    return 0


def _check(files: ModelFiles, options: argparse.Namespace) -> None:
    """An error for options that cannot be met, before long work."""
    if not files.is_symbol:
        raise UsageError(f"--simulate-threads: {files.kind} is for one number of threads: profile a symbol")
    for name in ("csv", "trace", "plot"):
        if getattr(options, name) is not None:
            raise UsageError(f"--{name} needs measured threads: omit it, or --simulate-threads")
    if max(options.simulate_threads) > LARGEST_POOL:
        raise UsageError(f"--simulate-threads: a pool has at most {LARGEST_POOL} threads")


def _costs(options: argparse.Namespace) -> ThreadCosts:
    """The costs that the options give, and defaults for the others."""
    launch, chunk = options.launch_cost or _LAUNCH_COST, options.chunk_cost or _CHUNK_COST
    return ThreadCosts(launch / 1e6, chunk / 1e9, 1e9 * (options.memory_bandwidth or _BANDWIDTH))


@contextmanager
def _one_thread() -> Iterator[None]:
    """One thread runs kernels, and the launches of loops are recorded."""
    before, nested = HOST.threads, nested_launches()
    HOST.use_threads(1)
    nested.install()
    try:
        yield
    finally:
        nested.remove()
        HOST.use_threads(before)


# --- the work of launches ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """The launches of a program, and the graph of its steps."""

    works: Sequence[LaunchWork]
    graph: DiGraph[int]


def launch_works(model: Model, types: Mapping[str, TensorType], threads: int, repeat: int) -> Measured:
    """The launches of the model compiled for so many threads, with the least time of each in `repeat` runs on one
    thread. A loop is replaced by the launches of its steps."""
    source = symbol_source(model, types, HOST.target_for(threads))
    nested, runs = nested_launches(), list[tuple[RunTimes, list[Nested]]]()
    with timed_runs(source.model) as timed:
        for _ in range(repeat):
            nested.launches.clear()
            runs.append((timed.timed(), list(nested.launches)))
    spans = [times.launches() for times, _ in runs]
    seconds = np.min([end - begin for begin, end in spans], axis=0) / 1e9
    rows = launch_rows(source.executable.program, seconds.tolist(), seconds.tolist(), source.regions)
    inner = _least([inside for _, inside in runs])
    begins = spans[-1][0]
    owners = np.searchsorted(begins, [n.begin for n in inner], side="right") - 1
    graph = dependences(step_accesses(source.executable.program))
    return Measured(list(_works(source, rows, inner, owners.tolist())), graph)


def _least(runs: Sequence[Sequence[Nested]]) -> list[Nested]:
    """The nested launches of the last run, with the least time of each in the runs that made as many."""
    last = runs[-1]
    same = [run for run in runs if len(run) == len(last)]
    least = [min(n.nanoseconds for n in same_run) for same_run in zip(*same, strict=True)]
    return [Nested(n.begin, time, n.count, n.grain) for n, time in zip(last, least, strict=True)]


def _works(source: Source, rows: Sequence[Row], inner: Sequence[Nested], owners: Sequence[int]) -> Iterator[LaunchWork]:
    own: dict[int, list[Nested]] = {}
    for nested, owner in zip(inner, owners, strict=True):
        own.setdefault(owner, []).append(nested)
    program = source.executable.program
    for number, (row, step) in enumerate(zip(rows, launch_steps(program), strict=True)):
        launch = program.computations[number]
        if number not in own:
            yield LaunchWork(row.name, launch.count, launch.grain, row.seconds, row.nbytes, step)
        for n in own.get(number, ()):
            yield LaunchWork(f"{row.name} (step)", n.count, n.grain, n.nanoseconds / 1e9, step=step)


def _predicted(measured: Measured, threads: int, costs: ThreadCosts) -> Simulated:
    """The prediction for each launch, and for the program if launches may run at the same time."""
    predictions = [predict(work, threads, costs) for work in measured.works]
    works: dict[int, list[LaunchWork]] = {}
    seconds = [0.0] * len(measured.graph)
    for prediction in predictions:
        works.setdefault(prediction.work.step, []).append(prediction.work)
        seconds[prediction.work.step] += prediction.seconds
    span = sum(seconds[n] for n in critical_path(measured.graph, seconds))
    graphs = measured.graph, data_alone(measured.graph)
    together, data_together = (together_seconds(works, graph, threads, costs) for graph in graphs)
    return Simulated(predictions, span, together, data_together)
