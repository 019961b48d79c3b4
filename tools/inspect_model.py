"""`mxforge inspect`: shows a model and its compiled program."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, field
from pathlib import Path
from typing import Any

from ..frontend.compiled import Argument, CompiledModel, load_compiled
from ..ir.lazy_dataclass import dataclass
from ..ir.program import Launch, Program
from ..ir.settings import settings
from ..ir.types import TensorType
from ..runtime.compile import compile_program
from ..runtime.compiled_folder import read_folder
from ..runtime.devices import HOST
from ..runtime.host.executable import Executable
from .errors import ToolError, UsageError
from .inputs import random_inputs
from .inspect_text import as_text
from .layers import describe_layers
from .model_files import find_model
from .models import (
    Model,
    bind_executable,
    data_types,
    known_shapes,
    load_model,
    model_graph,
    output_arguments,
    refuse_weights,
)
from .progress import Progress

Record = dict[str, Any]


@dataclass
class Report:
    """The content of a report. Sizes are in bytes, times in seconds. `layers` is of `describe_layers`. `launches` and
    `prepare` have one record per launch, whose `fallback` is the reason why a contraction runs as plain loops. Without
    the shapes of all inputs nothing is compiled; the extents that are not known are None.
    """

    model: str
    inputs: list[Record]
    outputs: list[Record]
    operators: dict[str, int] = field(default_factory=dict[str, int])
    parameters: Record = field(default_factory=dict[str, Any])
    layers: list[Record] = field(default_factory=list[Record])
    memory: Record = field(default_factory=dict[str, Any])
    code_bytes: int = 0
    compile_seconds: float | None = None
    target: Record = field(default_factory=dict[str, Any])
    launches: list[Record] = field(default_factory=list[Record])
    prepare: list[Record] = field(default_factory=list[Record])
    profiled_seconds: float | None = None


def run(options: argparse.Namespace) -> int:
    """Print the report; returns status 0."""
    files = find_model(options.model, options.epoch, options.params)
    with Progress(f"reading {files.name}") as progress:
        if files.compiled is not None:
            refuse_weights(options)
            report = _inspect_compiled(files.compiled, options.profile)
        else:
            if options.dump is not None:
                _dump_to(options.dump)
            report = _inspect_symbol(load_model(files, options.weights), options, progress)
    print(json.dumps(asdict(report), indent=1) if options.json else as_text(asdict(report)))
    return 0


def _dump_to(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise ToolError(f"{folder}: is a file; --dump is the name of a folder")
    os.environ["MXFORGE_DUMP"] = str(folder)
    settings.cache_clear()


def _inspect_symbol(model: Model, options: argparse.Namespace, progress: Progress) -> Report:
    try:
        types = data_types(model, options.shapes)
    except UsageError:
        if options.shapes or options.profile or options.dump is not None:
            raise
        return _without_shapes(model)
    graph = model_graph(model, types)
    outputs = output_arguments(model, graph.output_types())
    inputs = [Argument(name, types[name]) for name in model.data_names]
    report = Report(model.name, _arguments(inputs), _arguments(outputs), _operators(model), _parameters(model))
    target = HOST.target
    progress.step(f"compiling {model.name}")
    start = time.perf_counter()
    program = compile_program(graph, model.options(), HOST)
    report.compile_seconds = time.perf_counter() - start
    _describe(report, program)
    report.layers = describe_layers(model, graph, program)
    report.target = {"cpu": target.cpu, "vector_bits": target.vector_bits, "threads": target.threads}
    if options.profile:
        progress.step(f"measuring {model.name}")
        _profile(report, bind_executable(model, types, HOST.load(program)))
    return report


def _without_shapes(model: Model) -> Report:
    """What is known of a model without the shapes of its inputs."""
    network, shapes = model.network, known_shapes(model)
    inputs = [{"name": n, "shape": shapes[n], "dtype": None} for n in model.data_names]
    outputs = [{"name": n, "shape": None, "dtype": None} for n in model.symbol.list_outputs()]
    layers = [{"name": n.name, "operator": n.op} for n in network.nodes if not n.is_variable]
    return Report(model.name, inputs, outputs, _operators(model), _parameters(model), layers)


def _inspect_compiled(folder: Path, profile: bool) -> Report:
    stored = read_folder(folder)
    report = Report(stored.name, _arguments(stored.inputs), _arguments(stored.outputs))
    _describe(report, stored.program)
    report.memory["inputs"] -= len(stored.memory)
    report.memory["parameters"] = len(stored.memory)
    if profile:
        _profile(report, load_compiled(folder))
    return report


def _arguments(arguments: Iterable[Argument]) -> list[Record]:
    return [{"name": a.name, "shape": list(a.type.shape), "dtype": memory_name(a.type)} for a in arguments]


def memory_name(type: TensorType) -> str:
    """The NumPy name of the dtype."""
    return "bfloat16" if type.dtype.value == "bf16" else type.dtype.numpy.name


def _operators(model: Model) -> dict[str, int]:
    counts = Counter(node.op for node in model.network.nodes if not node.is_variable)
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))


def _parameters(model: Model) -> Record:
    arrays = [array._memory() for array in model.parameters.values()]
    return {"arrays": len(arrays), "elements": sum(a.size for a in arrays), "bytes": sum(a.nbytes for a in arrays)}


def _describe(report: Report, program: Program) -> None:
    """Add the compiled program to the report: memory, code and launches."""
    parameters = sum(program.inputs[i].nbytes for i in program.parameters)
    report.memory = {
        "arena": program.arena_bytes,
        "prepared": program.prepared_bytes,
        "constants": len(program.constants),
        "parameters": parameters,
        "inputs": sum(t.nbytes for t in program.inputs) - parameters,
        "outputs": sum(t.nbytes for t in program.outputs),
    }
    report.memory["peak"] = sum(report.memory.values())
    report.code_bytes = sum(map(len, program.code))
    report.launches = [_launch(program, launch) for launch in program.launches]
    report.prepare = [_launch(program, launch) for launch in program.prepare]


def _launch(program: Program, launch: Launch) -> Record:
    return {
        "label": program.label(launch),
        "kind": launch.kind,
        "kernel": launch.symbol,
        "count": launch.count,
        "grain": launch.grain,
        "fallback": launch.fallback,
    }


def _profile(report: Report, model: CompiledModel) -> None:
    """Add the time of each launch on random data to the report."""
    from .launch_times import launch_times

    executable = model.executable
    assert isinstance(executable, Executable)
    data = random_inputs({a.name: (a.type.shape, a.type.dtype.memory) for a in model.inputs})
    with model.operands(list(data.values())) as (inputs, outputs):
        seconds: Sequence[float] = launch_times(executable, inputs, outputs)
    for record, value in zip(report.launches, seconds, strict=True):
        record["seconds"] = value
    report.profiled_seconds = sum(seconds)
