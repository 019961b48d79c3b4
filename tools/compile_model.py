"""`mxforge compile`: compiles a model ahead of time to a folder that runs without the compiler."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..codegen.target import Target
from ..frontend.compiled import Argument
from ..frontend.context import device_of
from ..ir.program_table import tables_size
from ..ir.types import DType, TensorType
from ..runtime.compile import compile_for, compile_program
from ..runtime.compiled_folder import StoredModel, check_free, write_folder
from ..runtime.compiled_shapes import StoredShapes, write_shapes
from ..runtime.devices import HOST, known_targets
from ..runtime.freeze import freeze, lay_out_parameters
from .compile_shapes import compile_shapes
from .contexts import context_of, gpu_of, is_gpu, machine_of, refuse_of_cpus
from .differences import difference
from .errors import UsageError
from .fixed_models import store_module
from .inputs import complete_inputs, types_and_arrays
from .inspect_text import counted
from .model_files import ModelFiles, find_model
from .models import Model, bind, data_types, load_model, model_graph, output_arguments, parameter_memory, use_tuning
from .parameters import require_parameters
from .progress import Progress
from .schemas.machine import CompileReport, Rounding
from .schemas.print_json import as_json
from .schemas.record import real
from .shape_grammar import Declared
from .shape_ranges import best_of, is_fixed


def run(options: argparse.Namespace) -> int:
    """Compile and write the folder; returns status 0. Nothing is compiled if the folder cannot be written."""
    files = find_model(options.model, options.epoch, options.params)
    if files.compiled is not None:
        raise UsageError(f"{options.model}: is already compiled")
    if str(options.output) == "-":
        raise UsageError("-: -o is the name of a folder, which cannot be written to stdout")
    check_free(options.output, options.force)
    use_tuning(files)
    gpu = _gpu_target(options)
    if gpu is not None and files.module is not None:
        raise UsageError("a StableHLO file is compiled for the CPU: omit --ctx and --target")
    variants = _variants(options)
    if files.module is not None and variants:
        raise UsageError("a StableHLO file is compiled for one shape: pass one --input-shape without ranges")
    start = time.perf_counter()
    rounding = None
    with Progress("reading the model") as progress:
        if files.module is not None:
            progress.step(f"compiling {files.name}")
            stored = store_module(files, options)
        elif variants:
            stored, rounding = _stored_shapes(files, variants, options, gpu, progress)
        else:
            stored, rounding = _stored_symbol(files, options, gpu, progress)
        progress.step(f"writing {options.output}")
        if isinstance(stored, StoredShapes):
            write_shapes(options.output, stored, _requirements(gpu), replace_existing=options.force)
        else:
            write_folder(options.output, stored, _requirements(gpu), replace_existing=options.force)
    programs = _programs(stored)
    report = CompileReport(
        model=stored.name,
        folder=str(options.output),
        target=machine_of(HOST) if gpu is None else gpu_of(gpu),
        seconds=time.perf_counter() - start,
        launches=programs.launches,
        bytes=len(stored.memory) + programs.bytes,
        programs=programs.programs,
        shapes=programs.shapes,
    )
    if rounding is not None:
        report = replace(report, rounding=rounding())
    print(as_json("compile", report) if options.json else "\n".join(_lines(report)))
    return 0


def _gpu_target(options: argparse.Namespace) -> Target | None:
    """The target of the GPU that `--target` or `--ctx` names; None for the CPU. UsageError for options of CPUs."""
    context = context_of(options)
    if options.gpu is None:
        return device_of(context).target if is_gpu(options) else None
    if is_gpu(options):
        raise UsageError(f"--ctx and --target {options.gpu} both name a GPU: omit one")
    refuse_of_cpus(options, f"--target {options.gpu}")
    return known_targets("gpu")[options.gpu]


def _requirements(gpu: Target | None) -> dict[str, Any]:
    """The machine that the folder is for."""
    return HOST.requirements() if gpu is None else dict(vars(gpu_of(gpu)))


def _stored_symbol(
    files: ModelFiles, options: argparse.Namespace, gpu: Target | None, progress: Progress
) -> tuple[StoredModel, Callable[[], Rounding] | None]:
    """A model of MXNet's files as the folder stores it, and what measures the rounding of its weights."""
    model = load_model(files, options.weights)
    types, arrays = types_and_arrays(model, options)
    graph = model_graph(model, types)
    progress.step(f"compiling {model.name}")
    inputs = tuple(Argument(name, types[name]) for name in model.data_names)
    outputs = tuple(output_arguments(model, graph.output_types()))
    if gpu is None:
        program = compile_program(graph, model.options(), HOST)
        progress.step(f"packing the parameters of {model.name}")
        stored = StoredModel(model.name, inputs, outputs, *freeze(program, parameter_memory(model)))
    else:
        program = compile_for(graph, model.options(), gpu)
        bound, memory = lay_out_parameters(parameter_memory(model))
        stored = StoredModel(model.name, inputs, outputs, program, memory, gpu_of(gpu).gpu, bound)
    if model.weights is DType.F32:
        return stored, None
    return stored, lambda: _rounding(model, types, arrays, options)


class _Programs(NamedTuple):
    """The launches of the first program, the bytes of all, and how many programs serve how many shapes."""

    launches: int
    bytes: int
    programs: int = 1
    shapes: int = 1


def _programs(stored: StoredModel | StoredShapes) -> _Programs:
    if isinstance(stored, StoredModel):
        return _Programs(len(stored.program.computations), sum(map(len, stored.program.code)))
    first = stored.tables[0].program(0)
    return _Programs(len(first.computations), tables_size(stored.tables), len(stored.tables), len(stored.rows))


def _variants(options: argparse.Namespace) -> dict[str, Declared]:
    """The shapes of each variant; empty for one shape without a name. UsageError for files that give shapes too."""
    variants: dict[str, Declared] = {name: {**options.shapes, **shapes} for name, shapes in options.variants.items()}
    if not variants and not is_fixed(options.shapes):
        variants = {"": options.shapes}
    if options.unpacked and not variants:
        raise UsageError("--unpacked is for folders of several shapes: pass a range or variants")
    if variants and options.inputs:
        raise UsageError("--input gives one shape of each input: omit it with ranges and variants")
    return variants


def _stored_shapes(
    files: ModelFiles,
    variants: Mapping[str, Declared],
    options: argparse.Namespace,
    gpu: Target | None,
    progress: Progress,
) -> tuple[StoredShapes, Callable[[], Rounding] | None]:
    """`_stored_symbol` for several shapes. Rounding is that of the best shapes of the first variant."""
    model = load_model(files, options.weights)
    for shapes in variants.values():
        require_parameters(model, shapes, options.allow_missing)
    gpu_name = "" if gpu is None else gpu_of(gpu).gpu
    stored = compile_shapes(model, variants, gpu, gpu_name, progress, unpacked=options.unpacked)
    if model.weights is DType.F32:
        return stored, None
    types = data_types(model, best_of(next(iter(variants.values()))))
    return stored, lambda: _rounding(model, types, {}, options)


def _lines(report: CompileReport) -> Iterator[str]:
    """The report as text."""
    what = f"{counted(report.launches, 'launch', 'launches')}, {report.bytes / 2**20:.1f} MiB"
    if report.shapes > 1:
        what = f"{report.shapes} shapes, {counted(report.programs, 'program', 'programs')}, {what}"
    yield f"compiled {report.model} to {report.folder} in {report.seconds:.2f} s ({what})"
    rounding = report.rounding
    if rounding is not None:
        what = "the given inputs" if rounding.inputs == "given" else "random inputs"
        far = f"{float(rounding.difference):.1e} of their largest element"
        yield f"weights in {rounding.weights}: on {what} the outputs differ by {far}"


def _rounding(
    model: Model, types: Mapping[str, TensorType], arrays: Mapping[str, np.ndarray], options: argparse.Namespace
) -> Rounding:
    """The largest difference between the outputs of the folder and those with float32 weights, relative to the largest
    element."""
    inputs = complete_inputs(types, arrays)
    with Progress(f"comparing {model.name} with float32 weights"):
        exact = bind(replace(model, weights=DType.F32), types)(*inputs)
        relative = difference(bind(model, types)(*inputs), exact, "float32 weights")
    return Rounding(weights=options.weights, inputs="given" if arrays else "random", difference=real(relative))
