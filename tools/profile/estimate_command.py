"""`mxforge profile --estimate`: the times of a model on a GPU, from published figures and without one."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from ...codegen.driver import compile_steps
from ...codegen.triton.describe import described
from ...ir.program import Launch, Program
from ...runtime.host.tuning import tuned_target
from ..contexts import gpu_of, refuse_of_cpus
from ..errors import UsageError
from ..inspect_model import arguments
from ..inspect_text import cut, table, type_text
from ..model_files import ModelFiles
from ..models import Argument, Model, data_types, load_model, model_graph
from ..parameters import require_parameters
from ..progress import Progress
from ..schemas.estimate import EstimatedLaunch, EstimateReport
from ..schemas.print_json import as_json
from .estimate import EstimatedStep, estimate_program
from .gpu_data import GPUS

_COLUMNS = ("layer", "kind", "us", "%", "times", "programs", "MB", "from memory", "bound")
_MEASURING = ("csv", "trace", "plot", "simulate_threads")


def run_estimate(files: ModelFiles, options: argparse.Namespace) -> int:
    """Print the estimates; returns status 0."""
    _check(options, files)
    with Progress(f"reading {files.name}"):
        report = estimate_model(load_model(files, options.weights), options)
    print(as_json("estimate", report) if options.json else as_text(report, options.by == "layer", options.top))
    return 0


def _check(options: argparse.Namespace, files: ModelFiles) -> None:
    refuse_of_cpus(options, "--estimate")
    for name in _MEASURING:
        if getattr(options, name) is not None:
            raise UsageError(f"--{name.replace('_', '-')} is for measured times: omit it with --estimate")
    if not files.is_symbol:
        raise UsageError(f"--estimate: {files.kind} does not contain the work of its launches: pass the symbol")


def estimate_model(model: Model, options: argparse.Namespace) -> EstimateReport:
    """The estimates of a model on the GPU that `options.estimate` names."""
    gpu = GPUS[options.estimate]
    require_parameters(model, options.shapes, options.allow_missing)
    types = data_types(model, options.shapes)
    target = described(tuned_target(gpu.target))
    program = compile_steps(model_graph(model, types), target, model.options()).program
    steps = estimate_program(program, target.kernels, gpu)
    return EstimateReport(
        model=model.name,
        inputs=arguments(Argument(name, types[name]) for name in model.data_names),
        gpu=gpu.name,
        target=gpu_of(target),
        seconds=sum(step.seconds for step in steps),
        by_bound=seconds_by_bound(steps),
        launches=tuple(_launch(program, step) for step in steps),
    )


def seconds_by_bound(steps: Sequence[EstimatedStep]) -> dict[str, float]:
    """The seconds of steps by what limits them, the largest first."""
    sums: dict[str, float] = {}
    for step in steps:
        if step.estimate is not None:
            sums[step.estimate.bound] = sums.get(step.estimate.bound, 0.0) + step.seconds
    return dict(sorted(sums.items(), key=lambda pair: -pair[1]))


def _launch(program: Program, estimated: EstimatedStep) -> EstimatedLaunch:
    step, estimate = estimated.step, estimated.estimate
    moves = not isinstance(step, Launch)
    return EstimatedLaunch(
        name="" if moves else program.label(step),
        kind=type(step).__name__.lower() if moves else step.kind,
        kernel="" if moves else step.symbol,
        times=estimated.times,
        programs=0 if estimated.work is None else estimated.work.programs,
        seconds=None if estimate is None else estimated.seconds,
        bound=None if estimate is None else estimate.bound,
        bytes=estimated.read + estimated.written,
        memory_bytes=estimated.missed,
    )


def as_text(report: EstimateReport, by_layer: bool, top: int | None) -> str:
    """The rows (or the `top` slowest), the total, and what it does not contain."""
    return "\n".join((*_head(report), *_rows(report, by_layer, top), *_total(report)))


def _head(report: EstimateReport) -> Iterator[str]:
    yield report.model
    for argument in report.inputs:
        yield f"  {argument.name}  {type_text(argument)}"
    yield f"  estimated for {report.gpu} ({report.target.gpu}), from published figures: nothing was measured"


def _rows(report: EstimateReport, by_layer: bool, top: int | None) -> Iterator[str]:
    rows = list(report.launches)
    if by_layer:
        named: dict[str, list[EstimatedLaunch]] = {}
        for row in rows:
            named.setdefault(row.name or row.kind, []).append(row)
        cells = [_cells(name, members, report.seconds) for name, members in named.items()]
    else:
        cells = [_cells(row.name or row.kind, [row], report.seconds) for row in rows]
    count = len(cells)
    if top is not None:
        cells = sorted(cells, key=lambda cell: -float(cell[2]))[:top]
    shown = "" if top is None or top >= count else f", the {top} slowest"
    yield f"\n{'layers' if by_layer else 'launches'} ({count}){shown}"
    yield from table(
        [("layer", "kind", "us", "%", "times", "programs", "MB", "from memory", "bound"), *cells], "llrrrrrrl"
    )


def _cells(name: str, rows: Sequence[EstimatedLaunch], total: float) -> tuple[str, ...]:
    seconds = sum(row.seconds or 0.0 for row in rows)
    slowest = max(rows, key=lambda row: row.seconds or 0.0)
    return (
        cut(name),
        " ".join(dict.fromkeys(row.kind for row in rows)),
        f"{1e6 * seconds:.1f}",
        f"{100 * seconds / total if total else 0:.1f}",
        str(sum(row.times for row in rows)),
        str(slowest.programs),
        f"{sum(row.bytes for row in rows) / 1e6:.2f}",
        f"{sum(row.memory_bytes for row in rows) / 1e6:.2f}",
        slowest.bound or "the host",
    )


def _total(report: EstimateReport) -> Iterator[str]:
    count = sum(row.times for row in report.launches)
    parts = ", ".join(f"{name} {100 * s / report.seconds:.0f} %" for name, s in report.by_bound.items())
    yield f"\nrun  {1e3 * report.seconds:.3f} ms, {count} launches; limited by {parts or 'nothing'}"
    unknown = sum(row.seconds is None for row in report.launches)
    if unknown:
        yield f"     without {unknown} steps that the host computes"
