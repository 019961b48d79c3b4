"""`mxforge.mlir`: networks as modules of upstream MLIR, for passes of your own, and modules as functions of arrays.

    module = mx.mlir.lower(net, x)            # a torch_mlir.ir.Module in StableHLO
    ...                                       # change it
    run = mx.mlir.compile(module)
    y, = run(x)
    run = mx.mlir.load("network.mlirbc")      # what another tool exported

It needs the wheel torch-mlir: `pip install mxforge[mlir]`.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..codegen.dynamic_batch import dynamic_batch_text
from ..codegen.mlir.modules import Named, compile_module, lowered_module
from ..codegen.mlir.passes import TO_MODULES
from ..codegen.mlir.pipeline import STABLEHLO
from ..codegen.mlir.pipeline import STAGES as _PASSES
from ..codegen.mlir.target import MlirTarget
from ..codegen.stablehlo.export import stablehlo_text
from ..codegen.stablehlo.upstream import UpstreamError
from ..ir.dialects.mx.shapes import PartialShape, is_known
from ..ir.graph import Graph, GraphError
from ..ir.suggestions import suggestion
from ..ir.target import REFERENCE
from ..ir.types import DType, TensorType
from ..passes.manager import Context, run_passes
from ..passes.pipeline import FOR_REFERENCE
from ..runtime.compiled_folder import Argument
from ..runtime.devices import HOST
from ..runtime.stablehlo import StablehloError, read_stablehlo
from .base import MXNetError
from .compiled import CompiledModel
from .gluon import HybridBlock
from .gluon.structure import flatten
from .optimizer import Optimizer
from .symbol import Symbol, var
from .symbol.function import SymbolFunction
from .symbol.network import Network
from .tracebacks import cause_of
from .training_step import TrainingStep

if TYPE_CHECKING:
    from .ndarray import NDArray

STAGES = (STABLEHLO, *_PASSES)
"""The stages of a module, in order."""


def lower(
    net: HybridBlock | Symbol,
    *data: NDArray,
    stage: str = STABLEHLO,
    constants: bool | Mapping[str, NDArray] = False,
    dynamic_batch: bool = False,
    **shapes: Sequence[int] | NDArray,
) -> Any:
    """The module of a network for prediction: a `torch_mlir.ir.Module` in a context of its own.

    `data` are the arguments of a call of a block. Of a symbol the shapes of inputs are given by name, as for
    `simple_bind`, or arrays of the same types; the others are inferred. The module's function is `main`. Its arguments
    are all inputs in the order of `list_inputs`, with their names as attributes `mxforge.name`. Inputs in `constants`
    are constants instead; True means all parameters of the block.

    `stage` is one of `STAGES`. From `buffers` on, `main` takes the memory of its results too, and of its buffers.
    With `dynamic_batch`, which only StableHLO has, the first extents of the data (of a symbol: of the inputs whose
    shapes are given) are `?`, see `mxforge convert --dynamic-batch`. MXNetError names a node that has no form in that
    stage.
    """
    _check_stage(stage, dynamic_batch)
    function, types, known = _of_symbol(net, data, shapes) if isinstance(net, Symbol) else _of_block(net, data, shapes)
    fixed = constants if isinstance(constants, Mapping) else known if constants else {}
    unknown = [name for name in fixed if name not in function.names]
    if unknown:
        raise MXNetError(f"{function.title} has no input {unknown[0]!r}.{suggestion(unknown[0], function.names)}")
    values = {i: fixed[name]._memory() for i, name in enumerate(function.names) if name in fixed}
    results, context = function.symbol.list_outputs(), Context(target(), function.options(training=False))
    with _user_errors():
        graph = function.graph(types)
        if dynamic_batch:
            batched = [name for name in shapes or function.names if name not in fixed and name not in known]
            positions = [function.names.index(name) for name in batched]
            text = dynamic_batch_text(graph, positions, _plain, values, results)
        else:
            text = stablehlo_text(run_passes(TO_MODULES, graph, context), values, results)
        return lowered_module(text, stage, target(), context)


def lower_step(
    net: HybridBlock,
    loss: HybridBlock,
    optimizer: Optimizer,
    *arguments: NDArray,
    stage: str = STABLEHLO,
    dynamic_batch: bool = False,
) -> Any:
    """As `lower`, for a training step: the function (states, data, label) -> (loss, new states).

    `arguments` are those of a call of the block, and then the labels, the second operand of the loss, whose mean over
    the batch is the result. The states are the parameters, the auxiliary states, the states of the optimizer and, if
    its numbers depend on it, the count of updates; attributes `mxforge.name` have their names. A model that draws
    random numbers takes a key as the last argument (four uint32), another one in each step.
    """
    _check_stage(stage, dynamic_batch)
    *data, label = arguments
    function, types, parameters = _of_block(net, data, {})
    named = {**dict(zip(function.names, types, strict=True)), "label": label._type()}
    symbol = loss(function.symbol, var("label")).mean(name="mean_loss")
    trained = [name for name in symbol.list_arguments() if name in parameters]
    step = TrainingStep(symbol, named, trained, optimizer, of_gluon=dict(net.collect_params().items()))
    with _user_errors():
        if dynamic_batch:
            batched = [i for i, v in enumerate(step.graph.inputs) if v.name in step.data]
            text = dynamic_batch_text(step.graph, batched, step.lower, None, step.results)
        else:
            text = stablehlo_text(step.lower(step.graph), None, step.results)
        return lowered_module(text, stage, target(), Context(target()))


def compile(module: Any) -> CompiledModel:
    """The function `main` of a module as a function of arrays, which takes NDArrays or NumPy arrays and returns a list.

    The module can be at any stage of `lower`, which its attribute `mxforge.stage` names; without it, at `stablehlo`.
    It is compiled as it is now, by the remaining stages of the target `mlir`. MXNetError names what cannot be compiled.
    """
    with _user_errors():
        program, inputs, outputs = compile_module(module, target(), Context(target()))
    return CompiledModel(program.name, HOST.load(program), _arguments(inputs), _arguments(outputs), {})


def load(file: str | os.PathLike[str], **shapes: Sequence[int]) -> CompiledModel:
    """A StableHLO file as a function of arrays: assembly, bytecode or a portable artifact, which another tool exported.

    Inputs have the names of the arguments of `main` in the file, else `argument0`, `argument1`, ... . Inputs of
    unknown shape have those that are given by name. The file is compiled in a process of its own, and the program is
    kept in the disk cache. MXNetError names what cannot be compiled.
    """
    path = Path(file)
    try:
        program, inputs, outputs = read_stablehlo(path, shapes)
    except StablehloError as error:
        raise MXNetError(str(error)) from cause_of(error)
    return CompiledModel(path.stem, HOST.load(program), inputs, outputs, {})


def target() -> MlirTarget:
    """The target `mlir` of this machine."""
    return MlirTarget.of(HOST.target_for())


def _check_stage(stage: str, dynamic_batch: bool) -> None:
    if stage not in STAGES:
        raise MXNetError(f"{stage!r} is no stage: use one of {', '.join(STAGES)}.{suggestion(stage, STAGES)}")
    if dynamic_batch and stage != STABLEHLO:
        raise MXNetError(f"the stage {stage!r} has fixed shapes: refine a module in StableHLO to one batch size first")


@contextmanager
def _user_errors() -> Generator[None]:
    """Raise the errors of the compiler as those of the frontend."""
    try:
        yield
    except (GraphError, UpstreamError) as error:
        raise MXNetError(str(error)) from cause_of(error)


def _plain(graph: Graph) -> Graph:
    return run_passes(FOR_REFERENCE, graph, Context(REFERENCE))


def _arguments(listed: Sequence[Named]) -> list[Argument]:
    return [Argument(name, type) for name, type in listed]


_Function = tuple[SymbolFunction, list[TensorType], Mapping[str, "NDArray"]]
"""A function of a symbol, the types of its inputs, and the arrays of its parameters."""


class _Caller(HybridBlock):
    """Calls a block, so that what the `__call__` of its class does is traced too."""

    def __init__(self, net: HybridBlock) -> None:
        super().__init__(prefix="")
        self.net, self._name, self._flags = net, net.name, net._flags

    def hybrid_forward(self, F: Any, *args: Any) -> Any:  # type: ignore[override]
        return self.net(*args)


def _of_block(net: HybridBlock, data: Sequence[NDArray], shapes: Mapping[str, Any]) -> _Function:
    if shapes:
        raise MXNetError(f"lower: a block takes arrays, not shapes by name ({', '.join(shapes)})")
    flat = [x for x in flatten(data, "input")[0] if x is not None]
    function = _Caller(net)._function_for(*data)
    arrays = function.inputs(flat)
    names = function.function.names
    parameters = {n: a for n, a, (is_data, _) in zip(names, arrays, function.slots, strict=True) if not is_data}
    return function.function, [a._type() for a in arrays], parameters


def _of_symbol(net: Symbol, data: Sequence[NDArray], shapes: Mapping[str, Any]) -> _Function:
    if data:
        raise MXNetError("lower: the shapes of a symbol's inputs are given by name")
    known = {n: TensorType(tuple(s), DType.F32) if isinstance(s, Sequence) else s._type() for n, s in shapes.items()}
    function, network = SymbolFunction(net), Network(net._entries)
    unknown = [name for name in known if name not in function.names]
    if unknown:
        raise MXNetError(f"the symbol has no input {unknown[0]!r}.{suggestion(unknown[0], function.names)}")
    inferred = network.infer({n: t.shape for n, t in known.items()}, {n: t.dtype for n, t in known.items()})
    numbers = {node: network.first[node] for node in network.variables}
    types = {node.name: (inferred.shapes.get(i), inferred.dtypes.get(i)) for node, i in numbers.items()}
    return function, [_input_type(name, *types[name]) for name in function.names], {}


def _input_type(name: str, shape: PartialShape, dtype: DType | None) -> TensorType:
    if not is_known(shape):
        raise MXNetError(f"lower: the shape of input {name!r} is not known: pass {name}=(...)")
    return TensorType(shape, dtype or DType.F32)
