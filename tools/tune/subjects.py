"""What is tuned: the program of a model, or the two programs of a step of its training, with the memory they run on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np

from ...codegen.driver import Compilation, compile_steps
from ...codegen.llvm.target import CpuTarget
from ...frontend.dtypes import from_memory, to_memory
from ...ir.graph import Graph
from ...ir.types import DType, TensorType
from ...passes.manager import Context, Options
from ...passes.training import training_graphs
from ...runtime.derivative import backward_graph
from ...runtime.devices import HOST
from ...runtime.storage import Storage, as_numpy
from ..errors import ToolError
from ..inputs import labels_of, random_arrays
from ..models import Model, parameter_memory

Operand = np.ndarray | Storage
_KEY = np.array([1, 2, 3, 0], np.uint32)
"""The random key of all runs: all trials draw the same numbers."""


class Part:
    """A compiled program on operands and results of its own. It runs once, and `outputs` are the results that trials
    compare: the first `compared` ones."""

    def __init__(self, compiled: Compilation, operands: Sequence[Operand], compared: int) -> None:
        self.compiled, self.executable = compiled, HOST.load(compiled.program)
        state, random = compiled.program.state, compiled.program.random
        self.operands = list(operands)
        if random is not None:
            self.operands.insert(random.input, _KEY)
        for i in state:
            self.operands[i] = np.array(self.operands[i])
        self.results = [HOST.allocate_zeroed(t.nbytes) for t in self.executable.outputs]
        self.inputs = [_address(x) for x in self.operands]
        self.targets = [_address(x) for x in self.results]
        self.executable.run(self.inputs, self.targets)
        types = self.executable.outputs[:compared]
        self.outputs = [_values(y, t).copy() for y, t in zip(self.results, types, strict=False)]


def _address(operand: Operand) -> int:
    return operand.ctypes.data if isinstance(operand, np.ndarray) else int(operand.address)


def _values(result: Storage, type: TensorType) -> np.ndarray:
    return from_memory(as_numpy(result, type.dtype.memory, type.shape), type.dtype)


class Subject(ABC):
    """A model with inputs of one shape, which is compiled for `target` and run again and again."""

    def __init__(self, model: Model, types: Mapping[str, TensorType], graph: Graph, target: CpuTarget) -> None:
        self.model, self.graph, self.target = model, graph, target
        arrays = dict(zip(types, random_arrays(types), strict=True)) | labels_of(types)
        memory = parameter_memory(model)
        names = model.symbol.list_inputs()
        self.operands = [
            memory[i] if i in memory else to_memory(arrays[name], types[name].dtype) for i, name in enumerate(names)
        ]

    @abstractmethod
    def parts(self, target: CpuTarget) -> list[Part]:
        """The programs for a target, in the order in which they run."""


class Prediction(Subject):
    """The program of a prediction."""

    def parts(self, target: CpuTarget) -> list[Part]:
        compiled = compile_steps(self.graph, target, Options())
        return [Part(compiled, self.operands, len(compiled.program.results))]


class TrainingStep(Subject):
    """The forward program and the backward program, which computes the gradients of all parameters from random
    gradients of the outputs. All trials of the backward program read the residuals of one forward run."""

    def __init__(self, model: Model, types: Mapping[str, TensorType], graph: Graph, target: CpuTarget) -> None:
        super().__init__(model, types, graph, target)
        self.options = Options(training=True)
        wrt = trained_parameters(model)
        if not wrt:
            raise ToolError(f"{model.name} has no parameters to train: pass their file as --params FILE")
        self.split = split = training_graphs(graph, wrt, Context(target, self.options))
        forward = self._forward(target)
        types_of_results = forward.executable.outputs
        self.residuals = [(forward.operands if s.is_input else forward.results)[s.position] for s in split.residuals]
        self.backward = backward_graph(split, types_of_results)
        cotangents = {str(i): v.type for i, v in enumerate(self.backward.inputs[len(self.residuals) :])}
        arrays = zip(random_arrays(cotangents), cotangents.values(), strict=True)
        self.cotangents = [to_memory(a, t.dtype) for a, t in arrays]

    def _forward(self, target: CpuTarget) -> Part:
        compiled = compile_steps(self.split.forward, target, self.options)
        return Part(compiled, self.operands, self.graph.num_results)

    def parts(self, target: CpuTarget) -> list[Part]:
        compiled = compile_steps(self.backward, target, self.options)
        backward = Part(compiled, [*self.residuals, *self.cotangents], len(compiled.program.outputs))
        return [self._forward(target), backward]


def trained_parameters(model: Model) -> list[int]:
    """The positions of the parameters that have gradients."""
    fixed, known = set(model.symbol.list_auxiliary_states()), model.types
    names = enumerate(model.symbol.list_inputs())
    return [i for i, name in names if name in known and name not in fixed and known[name].dtype in _FLOATS]


_FLOATS = (DType.F16, DType.BF16, DType.F32, DType.F64)
