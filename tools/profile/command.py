"""`mxforge profile`: the time of each layer of a model, and its share of what this machine can do."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ...frontend.compiled import CompiledModel
from ...frontend.context import GPU, Context
from ...ir.types import DType
from ...runtime.devices import HOST
from ...runtime.host.probes import RunTimes
from ..contexts import context_of, machine_of
from ..errors import UsageError
from ..fixed_models import load_fixed
from ..inspect_model import arguments
from ..model_files import ModelFiles, find_model
from ..models import data_types, load_model
from ..outputs import check_file, check_writable, write_file
from ..parameters import require_parameters
from ..plots import check_plot
from ..progress import Progress
from ..schemas.common import Gpu, Machine
from ..schemas.print_json import as_json
from ..schemas.profile import Times
from ..slices import report_slices
from .files import as_csv, as_trace, report
from .gpu import measure_gpu_peaks
from .parallelism import parallelism
from .peaks import Peaks, measure_peaks
from .report import Profile
from .rows import Row, launch_rows, layer_rows, total_row
from .source import Source, fixed_source, gpu_source, symbol_source, timed_runs
from .text import as_text


def run(options: argparse.Namespace) -> int:
    """Print the profile, or the simulation of threads, and write the files; returns status 0."""
    files = find_model(options.model, options.epoch, options.params)
    if options.estimate:
        from .estimate_command import run_estimate

        return run_estimate(files, options)
    context = context_of(options)
    if options.simulate_threads:
        if context.device_typeid == GPU:
            raise UsageError("--simulate-threads is for programs on the CPU: omit it with --ctx gpu")
        from .simulate_threads import run_simulation

        return run_simulation(files, options)
    _check(options, files)
    with Progress(f"reading {files.name}") as progress:
        source = _source(files, options, context, progress)
        progress.step("measuring this machine")
        peaks = _peaks(context, source)
        progress.step(f"measuring {files.name}")
        seconds, runs = _measure(source.model, options.repeat)
    profile = _profile(source, seconds, runs, peaks)
    report_slices("profile", source.slice_rows)
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


def _source(files: ModelFiles, options: argparse.Namespace, context: Context, progress: Progress) -> Source:
    if not files.is_symbol:
        return fixed_source(load_fixed(files, options, context))
    model = load_model(files, options.weights)
    require_parameters(model, options.shapes, options.allow_missing)
    types = data_types(model, options.shapes)
    progress.step(f"compiling {model.name}")
    if context.device_typeid == GPU:
        return gpu_source(model, types, context)
    return symbol_source(model, types, HOST.target)


def _peaks(context: Context, source: Source) -> Peaks:
    """The peaks of the device; on a GPU for the largest dtype of 16 or 32 bits that the program reads."""
    if context.device_typeid != GPU:
        return measure_peaks()
    dtypes = {t.dtype for t in source.executable.inputs}
    return measure_gpu_peaks(context, next((d for d in (DType.F32, DType.F16, DType.BF16) if d in dtypes), DType.F32))


def _measure(model: CompiledModel, repeat: int) -> tuple[list[float], list[RunTimes]]:
    """The seconds of `repeat` runs, and the times of the launches of as many others, in alternation."""
    with timed_runs(model) as timed:
        times = [(timed.plain(), timed.timed()) for _ in range(repeat)]
    return [seconds for seconds, _ in times], [run for _, run in times]


def _profile(source: Source, seconds: Sequence[float], runs: Sequence[RunTimes], peaks: Peaks) -> Profile:
    model, program = source.model, source.executable.program
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
        machine=_machine(model),
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


def _machine(model: CompiledModel) -> Machine | Gpu:
    """What the code is compiled for, with the threads that run it."""
    machine = machine_of(model.device)
    return machine if isinstance(machine, Gpu) else replace(machine, threads=HOST.threads)


def _contents(options: argparse.Namespace, profile: Profile, rows: Sequence[Row]) -> dict[Path, Callable[[], bytes]]:
    """What to write to each file that the options name."""
    contents: dict[Path, Callable[[], bytes]] = {}
    if options.csv is not None:
        contents[options.csv] = lambda: as_csv(profile, rows)
    if options.trace is not None:
        contents[options.trace] = lambda: as_trace(profile)
    return contents
