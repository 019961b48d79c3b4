"""`mxforge run`: computes the outputs of a model for inputs from files, or measures it on random ones."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..frontend.compiled import CompiledModel
from ..frontend.context import Context
from .contexts import context_of
from .fixed_models import target_name, with_inputs
from .inputs import complete_inputs, types_and_arrays
from .model_files import ModelFiles, find_model
from .models import bind, load_model
from .outputs import Classes, check_labels, check_output, check_place, describe, summary, write_outputs
from .progress import Progress
from .schemas.print_json import as_json
from .schemas.run import RunReport, RunTimes

_REPEAT, _WARMUP = 20, 2


def run(options: argparse.Namespace) -> int:
    """Run the model; returns status 0."""
    files, context = find_model(options.model, options.epoch, options.params), context_of(options)
    if options.output is not None:
        check_place(options.output)
    show = Classes(options.top_k, _labels(options), options.softmax)
    repeat = options.repeat or (1 if options.inputs else _REPEAT)
    warmup = options.warmup if options.warmup is not None else _WARMUP * (repeat > 1)
    with Progress("reading the model") as progress:
        model, arrays = _program_and_inputs(files, options, context, progress)
        if options.output is not None:
            check_output(options.output, model.output_names)
        progress.step(f"running {model.name}")
        first, seconds = _timed(model, arrays), []
        for _ in range(max(0, warmup - 1)):
            _timed(model, arrays)
        if repeat > 1:
            seconds = [_timed(model, arrays)[0] for _ in range(repeat)]
    results = dict(zip(model.output_names, first[1], strict=True))
    check_labels(results, show.labels)
    outputs = describe(results, show)
    report = RunReport(
        model=model.name, target=target_name(files, model.device), outputs=outputs, first_seconds=first[0]
    )
    if seconds:
        report = _repeated(report, seconds, len(arrays[0]) if arrays and arrays[0].ndim else 1)
    if options.json:
        print(as_json("run", report))
    else:
        _print(report)
    if options.output is not None:
        write_outputs(options.output, results)
    return 0


def _labels(options: argparse.Namespace) -> list[str]:
    return options.labels.read_text().splitlines() if options.labels else []


def _timed(model: CompiledModel, arrays: Sequence[np.ndarray]) -> tuple[float, list[Any]]:
    start = time.perf_counter()
    results = model(*arrays)
    return time.perf_counter() - start, results


def _repeated(report: RunReport, seconds: Sequence[float], batch: int) -> RunReport:
    """The report with the times of runs and their distribution, and how many elements they computed per second."""
    p50, p90, p99 = (float(np.percentile(seconds, p)) for p in (50, 90, 99))
    shown = RunTimes(min=min(seconds), mean=sum(seconds) / len(seconds), p50=p50, p90=p90, p99=p99)
    speed = batch * len(seconds) / sum(seconds)
    return replace(report, runs=len(seconds), seconds=shown, samples=tuple(seconds), batch=batch, per_second=speed)


def _print(report: RunReport) -> None:
    for line in summary(report.outputs):
        print(line)
    print(f"first run of {report.model}: {1e3 * report.first_seconds:.3g} ms ({report.target})")
    if report.seconds is not None:
        shown = (("p50", report.seconds.p50), ("p90", report.seconds.p90), ("p99", report.seconds.p99))
        times = ", ".join(f"{name} {1e3 * value:.3g} ms" for name, value in shown)
        print(f"{report.runs} runs: {times}; {report.per_second:.4g} per second, {report.batch} at a time")


def _program_and_inputs(
    files: ModelFiles, options: argparse.Namespace, context: Context, progress: Progress
) -> tuple[CompiledModel, list[np.ndarray]]:
    """The model compiled for the types of the arrays, and the arrays in the order of its inputs."""
    if not files.is_symbol:
        progress.step(f"loading {files.name}")
        return with_inputs(files, options, context)
    loaded = load_model(files, options.weights)
    types, arrays = types_and_arrays(loaded, options)
    progress.step(f"compiling {loaded.name}")
    return bind(loaded, types, context), complete_inputs(types, arrays)
