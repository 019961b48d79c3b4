"""`mxforge tune`: searches faster schedules for a model's kernels, and stores them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from ...codegen.tuned_entries import Entry
from ...frontend.context import GPU, device_of
from ...runtime.host.tuning import Tables, identity, read_tables, store_entries, stored_entries, write_tables
from ..contexts import context_of
from ..errors import ToolError, UsageError
from ..model_files import find_model
from ..models import data_types, load_model, model_graph
from ..outputs import check_file
from ..parameters import require_parameters
from ..progress import Progress
from ..schemas.print_json import as_json
from ..slices import report_slices
from .machines import GpuMachine, HostMachine, Machine
from .report import as_text, report
from .search import Found, search
from .spaces import entry_of, schedule_of
from .subjects import Prediction, TrainingStep

_INTERRUPTED = 130


def run(options: argparse.Namespace) -> int:
    """Search, store and report; returns status 0, or 130 after an interrupt."""
    files = find_model(options.model, options.epoch, options.params)
    if not files.is_symbol:
        raise UsageError(f"{options.model}: {files.kind} has no schedules: tune the symbol, and compile it again")
    context = context_of(options)
    output = files.tuning if options.output is None else options.output
    check_file(output, ".json")
    tables = read_tables(output) if output.is_file() else {}
    with Progress(f"reading {files.name}") as progress:
        model = load_model(files)
        require_parameters(model, options.shapes, options.allow_missing)
        types = data_types(model, options.shapes)
        graph = model_graph(model, types)
        precision = model.options().precision
        is_gpu = context.device_typeid == GPU
        machine = GpuMachine(device_of(context), precision) if is_gpu else HostMachine(precision)
        progress.step(f"compiling {model.name}")
        subject_class = TrainingStep if options.training else Prediction
        subject = subject_class(model, types, graph, machine)
        entries = machine.device.target.tuned.entries
        known = {key: schedule_of(entry) for key, entry in entries.items()}
        tuning = search(subject, known, options.time_limit, lambda text: progress.step(f"tuning {model.name}: {text}"))
        _store(tuning, machine, output, tables)
    report_slices("tune", subject.slice_rows)
    if not tuning.climbs:
        raise ToolError(f"{model.name} has no kernel with a schedule: there is nothing to tune")
    print(as_json("tune", report(tuning, model.name, output)) if options.json else as_text(tuning, output))
    return _INTERRUPTED if tuning.interrupted else 0


def _store(tuning: Found, machine: Machine, output: Path, tables: Tables) -> None:
    """Replace the entries of the model's kernels in the file, which has `tables`, and in the disk cache."""
    if not tuning.climbs:
        return
    target = machine.untuned
    name = identity(target)
    output.parent.mkdir(parents=True, exist_ok=True)
    write_tables(output, {**tables, name: _merged(tables.get(name, {}), tuning)})
    store_entries(_merged(stored_entries(target), tuning), target)
    machine.refresh()


def _merged(entries: Mapping[str, Entry], tuning: Found) -> dict[str, Entry]:
    """The entries with those of a search instead, except schedules that it had no time to measure."""
    climbs = tuning.climbs
    kept = {key: e for key, e in entries.items() if key not in climbs or schedule_of(e) in climbs[key].queue}
    return {**kept, **{key: entry_of(schedule) for key, schedule in tuning.schedules().items()}}
