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
from .contexts import context_of, described_target, gpu_of, is_gpu, machine_of, refuse_of_cpus
from .differences import difference
from .errors import UsageError
from .fixed_models import store_module
from .inputs import complete_inputs, types_and_arrays
from .inspect_text import counted
from .library.tables import ModelFile, library_model
from .library.targets import other_target, requirements_of
from .library.write import check_free as check_library_folder
from .library.write import write_library
from .model_files import ModelFiles, find_model
from .models import Model, bind, data_types, load_model, model_graph, output_arguments, parameter_memory, use_tuning
from .parameters import require_parameters
from .progress import Progress
from .schemas.common import Gpu, Machine
from .schemas.machine import CompileReport, Rounding
from .schemas.print_json import as_json
from .schemas.record import real
from .shape_grammar import Declared
from .shape_ranges import best_of, is_fixed

FOLDER = "folder"
"""The value of `--emit` for a folder that mxforge reads."""


def run(options: argparse.Namespace) -> int:
    """Compile and write the folder; returns status 0. Nothing is compiled if the folder cannot be written."""
    files = find_model(options.model, options.epoch, options.params)
    if files.compiled is not None:
        raise UsageError(f"{options.model}: is already compiled")
    if str(options.output) == "-":
        raise UsageError("-: -o is the name of a folder, which cannot be written to stdout")
    check_output = check_free if options.emit == FOLDER else check_library_folder
    check_output(options.output, options.force)
    use_tuning(files)
    compiled_for = _target(options)
    predict_files = _predict_files(files, options)
    variants = _variants(options)
    if files.module is not None:
        _check_module(compiled_for, variants)
    start = time.perf_counter()
    rounding = None
    with Progress("reading the model") as progress:
        if files.module is not None:
            progress.step(f"compiling {files.name}")
            stored = store_module(files, options)
        elif variants:
            stored, rounding = _stored_shapes(files, variants, options, compiled_for, progress)
        else:
            stored, rounding = _stored_symbol(files, options, compiled_for, progress)
        progress.step(f"writing {options.output}")
        library_bytes = _write(stored, compiled_for, options, predict_files)
    programs = _programs(stored)
    report = CompileReport(
        model=stored.name,
        folder=str(options.output),
        target=compiled_for.described(),
        seconds=time.perf_counter() - start,
        launches=programs.launches,
        bytes=library_bytes or len(stored.memory) + programs.bytes,
        programs=programs.programs,
        shapes=programs.shapes,
    )
    if rounding is not None:
        report = replace(report, rounding=rounding())
    print(as_json("compile", report) if options.json else "\n".join(_lines(report)))
    return 0


class _CompiledFor(NamedTuple):
    """The target of a GPU, or of a CPU whose code this machine cannot run; of this machine if there is none."""

    target: Target | None = None
    is_gpu: bool = False

    @property
    def gpu(self) -> str:
        """The architecture of the GPU; "" for CPUs."""
        return gpu_of(self.target).gpu if self.is_gpu else ""

    def described(self) -> Machine | Gpu:
        """The target in reports."""
        return machine_of(HOST) if self.target is None else described_target(self.target)

    def requirements(self) -> dict[str, Any]:
        """The machine that the output is for."""
        if self.target is None:
            return HOST.requirements()
        return dict(vars(gpu_of(self.target))) if self.is_gpu else requirements_of(self.target)


def _target(options: argparse.Namespace) -> _CompiledFor:
    """What `--target`, `--cpu` and `--ctx` name. UsageError for options that exclude each other."""
    gpu = _gpu_target(options)
    if gpu is not None:
        if options.emit != FOLDER:
            raise UsageError(f"--emit {options.emit} is for programs on the CPU: omit --ctx and --target {gpu.name}")
        return _CompiledFor(gpu, is_gpu=True)
    if options.emit != FOLDER:
        return _CompiledFor(other_target(options.cross or options.cpu))
    if options.cross:
        raise UsageError(f"--target {options.cross} is for libraries: pass --emit shared, object or c")
    return _CompiledFor()


def _check_module(compiled_for: _CompiledFor, variants: Mapping[str, Declared]) -> None:
    """UsageError for what a StableHLO file cannot be compiled to."""
    if compiled_for.target is not None:
        raise UsageError("a StableHLO file is compiled for this CPU: omit --ctx and --target")
    if variants:
        raise UsageError("a StableHLO file is compiled for one shape: pass one --input-shape without ranges")


def _predict_files(files: ModelFiles, options: argparse.Namespace) -> tuple[ModelFile, ...]:
    """What programs pass to MXNet's C predict API; nothing without `--predict-api`. UsageError for other models."""
    if not options.predict_api:
        return ()
    if options.emit == FOLDER:
        raise UsageError("--predict-api is for libraries: pass --emit shared, object or c")
    if files.module is not None or files.onnx is not None:
        raise UsageError("--predict-api is for models of MXNet's files, which programs pass to MXPredCreate")
    parameters = files.params
    return (
        ModelFile(files.symbol.name, files.symbol.read_bytes()),
        ModelFile("" if parameters is None else parameters.name, parameters and parameters.read_bytes()),
    )


def _write(
    stored: StoredModel | StoredShapes,
    compiled_for: _CompiledFor,
    options: argparse.Namespace,
    predict_files: tuple[ModelFile, ...],
) -> int:
    """Write the folder, or the library. Returns the bytes of a library, 0 for a folder."""
    machine = compiled_for.requirements()
    if options.emit != FOLDER:
        return write_library(options.output, library_model(stored, predict_files), machine, options.emit)
    if isinstance(stored, StoredShapes):
        write_shapes(options.output, stored, machine, replace_existing=options.force)
    else:
        write_folder(options.output, stored, machine, replace_existing=options.force)
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


def _stored_symbol(
    files: ModelFiles, options: argparse.Namespace, compiled_for: _CompiledFor, progress: Progress
) -> tuple[StoredModel, Callable[[], Rounding] | None]:
    """A model of MXNet's files as the folder stores it, and what measures the rounding of its weights."""
    model = load_model(files, options.weights)
    types, arrays = types_and_arrays(model, options)
    graph = model_graph(model, types)
    progress.step(f"compiling {model.name}")
    inputs = tuple(Argument(name, types[name]) for name in model.data_names)
    outputs = tuple(output_arguments(model, graph.output_types()))
    target = compiled_for.target
    if target is None:
        program = compile_program(graph, model.options(), HOST)
        progress.step(f"packing the parameters of {model.name}")
        stored = StoredModel(model.name, inputs, outputs, *freeze(program, parameter_memory(model)))
    else:
        program = compile_for(graph, model.options(), target)
        bound, memory = lay_out_parameters(parameter_memory(model))
        unpacked = not compiled_for.is_gpu
        stored = StoredModel(model.name, inputs, outputs, program, memory, compiled_for.gpu, bound, unpacked)
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
    compiled_for: _CompiledFor,
    progress: Progress,
) -> tuple[StoredShapes, Callable[[], Rounding] | None]:
    """`_stored_symbol` for several shapes. Rounding is that of the best shapes of the first variant."""
    model = load_model(files, options.weights)
    for shapes in variants.values():
        require_parameters(model, shapes, options.allow_missing)
    unpacked = options.unpacked or (compiled_for.target is not None and not compiled_for.is_gpu)
    stored = compile_shapes(model, variants, compiled_for.target, compiled_for.gpu, progress, unpacked=unpacked)
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
