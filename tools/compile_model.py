"""`mxforge compile`: compiles a model ahead of time to a folder that runs without the compiler."""

from __future__ import annotations

import argparse
import time

from ..frontend.compiled import Argument
from ..passes.manager import Options
from ..runtime.compile import compile_program
from ..runtime.compiled_folder import StoredModel, check_free, write_folder
from ..runtime.freeze import freeze
from ..runtime.host import host_target
from .errors import UsageError
from .model_files import find_model
from .models import data_types, load_model, model_graph, output_arguments, parameter_memory
from .parameters import require_parameters
from .progress import Progress


def run(options: argparse.Namespace) -> int:
    """Compile and write the folder; returns status 0. Nothing is compiled if the folder cannot be written."""
    files = find_model(options.model, options.epoch, options.params)
    if files.compiled is not None:
        raise UsageError(f"{options.model}: is already compiled")
    check_free(options.output, options.force)
    start = time.perf_counter()
    with Progress("reading the model") as progress:
        model = load_model(files)
        require_parameters(model, options.shapes, options.allow_missing)
        types = data_types(model, options.shapes)
        graph = model_graph(model, types)
        target = host_target()
        progress.step(f"compiling {model.name}")
        program = compile_program(graph, Options(), target)
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
    return 0
