"""One step of training as one function: the loss, its gradients and the updates of all parameters.

    step = TrainingStep(symbol, types, parameters, optimizer)
    core = step.lower(step.graph)         # (states, data, random key) -> (losses, new states)

The states are the parameters, the auxiliary states, the states of the optimizer and, if the optimizer's numbers depend
on it, the count of updates. `mxforge convert --training` writes such a step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

from ..ir.dialects.core import CoreBuilder
from ..ir.dialects.mx.optimizer_update import WeightUpdate, update_graph
from ..ir.graph import Graph, Value
from ..ir.target import REFERENCE
from ..ir.types import DType, TensorType
from ..passes.decompose import Decompose
from ..passes.differentiate import Differentiate
from ..passes.manager import Context, Options, run_passes
from ..passes.pipeline import JOINT, OPTIMISE
from ..passes.training import lowered_for_gradients
from .base import MXNetError
from .gluon import loss as losses
from .ndarray import zeros
from .optimizer import Optimizer
from .optimizer.base import state_arrays
from .optimizer.fused import can_fuse
from .optimizer.graph_numbers import GraphNumber
from .symbol import Symbol, var
from .symbol.to_graph import symbol_to_graph

COUNT = "update_count"
"""The name of the argument that counts updates, beginning with 0."""


LOSSES = {
    "l1": losses.L1Loss,
    "l2": losses.L2Loss,
    "huber": losses.HuberLoss,
    "hinge": losses.HingeLoss,
    "squared_hinge": losses.SquaredHingeLoss,
    "logistic": losses.LogisticLoss,
    "softmax_cross_entropy": losses.SoftmaxCrossEntropyLoss,
    "sigmoid_binary_cross_entropy": losses.SigmoidBinaryCrossEntropyLoss,
    "kl_div": losses.KLDivLoss,
    "poisson_nll": losses.PoissonNLLLoss,
}
"""Losses of Gluon with two operands, by name."""


def with_loss(symbol: Symbol, name: str, label: str) -> Symbol:
    """The mean of one of `LOSSES` over the batch. Its operands are the output of the symbol and a new input."""
    if len(symbol) != 1:
        raise MXNetError(f"a loss takes a symbol with one output, not {', '.join(symbol.list_outputs())}")
    return LOSSES[name](prefix=f"{name}_")(symbol, var(label)).mean(name="mean_loss")


class _Update:
    """The update of one parameter: the rule of the optimizer, and the types of the states by name."""

    def __init__(self, optimizer: Optimizer, index: int, name: str, type: TensorType) -> None:
        arrays = state_arrays(optimizer.create_state(index, zeros(type.shape, dtype=type.dtype.numpy)))
        self.optimizer, self.index, self.name, self.type = optimizer, index, name, type
        self.operator = WeightUpdate(rule=optimizer._rule_of(index, arrays), mixed=False)
        names = [f"{name}_{state}" for state in self.operator.declared.states]
        self.states = {state: array._type() for state, array in zip(names, arrays, strict=True)}

    def numbers(self, count: object) -> dict[str, object]:
        """The numbers of the update with this count; some are values of a graph if the count is one."""
        rates = self.optimizer._get_lr(self.index), self.optimizer._get_wd(self.index)
        return dict(self.optimizer._numbers(*rates, count))  # pyright: ignore[reportArgumentType]

    def apply(
        self, b: CoreBuilder, weight: Value, grad: Value, states: Sequence[Value], numbers: Mapping[str, object]
    ) -> list[Value]:
        """The new weight and the new states."""
        operands = [weight, b.cast(grad, weight.type.dtype), *states]
        graph = update_graph(self.operator, [v.type for v in operands])
        core = run_passes((Decompose(),), graph, _context())
        if core.random is not None:
            raise MXNetError(f"{type(self.optimizer).__name__} draws random numbers, which a step cannot do")
        values = [_scalar(b, numbers[name]) for name in self.operator.declared.numbers]
        new = dict(zip(core.updates, b.inline(core, [*operands, *values]), strict=True))
        return [new.get(i, v) for i, v in enumerate(operands) if i != 1]


class TrainingStep:
    """One step of training a symbol of losses, whose gradients are summed over the batch.

    `types` are the types of all inputs. The inputs `parameters` are updated by the optimizer: gradients are multiplied
    by its `rescale_grad`, and divided by the batch size if `mean`. The batch is the first extent of the first input
    that is neither a parameter nor an auxiliary state. Factors of rates and decays are those of the parameters
    `of_gluon`, as Trainer takes them, or else of the symbol, as Module does. MXNetError for an optimizer whose updates
    are not a function of the gradient, the states and the count of updates.
    """

    def __init__(
        self,
        symbol: Symbol,
        types: Mapping[str, TensorType],
        parameters: Sequence[str],
        optimizer: Optimizer,
        *,
        mean: bool = False,
        of_gluon: Mapping[str, Any] | None = None,
    ) -> None:
        optimizer = _own_copy(optimizer)
        if of_gluon is not None:
            optimizer.param_dict = {i: of_gluon[name] for i, name in enumerate(parameters)}
        else:
            optimizer.idx2name = dict(enumerate(parameters))
            optimizer.sym_info = (symbol.attr_dict(), symbol.list_arguments())
            optimizer.set_lr_mult({})
            optimizer.set_wd_mult({})
        self.mean = mean
        self.parameters, self.auxiliary = list(parameters), symbol.list_auxiliary_states()
        self.graph = symbol_to_graph(symbol, types, name=symbol.name or "step")
        self.updates = [_Update(optimizer, i, name, types[name]) for i, name in enumerate(self.parameters)]
        data = [n for n in symbol.list_inputs() if n not in {*self.parameters, *self.auxiliary}]
        self.data = sorted(data, key=lambda name: name.endswith("label"))
        probe = CoreBuilder()
        count = GraphNumber(probe, probe.input(TensorType((), DType.F64)))
        self.counts = any(isinstance(n, GraphNumber) for u in self.updates for n in u.numbers(count).values())
        states = [state for u in self.updates for state in u.states]
        self.states = [*self.parameters, *self.auxiliary, *states, *([COUNT] if self.counts else ())]
        self.results = [*symbol.list_outputs(), *self.states]

    def lower(self, graph: Graph) -> Graph:
        """The step as a graph of core. `graph` computes the losses: `self.graph`, or the same for another batch size.

        The inputs are the states, the data with labels last, and the random key if the symbol draws random numbers. The
        outputs are the losses and the new states, `results`. GraphError names a node without a gradient.
        """
        positions = {v.name: i for i, v in enumerate(graph.inputs)}
        wrt = [positions[name] for name in self.parameters]
        core = lowered_for_gradients(graph, wrt, _context())
        joint = run_passes((Differentiate(tuple(wrt)), *JOINT), core, _context())
        results, auxiliary = joint.num_results - len(wrt), len(joint.updates)
        b = CoreBuilder(graph.name)
        values = self._inputs(b, core)
        ones = [_full(b, 1, v.type) for v in joint.inputs[len(core.inputs) :]]
        outputs = b.inline(joint, [*(values[v.name] for v in core.inputs), *ones])
        gradients = outputs[results : joint.num_results]
        replaced = [core.inputs[i].name for i in joint.updates]
        new = {**values, **dict(zip(replaced, outputs[len(outputs) - auxiliary :], strict=True))}
        new.update(self._updated(b, values, gradients))
        built = b.build([*outputs[:results], *(new[name] for name in self.states)])
        return run_passes(OPTIMISE, built, _context())

    def _inputs(self, b: CoreBuilder, core: Graph) -> dict[str, Value]:
        """New inputs by name, in order."""
        types = {v.name: v.type for v in core.inputs}
        types.update((name, type) for update in self.updates for name, type in update.states.items())
        types[COUNT] = TensorType((), DType.I32)
        key = [] if core.random is None else [core.inputs[core.random.input].name]
        return {name: b.input(types[name], name) for name in (*self.states, *self.data, *key)}

    def _updated(self, b: CoreBuilder, values: Mapping[str, Value], gradients: Sequence[Value]) -> dict[str, Value]:
        """The new parameters, states of the optimizer, and count by name."""
        new: dict[str, Value] = {}
        count: object = 1
        if self.counts:
            new[COUNT] = b.add(values[COUNT], b.constant(1, DType.I32))
            count = GraphNumber(b, b.cast(new[COUNT], DType.F64))
        for update, gradient in zip(self.updates, gradients, strict=True):
            numbers = update.numbers(count)
            if self.mean:
                batch = b.constant(values[self.data[0]].type.shape[0], DType.F64)
                numbers["rescale_grad"] = numbers["rescale_grad"] / GraphNumber(b, batch)  # pyright: ignore
            names = [update.name, *update.states]
            operands = [values[name] for name in names]
            new.update(zip(names, update.apply(b, operands[0], gradient, operands[1:], numbers), strict=True))
        return new


def _own_copy(optimizer: Optimizer) -> Optimizer:
    """A copy of an optimizer that can be part of a step."""
    name = type(optimizer).__name__
    if not can_fuse(optimizer) or not optimizer._shares_numbers or optimizer.multi_precision:
        raise MXNetError(f"{name} cannot be part of an exported step")
    if optimizer.lr_scheduler is not None:
        raise MXNetError(f"the learning rate of an exported step is constant, but {name} has an lr_scheduler")
    return copy(optimizer)


def _context() -> Context:
    return Context(REFERENCE, Options(training=True, verifies=False))


def _full(b: CoreBuilder, value: float, type: TensorType) -> Value:
    return b.broadcast(b.constant(value, type.dtype), type.shape, ())


def _scalar(b: CoreBuilder, number: object) -> Value:
    """A number of a rule."""
    if isinstance(number, GraphNumber):
        return b.cast(number.value, DType.F32)
    return b.constant(number, DType.F32)
