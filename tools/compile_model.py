"""`mxforge compile`: compiles a model ahead of time to a folder that runs without the compiler."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ..frontend.compiled import Argument, load_compiled
from ..ir.types import DType, TensorType
from ..runtime.compile import compile_program
from ..runtime.compiled_folder import StoredModel, check_free, write_folder
from ..runtime.freeze import freeze
from ..runtime.host_device import HOST
from .differences import difference
from .errors import UsageError
from .inputs import complete_inputs, types_and_arrays
from .model_files import find_model
from .models import Model, bind, load_model, model_graph, output_arguments, parameter_memory
from .progress import Progress


def run(options: argparse.Namespace) -> int:
    """Compile and write the folder; returns status 0. Nothing is compiled if the folder cannot be written."""
    files = find_model(options.model, options.epoch, options.params)
    if files.compiled is not None:
        raise UsageError(f"{options.model}: is already compiled")
    check_free(options.output, options.force)
    start = time.perf_counter()
    with Progress("reading the model") as progress:
        model = load_model(files, options.weights)
        types, arrays = types_and_arrays(model, options)
        graph = model_graph(model, types)
        target = HOST.target
        progress.step(f"compiling {model.name}")
        program = compile_program(graph, model.options(), target)
        progress.step(f"packing the parameters of {model.name}")
        frozen, memory = freeze(program, parameter_memory(model))
        inputs = tuple(Argument(name, types[name]) for name in model.data_names)
        outputs = tuple(output_arguments(model, program.outputs))
        stored = StoredModel(model.name, inputs, outputs, frozen, memory)
        progress.step(f"writing {options.output}")
        write_folder(options.output, stored, target, replace_existing=options.force)
    seconds = time.perf_counter() - start
    size = len(memory) + sum(map(len, frozen.code))
    what = f"{len(frozen.launches)} launches, {size / 2**20:.1f} MiB"
    print(f"compiled {model.name} to {options.output} in {seconds:.2f} s ({what})")
    if model.weights is not DType.F32:
        _report_rounding(model, types, arrays, options)
    return 0


def _report_rounding(
    model: Model, types: Mapping[str, TensorType], arrays: Mapping[str, np.ndarray], options: argparse.Namespace
) -> None:
    """Print the largest difference between the outputs of the folder and those with float32 weights."""
    inputs = complete_inputs(types, arrays)
    with Progress(f"comparing {model.name} with float32 weights"):
        exact = bind(replace(model, weights=DType.F32), types)(*inputs)
        found = difference(load_compiled(options.output)(*inputs), exact, "float32 weights")
    what = "the given inputs" if arrays else "random inputs"
    print(f"weights in {options.weights}: on {what} the outputs differ by {found:.1e} of their largest element")
