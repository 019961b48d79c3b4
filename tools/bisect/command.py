"""`mxforge bisect`: finds the pass or the kernel that changes the numbers of a model or of a script."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from ...frontend.dtypes import from_memory, to_memory
from ...ir.graph import Graph
from ...ir.types import TensorType
from ...runtime.compile import kernel_store
from ...runtime.devices import HOST
from ..errors import ToolError, UsageError
from ..inputs import complete_inputs, types_and_arrays
from ..model_files import find_model
from ..models import Model, load_model, model_graph, parameter_memory
from ..progress import Progress
from ..schemas.print_json import as_json
from ..tune.subjects import trained_parameters
from .bisection import Bisection
from .compare import Array
from .findings import Findings


def run(options: argparse.Namespace) -> int:
    """Report what was compared and the first fault; returns status 1 if there is one, else 0."""
    if options.model.endswith(".py"):
        from .script import run_script

        return run_script(options)
    if options.program or options.runs:
        raise UsageError("arguments of a program and --runs are only for a script, whose name ends with .py")
    files = find_model(options.model, options.epoch, options.params)
    if not files.is_symbol:
        raise UsageError(f"{options.model}: {files.kind} has no graph: bisect the model it was made from")
    with Progress(f"reading {files.name}") as progress:
        model = load_model(files, options.weights)
        types, arrays = types_and_arrays(model, options)
        progress.step(f"bisecting {model.name}")
        findings = _bisect(model, types, arrays, options)
    print(as_json("bisect", findings.report()) if options.json else findings.as_text())
    return 0 if findings.fault is None else 1


def _bisect(
    model: Model, types: Mapping[str, TensorType], arrays: Mapping[str, Array], options: argparse.Namespace
) -> Findings:
    graph = model_graph(model, types)
    inputs = _inputs(model, graph, types, arrays)
    bisection = Bisection(HOST.target, options.tolerance, kernel_store(HOST))
    if not options.training:
        return bisection.prediction(graph, model.options(), inputs)
    wrt = trained_parameters(model)
    if not wrt:
        raise ToolError(f"{model.name} has no parameters to train: pass their file as --params FILE")
    return bisection.training(graph, wrt, model.function().options(training=True), inputs)


def _inputs(model: Model, graph: Graph, types: Mapping[str, TensorType], arrays: Mapping[str, Array]) -> list[Array]:
    """The values of all inputs of the graph: random numbers for data that has no file."""
    data = dict(zip(types, complete_inputs(types, arrays), strict=True))
    memory, names = parameter_memory(model), model.symbol.list_inputs()
    arrays_in_memory = [memory[i] if i in memory else to_memory(data[n], types[n].dtype) for i, n in enumerate(names)]
    return [from_memory(a, v.type.dtype) for a, v in zip(arrays_in_memory, graph.inputs, strict=True)]
