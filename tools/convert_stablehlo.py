"""`mxforge convert` to StableHLO: as text, or as a portable artifact of a version of StableHLO."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..codegen.dynamic_batch import dynamic_batch_text
from ..codegen.stablehlo.export import stablehlo_text
from ..codegen.stablehlo.upstream import UpstreamError, portable_artifact
from ..frontend.artifacts import write_atomically
from ..frontend.base import MXNetError
from ..frontend.optimizer import Optimizer, create
from ..frontend.training_step import TrainingStep, with_loss
from ..ir.graph import Graph, GraphError
from ..ir.suggestions import suggestion
from ..ir.target import REFERENCE
from ..passes.manager import Context, run_passes
from ..passes.pipeline import FOR_REFERENCE
from .errors import ToolError, UsageError
from .inspect_text import counted
from .models import Model, batch_size, data_types, model_graph
from .parameters import parameter_names, require_parameters

PORTABLE = ".mlirbc"


def convert_to_stablehlo(target: Path, model: Model, options: argparse.Namespace) -> int:
    """Write a model, or a training step of it; returns status 0."""
    try:
        text = (_training_step if options.training else _prediction)(model, options)
        is_portable = target.suffix.lower() == PORTABLE
        content = portable_artifact(text, options.stablehlo_version) if is_portable else text.encode()
    except (GraphError, MXNetError, UpstreamError) as error:
        raise ToolError(str(error)) from None
    write_atomically(target, content)
    operations = text.count('"stablehlo.') + text.count('"chlo.')
    print(f"wrote {counted(operations, 'operation')} to {target}")
    return 0


def _prediction(model: Model, options: argparse.Namespace) -> str:
    """The outputs of the model as a function of its data. Its parameters are constants."""
    require_parameters(model, options.shapes, options.allow_missing)
    graph, results = model_graph(model, data_types(model, options.shapes)), model.symbol.list_outputs()
    values = {i: model.parameters[v.name] for i, v in enumerate(graph.inputs) if v.name in model.parameters}
    constants = {i: array._memory() for i, array in values.items()}
    if options.dynamic_batch:
        data = [i for i in range(len(graph.inputs)) if i not in constants]
        return dynamic_batch_text(graph, _batched(graph, data), _lowered, constants, results)
    return stablehlo_text(_lowered(graph), constants, results)


def _training_step(model: Model, options: argparse.Namespace) -> str:
    """The losses and the new states as a function of the states and the data; see `TrainingStep`."""
    known = parameter_names(model)
    if options.loss is not None:
        model = replace(model, symbol=with_loss(model.symbol, options.loss, "label"))
    types = {**model.types, **data_types(model, options.shapes)}
    trained = [n for n in model.symbol.list_arguments() if n in model.parameters or n in known]
    trained = [name for name in trained if name not in options.shapes]
    step = TrainingStep(model.symbol, types, trained, _optimizer(options), mean=options.loss is None)
    if not options.dynamic_batch:
        return stablehlo_text(step.lower(step.graph), None, step.results)
    data = [i for i, v in enumerate(step.graph.inputs) if v.name in step.data]
    return dynamic_batch_text(step.graph, _batched(step.graph, data), step.lower, None, step.results)


def _optimizer(options: argparse.Namespace) -> Optimizer:
    """UsageError for an unknown optimizer, and for numbers that it does not take."""
    name, numbers = options.optimizer or "sgd", dict(options.optimizer_params or {})
    if options.learning_rate is not None:
        numbers["learning_rate"] = options.learning_rate
    if name.lower() not in Optimizer.opt_registry:
        raise UsageError(f"--optimizer: {name!r} is unknown.{suggestion(name, Optimizer.opt_registry)}")
    try:
        return create(name, **numbers)
    except TypeError as error:
        raise UsageError(f"--optimizer-params: {error}") from None


def _batched(graph: Graph, data: Sequence[int]) -> Sequence[int]:
    """The positions of the data. UsageError if its first extents differ."""
    batch_size({graph.inputs[i].name: graph.inputs[i].type for i in data})
    return data


def _lowered(graph: Graph) -> Graph:
    return run_passes(FOR_REFERENCE, graph, Context(REFERENCE))
