"""`mxforge convert` to StableHLO: as text, or as a portable artifact of a version of StableHLO."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Mapping
from pathlib import Path

from ..codegen.dynamic_batch import dynamic_batch_text
from ..codegen.stablehlo.export import stablehlo_text
from ..codegen.stablehlo.upstream import UpstreamError, portable_artifact
from ..frontend.artifacts import write_atomically
from ..ir.graph import Graph, GraphError
from ..ir.target import REFERENCE
from ..ir.types import TensorType
from ..passes.manager import Context, run_passes
from ..passes.pipeline import FOR_REFERENCE
from .errors import ToolError, UsageError
from .inspect_text import counted
from .models import Model, model_graph

PORTABLE = ".mlirbc"


def convert_to_stablehlo(
    target: Path, model: Model, types: Mapping[str, TensorType], options: argparse.Namespace
) -> int:
    """Write a model for inputs of these types; returns status 0."""
    try:
        text = _prediction(model, types, options.dynamic_batch)
        is_portable = target.suffix.lower() == PORTABLE
        content = portable_artifact(text, options.stablehlo_version) if is_portable else text.encode()
    except (GraphError, UpstreamError) as error:
        raise ToolError(str(error)) from None
    write_atomically(target, content)
    operations = text.count('"stablehlo.') + text.count('"chlo.')
    print(f"wrote {counted(operations, 'operation')} to {target}")
    return 0


def _prediction(model: Model, types: Mapping[str, TensorType], dynamic_batch: bool) -> str:
    """The outputs of the model as a function of its data. Its parameters are constants."""
    graph, results = model_graph(model, types), model.symbol.list_outputs()
    values = {i: model.parameters[v.name] for i, v in enumerate(graph.inputs) if v.name in model.parameters}
    constants = {i: array._memory() for i, array in values.items()}
    if dynamic_batch:
        return dynamic_batch_text(graph, _batched(graph, constants), _lowered, constants, results)
    return stablehlo_text(_lowered(graph), constants, results)


def _batched(graph: Graph, constants: Collection[int]) -> list[int]:
    """The positions of the data. UsageError if its first extents differ."""
    data = [i for i in range(len(graph.inputs)) if i not in constants]
    sizes = {graph.inputs[i].type.shape[:1] for i in data}
    if len(sizes) > 1 or () in sizes:
        shapes = ", ".join(f"{graph.inputs[i].name} {graph.inputs[i].type.shape}" for i in data)
        raise UsageError(f"--dynamic-batch: the first extents of the inputs differ: {shapes}")
    return data


def _lowered(graph: Graph) -> Graph:
    return run_passes(FOR_REFERENCE, graph, Context(REFERENCE))
