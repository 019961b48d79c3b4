"""A model that can be measured: its executable, the work of its launches, and its operands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ...codegen.driver import Compilation, compile_steps
from ...codegen.llvm.target import CpuTarget
from ...frontend.compiled import CompiledModel
from ...frontend.context import Context, device_of
from ...ir.lazy_dataclass import dataclass
from ...ir.types import TensorType
from ...passes.slice_batch import rows_of_slices
from ...runtime.compile import kernel_store
from ...runtime.devices import HOST
from ...runtime.host.executable import Executable
from ...runtime.host.probes import TimedRuns
from ...runtime.loaded_program import LoadedProgram
from ..inputs import random_inputs
from ..models import Model, bind_executable, model_graph
from ..parameters import parameter_names
from .gpu import GpuTimedRuns
from .work import Region, regions

WARMUP = 2


@dataclass(frozen=True)
class Source:
    """A model that can run, and what is known about its launches. `operators` are those of its layers by name, and
    `missing` is the number of its parameters that are inputs because they have no values. `slice_rows` are the rows of
    a slice if layers run on slices of the batch."""

    model: CompiledModel
    executable: LoadedProgram[Any]
    regions: Sequence[Region]
    operators: Mapping[str, str]
    missing: int = 0
    slice_rows: int | None = None


def symbol_source(model: Model, types: Mapping[str, TensorType], target: CpuTarget) -> Source:
    """The model compiled for data of these types and for this target."""
    return _source(model, types, compile_steps(model_graph(model, types), target, model.options()), None)


def gpu_source(model: Model, types: Mapping[str, TensorType], context: Context) -> Source:
    """The model compiled for data of these types and for a GPU."""
    device = device_of(context)
    kernels = kernel_store(device)
    compiled = compile_steps(model_graph(model, types), device.target, model.options(), kernels)
    return _source(model, types, compiled, context)


def _source(model: Model, types: Mapping[str, TensorType], compiled: Compilation, context: Context | None) -> Source:
    executable = (HOST if context is None else device_of(context)).load(compiled.program)
    operators = {node.name: node.op for node in model.network.nodes if not node.is_variable}
    missing = sum(name not in model.parameters for name in parameter_names(model))
    bound, rows = bind_executable(model, types, executable, context), rows_of_slices(compiled.graph)
    return Source(bound, executable, regions(compiled), operators, missing, rows)


def fixed_source(model: CompiledModel) -> Source:
    """A model that has a program and no graph, so without the work of its launches."""
    assert isinstance(model.executable, LoadedProgram)
    return Source(model, model.executable, (), {})


@contextmanager
def timed_runs(model: CompiledModel) -> Iterator[TimedRuns | GpuTimedRuns]:
    """Runs of the model on random numbers, after a few that are not measured."""
    data = random_inputs({a.name: (a.type.shape, a.type.dtype.memory) for a in model.inputs})
    with model.operands(list(data.values())) as (inputs, outputs):
        if isinstance(model.executable, Executable):
            timed = TimedRuns(model.executable, inputs, outputs)
        else:
            timed = GpuTimedRuns(model.executable, inputs, outputs)
        for _ in range(WARMUP):
            timed.plain()
            timed.timed()
        yield timed
