"""`mxforge inspect`: shows a model and its compiled program."""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from ..frontend.compiled import Argument, CompiledModel, CompiledShapes
from ..frontend.context import Context, device_of
from ..ir.program import Computation, Program, Step
from ..ir.settings import settings
from ..ir.types import TensorType
from ..runtime.compile import compile_program
from ..runtime.launched_program import LaunchedProgram
from ..runtime.loaded_program import LoadedProgram
from ..runtime.shape_variants import Axes, Variant
from .contexts import context_of, machine_of
from .errors import ToolError, UsageError
from .fixed_models import for_shapes, load_any
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
)
from .progress import Progress
from .schemas import common
from .schemas import inspect as schema
from .schemas.inspect import InspectReport, Layer, Memory, Parameters
from .schemas.print_json import as_json


def run(options: argparse.Namespace) -> int:
    """Print the report; returns status 0."""
    files, context = find_model(options.model, options.epoch, options.params), context_of(options)
    if options.graph is not None:
        from .graph.files import check_graph

        check_graph(options.graph)  # before long work
    with Progress(f"reading {files.name}") as progress:
        if options.dump is not None and files.compiled is None:
            _dump_to(options.dump)
        if not files.is_symbol:
            report = _inspect_any(load_any(files, options, context), options)
        else:
            report = _inspect_symbol(load_model(files, options.weights), options, context, progress)
    print(as_json("inspect", report) if options.json else as_text(report))
    return 0


def _dump_to(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise ToolError(f"{folder}: is a file; --dump is the name of a folder")
    os.environ["MXFORGE_DUMP"] = str(folder)
    settings.cache_clear()


def _inspect_symbol(model: Model, options: argparse.Namespace, context: Context, progress: Progress) -> InspectReport:
    try:
        types = data_types(model, options.shapes)
    except UsageError:
        if options.shapes or options.profile or options.dump is not None or options.graph is not None:
            raise
        return _without_shapes(model)
    graph = model_graph(model, types)
    outputs = output_arguments(model, graph.output_types())
    inputs = [Argument(name, types[name]) for name in model.data_names]
    device = device_of(context)
    progress.step(f"compiling {model.name}")
    start = time.perf_counter()
    program = compile_program(graph, model.options(), device)
    seconds = time.perf_counter() - start
    parameters = sum(program.inputs[i].nbytes for i in program.parameters)
    report = InspectReport(
        model=model.name,
        inputs=arguments(inputs),
        outputs=arguments(outputs),
        operators=_operators(model),
        parameters=_parameters(model),
        layers=describe_layers(model, graph, program),
        memory=_memory(program, parameters),
        code_bytes=sum(map(len, program.code)),
        compile_seconds=seconds,
        target=machine_of(device),
        launches=_launches(program, program.steps),
        prepare=_launches(program, program.prepare),
    )
    if options.profile:
        progress.step(f"measuring {model.name}")
        report = _profiled(report, bind_executable(model, types, device.load(program), context))
    if options.graph is not None:
        _write_graph(options.graph, program, [v.name for v in graph.inputs], report)
    return report


def _write_graph(file: Path, program: Program, inputs: Sequence[str], report: InspectReport) -> None:
    from .graph.files import write_graph
    from .graph.program import program_graph

    seconds = [x.seconds for x in report.launches if x.seconds is not None]
    write_graph(file, program_graph(program, inputs, [x.name for x in report.outputs], seconds))


def _without_shapes(model: Model) -> InspectReport:
    """What is known of a model without the shapes of its inputs."""
    network, shapes = model.network, known_shapes(model)
    return InspectReport(
        model=model.name,
        inputs=tuple(common.Argument(name=n, shape=shapes[n], dtype=None) for n in model.data_names),
        outputs=tuple(common.Argument(name=n, shape=None, dtype=None) for n in model.symbol.list_outputs()),
        operators=_operators(model),
        parameters=_parameters(model),
        layers=tuple(Layer(name=n.name, operator=n.op) for n in network.nodes if not n.is_variable),
    )


def _inspect_any(model: CompiledModel | CompiledShapes, options: argparse.Namespace) -> InspectReport:
    if isinstance(model, CompiledModel):
        return _inspect_fixed(model, options)
    names = model.input_names, model.output_names
    variants = tuple([_variant(v, *names) for v in model.variants])
    report = _inspect_fixed(for_shapes(model, options), options)
    return replace(report, variants=variants, shapes=len(model.shapes))


def _variant(variant: Variant, inputs: Sequence[str], outputs: Sequence[str]) -> schema.Variant:
    return schema.Variant(
        name=variant.name,
        inputs=tuple(map(_ranges, inputs, variant.inputs)),
        outputs=tuple(map(_ranges, outputs, variant.outputs)),
        equal=tuple([tuple([f"{inputs[i]}[{axis}]" for i, axis in group]) for group in variant.equal]),
    )


def _ranges(name: str, axes: Axes) -> schema.Ranges:
    ranges = [(axis, axis) if isinstance(axis, int) else axis for axis in axes]
    least, best, most = (tuple([r[at] for r in ranges]) for at in (0, 1, -1))
    return schema.Ranges(name=name, least=least, best=best if any(len(r) == 3 for r in ranges) else None, most=most)


def _inspect_fixed(model: CompiledModel, options: argparse.Namespace) -> InspectReport:
    assert isinstance(model.executable, LoadedProgram)
    program = model.executable.program
    report = InspectReport(
        model=model.name,
        inputs=arguments(model.inputs),
        outputs=arguments(model.outputs),
        operators={},
        memory=_memory(program, model.parameter_bytes),
        code_bytes=sum(map(len, program.code)),
        launches=_launches(program, program.steps),
        prepare=_launches(program, program.prepare),
    )
    if options.profile:
        report = _profiled(report, model)
    if options.graph is not None:
        _write_graph(options.graph, program, model.input_names, report)
    return report


def arguments(listed: Iterable[Argument]) -> tuple[common.Argument, ...]:
    """Inputs or outputs as reports have them."""
    return tuple(common.Argument(name=a.name, shape=a.type.shape, dtype=memory_name(a.type)) for a in listed)


def memory_name(type: TensorType) -> str:
    """The NumPy name of the dtype."""
    return "bfloat16" if type.dtype.value == "bf16" else type.dtype.numpy.name


def _operators(model: Model) -> dict[str, int]:
    counts = Counter(node.op for node in model.network.nodes if not node.is_variable)
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))


def _parameters(model: Model) -> Parameters:
    arrays = [array._memory() for array in model.parameters.values()]
    return Parameters(arrays=len(arrays), elements=sum(a.size for a in arrays), bytes=sum(a.nbytes for a in arrays))


def _memory(program: Program, parameters: int) -> Memory:
    """The memory of a program, of whose inputs so many bytes are parameters."""
    inputs, outputs = (sum(t.nbytes for t in types) for types in (program.inputs, program.outputs))
    return Memory(
        arena=program.arena_bytes,
        prepared=program.prepared_bytes,
        constants=len(program.constants),
        parameters=parameters,
        inputs=inputs - parameters,
        outputs=outputs,
        peak=program.arena_bytes + program.prepared_bytes + len(program.constants) + inputs + outputs,
    )


def _launches(program: Program, steps: Iterable[Step]) -> tuple[schema.Launch, ...]:
    return tuple(
        schema.Launch(
            label=program.label(launch),
            kind=launch.kind,
            kernel=launch.symbol,
            count=launch.count,
            grain=launch.grain,
            fallback=launch.fallback,
        )
        for launch in steps
        if isinstance(launch, Computation)
    )


def _profiled(report: InspectReport, model: CompiledModel) -> InspectReport:
    """The report with the time of each launch on random data."""
    if isinstance(model.executable, LaunchedProgram):
        from .profile.gpu import gpu_launch_times as times_of
    else:
        from .profile.launch_times import launch_times as times_of

    executable = model.executable
    data = random_inputs({a.name: (a.type.shape, a.type.dtype.memory) for a in model.inputs})
    with model.operands(list(data.values())) as (inputs, outputs):
        times: Sequence[float] = times_of(executable, inputs, outputs)
    launches = tuple(replace(x, seconds=value) for x, value in zip(report.launches, times, strict=True))
    return replace(report, launches=launches, profiled_seconds=sum(times))
