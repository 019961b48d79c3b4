"""What is tuned: the program of a model, or the two programs of a step of its training, with the memory they run on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np

from ...codegen.driver import Compilation
from ...frontend.dtypes import from_memory, to_memory
from ...ir.graph import Graph
from ...ir.types import DType, TensorType
from ...passes.manager import Context, Options
from ...passes.slice_batch import rows_of_slices
from ...passes.training import backward_graph, training_graphs
from ...runtime.storage import Storage
from ..errors import ToolError
from ..inputs import labels_of, random_arrays
from ..models import Model, parameter_memory
from .machines import Machine, Operand
from .spaces import Schedule

Schedules = Mapping[str, Schedule]
"""Schedules by the keys of kernels."""
_KEY = np.array([1, 2, 3, 0], np.uint32)
"""The random key of all runs: all trials draw the same numbers."""


class Part:
    """A compiled program on operands and results of its own. It runs once, and `outputs` are the results that trials
    compare: the first `compared` ones."""

    def __init__(self, machine: Machine, compiled: Compilation, operands: Sequence[Operand], compared: int) -> None:
        self.compiled, self.executable = compiled, machine.load(compiled.program)
        state, random = compiled.program.state, compiled.program.random
        self.operands = [machine.placed(x) for x in operands]
        if random is not None:
            self.operands.insert(random.input, machine.placed(_KEY))
        for i in state:
            self.operands[i] = machine.copied(self.operands[i])
        self.results = [machine.device.allocate_zeroed(t.nbytes) for t in self.executable.outputs]
        self.inputs = [machine.address(x) for x in self.operands]
        self.targets = [machine.address(x) for x in self.results]
        self.executable.run(self.inputs, self.targets)
        types = self.executable.outputs[:compared]
        self.outputs = [_values(machine, y, t) for y, t in zip(self.results, types, strict=False)]


def _values(machine: Machine, result: Storage, type: TensorType) -> np.ndarray:
    return np.array(from_memory(machine.values(result, type), type.dtype))


class Subject(ABC):
    """A model with inputs of one shape, which is compiled for `machine` and run again and again. `slice_rows` are the
    rows of a slice if layers run on slices of the batch."""

    slice_rows: int | None = None

    def __init__(self, model: Model, types: Mapping[str, TensorType], graph: Graph, machine: Machine) -> None:
        self.model, self.graph, self.machine = model, graph, machine
        arrays = dict(zip(types, random_arrays(types), strict=True)) | labels_of(types)
        memory = parameter_memory(model)
        names = model.symbol.list_inputs()
        self.operands = [
            memory[i] if i in memory else to_memory(arrays[name], types[name].dtype) for i, name in enumerate(names)
        ]

    @abstractmethod
    def parts(self, schedules: Schedules) -> list[Part]:
        """The programs with these schedules, in the order in which they run."""


class Prediction(Subject):
    """The program of a prediction."""

    def parts(self, schedules: Schedules) -> list[Part]:
        compiled = self.machine.compile(self.graph, Options(), schedules)
        self.slice_rows = rows_of_slices(compiled.graph)
        return [Part(self.machine, compiled, self.operands, len(compiled.program.results))]


class TrainingStep(Subject):
    """The forward program and the backward program, which computes the gradients of all parameters from random
    gradients of the outputs. All trials of the backward program read the residuals of one forward run."""

    def __init__(self, model: Model, types: Mapping[str, TensorType], graph: Graph, machine: Machine) -> None:
        super().__init__(model, types, graph, machine)
        self.options = machine.options(Options(training=True))
        wrt = trained_parameters(model)
        if not wrt:
            raise ToolError(f"{model.name} has no parameters to train: pass their file as --params FILE")
        self.split = split = training_graphs(graph, wrt, Context(machine.untuned, self.options))
        forward = self._forward({})
        types_of_results = forward.executable.outputs
        self.residuals = [(forward.operands if s.is_input else forward.results)[s.position] for s in split.residuals]
        self.backward = backward_graph(split, types_of_results)
        cotangents = {str(i): v.type for i, v in enumerate(self.backward.inputs[len(self.residuals) :])}
        arrays = zip(random_arrays(cotangents), cotangents.values(), strict=True)
        self.cotangents = [to_memory(a, t.dtype) for a, t in arrays]

    def _forward(self, schedules: Schedules) -> Part:
        compiled = self.machine.compile(self.split.forward, self.options, schedules)
        return Part(self.machine, compiled, self.operands, self.graph.num_results)

    def parts(self, schedules: Schedules) -> list[Part]:
        compiled = self.machine.compile(self.backward, self.options, schedules)
        backward = Part(self.machine, compiled, [*self.residuals, *self.cotangents], len(compiled.program.outputs))
        return [self._forward(schedules), backward]


def trained_parameters(model: Model) -> list[int]:
    """The positions of the parameters that have gradients."""
    fixed, known = set(model.symbol.list_auxiliary_states()), model.types
    names = enumerate(model.symbol.list_inputs())
    return [i for i, name in names if name in known and name not in fixed and known[name].dtype in _FLOATS]


_FLOATS = (DType.F16, DType.BF16, DType.F32, DType.F64)
