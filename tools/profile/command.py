"""`mxforge profile`: the time of each layer of a model, and its share of what this machine can do."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from ...frontend.compiled import CompiledModel
from ...runtime.devices import HOST
from ...runtime.host.probes import RunTimes
from ..errors import UsageError
from ..fixed_models import load_fixed
from ..inspect_model import arguments
from ..model_files import ModelFiles, find_model
from ..models import data_types, load_model
from ..outputs import check_file, check_writable, write_file
from ..parameters import require_parameters
from ..plots import check_plot
from ..progress import Progress
from ..schemas.common import Machine
from ..schemas.print_json import as_json
from ..schemas.profile import Times
from .files import as_csv, as_trace, report
from .parallelism import parallelism
from .peaks import Peaks, measure_peaks
from .report import Profile
from .rows import Row, launch_rows, layer_rows, total_row
from .source import Source, fixed_source, symbol_source, timed_runs
from .text import as_text


def run(options: argparse.Namespace) -> int:
    """Print the profile, or the simulation of threads, and write the files; returns status 0."""
    files = find_model(options.model, options.epoch, options.params)
    if options.simulate_threads:
        from .simulate_threads import run_simulation

        return run_simulation(files, options)
    _check(options, files)
    with Progress(f"reading {files.name}") as progress:
        source = (
            _symbol_source(files, options, progress) if files.is_symbol else fixed_source(load_fixed(files, options))
        )
        progress.step("measuring this machine")
        peaks = measure_peaks()
        progress.step(f"measuring {files.name}")
        seconds, runs = _measure(source.model, options.repeat)
    profile = _profile(source, seconds, runs, peaks)
    rows = profile.layers if options.by == "layer" else profile.launches
    print(as_json("profile", report(profile)) if options.json else as_text(profile, rows, options.top))
    for path, content in _contents(options, profile, rows).items():
        write_file(path, content())
    if options.plot is not None:
        from .roofline import draw_roofline

        draw_roofline(profile, options.plot)
    return 0


def _check(options: argparse.Namespace, files: ModelFiles) -> None:
    """An error for options that cannot be met, before long work."""
    for name in ("launch_cost", "chunk_cost", "memory_bandwidth"):
        if getattr(options, name) is not None:
            raise UsageError(f"--{name.replace('_', '-')} is an assumption of --simulate-threads: pass that too")
    for path, suffix in ((options.csv, ".csv"), (options.trace, ".json")):
        if path is not None:
            check_file(path, suffix)
    if options.plot is not None:
        check_plot(options.plot)
        check_writable(options.plot)
    if not files.is_symbol and options.plot is not None:
        raise UsageError(f"--plot: {files.kind} does not contain the work of its launches: profile the symbol")


def _source(files: ModelFiles, options: argparse.Namespace, progress: Progress) -> Source:
    if files.is_symbol:
        return _symbol_source(files, options, progress)
    return fixed_source(load_fixed(files, options))


def _symbol_source(files: ModelFiles, options: argparse.Namespace, progress: Progress) -> Source:
    model = load_model(files, options.weights)
    require_parameters(model, options.shapes, options.allow_missing)
    types = data_types(model, options.shapes)
    progress.step(f"compiling {model.name}")
    return symbol_source(model, types, HOST.target)


def _measure(model: CompiledModel, repeat: int) -> tuple[list[float], list[RunTimes]]:
    """The seconds of `repeat` runs, and the times of the launches of as many others, in alternation."""
    with timed_runs(model) as timed:
        times = [(timed.plain(), timed.timed()) for _ in range(repeat)]
    return [seconds for seconds, _ in times], [run for _, run in times]


def _profile(source: Source, seconds: Sequence[float], runs: Sequence[RunTimes], peaks: Peaks) -> Profile:
    model, program, target = source.model, source.executable.program, HOST.target
    spans = [run.launches() for run in runs]
    times = np.median([end - begin for begin, end in spans], axis=0) / 1e9
    busy = np.median([run.busy.sum(axis=1) for run in runs], axis=0) / 1e9
    launches = launch_rows(program, times.tolist(), busy.tolist(), source.regions)
    whole = [float(np.ptp(np.concatenate(span))) if launches else 0.0 for span in spans]
    pauses = [total - float((end - begin).sum()) for total, (begin, end) in zip(whole, spans, strict=True)]
    least, p50, p90 = (float(np.percentile(seconds, p)) for p in (0, 50, 90))
    return Profile(
        model=model.name,
        inputs=arguments(model.inputs),
        machine=Machine(cpu=target.cpu, vector_bits=target.vector_bits, threads=HOST.threads),
        peaks=peaks,
        runs=len(seconds),
        seconds=Times(min=least, p50=p50, p90=p90),
        between_seconds=float(np.median(pauses)) / 1e9,
        layers=layer_rows(program, launches, source.operators),
        launches=launches,
        total=total_row(model.name, launches, p50),
        timeline=runs[int(np.argsort(whole)[len(whole) // 2])],
        missing=source.missing,
        parallelism=parallelism(program, times.tolist()),
    )


def _contents(options: argparse.Namespace, profile: Profile, rows: Sequence[Row]) -> dict[Path, Callable[[], bytes]]:
    """What to write to each file that the options name."""
    contents: dict[Path, Callable[[], bytes]] = {}
    if options.csv is not None:
        contents[options.csv] = lambda: as_csv(profile, rows)
    if options.trace is not None:
        contents[options.trace] = lambda: as_trace(profile)
    return contents
