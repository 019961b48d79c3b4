"""`mxforge.mlir`: networks as modules of upstream MLIR, for passes of your own, and modules as functions of arrays.

    module = mx.mlir.lower(net, x)            # a torch_mlir.ir.Module in StableHLO
    ...                                       # change it
    run = mx.mlir.compile(module)
    y, = run(x)

It needs the wheel torch-mlir: `pip install mxforge[mlir]`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..codegen.mlir.modules import Named, compile_module, lowered_module
from ..codegen.mlir.passes import TO_MODULES
from ..codegen.mlir.pipeline import STABLEHLO
from ..codegen.mlir.pipeline import STAGES as _PASSES
from ..codegen.mlir.target import MlirTarget
from ..codegen.stablehlo.export import stablehlo_text
from ..codegen.stablehlo.upstream import UpstreamError
from ..ir.dialects.mx.shapes import PartialShape, is_known
from ..ir.graph import GraphError
from ..ir.suggestions import suggestion
from ..ir.types import DType, TensorType
from ..passes.manager import Context, run_passes
from ..runtime.compiled_folder import Argument
from ..runtime.devices import HOST
from .base import MXNetError
from .compiled import CompiledModel
from .gluon.structure import flatten
from .symbol import Symbol
from .symbol.function import SymbolFunction
from .symbol.network import Network
from .tracebacks import cause_of

if TYPE_CHECKING:
    from .gluon import HybridBlock
    from .ndarray import NDArray

STAGES = (STABLEHLO, *_PASSES)
"""The stages of a module, in order."""


def lower(
    net: HybridBlock | Symbol,
    *data: NDArray,
    stage: str = STABLEHLO,
    constants: bool | Mapping[str, NDArray] = False,
    **shapes: Sequence[int] | NDArray,
) -> Any:
    """The module of a network for prediction: a `torch_mlir.ir.Module` in a context of its own.

    `data` are the arguments of a call of a block. Of a symbol the shapes of inputs are given by name, as for
    `simple_bind`, or arrays of the same types; the others are inferred. The module's function is `main`. Its arguments
    are all inputs in the order of `list_inputs`, with their names as attributes `mxforge.name`. Inputs in `constants`
    are constants instead; True means all parameters of the block.

    `stage` is `stablehlo` or one of the later stages of the target `mlir`: `linalg`, `fused`, `scheduled`, `buffers`,
    `loops` and `llvm`. From `buffers` on, `main` takes memory for its results too. MXNetError names a node that has no
    form there.
    """
    if stage not in STAGES:
        raise MXNetError(f"{stage!r} is no stage: use one of {', '.join(STAGES)}.{suggestion(stage, STAGES)}")
    function, types, known = _of_symbol(net, data, shapes) if isinstance(net, Symbol) else _of_block(net, data, shapes)
    fixed = constants if isinstance(constants, Mapping) else known if constants else {}
    unknown = [name for name in fixed if name not in function.names]
    if unknown:
        raise MXNetError(f"{function.title} has no input {unknown[0]!r}.{suggestion(unknown[0], function.names)}")
    chosen = target()
    context = Context(chosen, function.options(training=False))
    try:
        core = run_passes(TO_MODULES, function.graph(types), context)
        values = {i: fixed[name]._memory() for i, name in enumerate(function.names) if name in fixed}
        text = stablehlo_text(core, values, function.symbol.list_outputs())
        return lowered_module(text, stage, chosen, context)
    except (GraphError, UpstreamError) as error:
        raise MXNetError(str(error)) from cause_of(error)


def compile(module: Any) -> CompiledModel:
    """The function `main` of a module as a function of arrays, which takes NDArrays or NumPy arrays and returns a list.

    The module can be at any stage of `lower`, which its attribute `mxforge.stage` names; without it, at `stablehlo`.
    It is compiled as it is now, by the remaining stages of the target `mlir`. MXNetError names what cannot be compiled.
    """
    chosen = target()
    try:
        program, inputs, outputs = compile_module(module, chosen, Context(chosen))
    except UpstreamError as error:
        raise MXNetError(str(error)) from cause_of(error)
    return CompiledModel(program.name, HOST.load(program), _arguments(inputs), _arguments(outputs), {})


def target() -> MlirTarget:
    """The target `mlir` of this machine."""
    return MlirTarget.of(HOST.target_for())


def _arguments(listed: Sequence[Named]) -> list[Argument]:
    return [Argument(name, type) for name, type in listed]


_Function = tuple[SymbolFunction, list[TensorType], Mapping[str, "NDArray"]]
"""A function of a symbol, the types of its inputs, and the arrays of its parameters."""


def _of_block(net: HybridBlock, data: Sequence[NDArray], shapes: Mapping[str, Any]) -> _Function:
    if shapes:
        raise MXNetError(f"lower: a block takes arrays, not shapes by name ({', '.join(shapes)})")
    flat = [x for x in flatten(data, "input")[0] if x is not None]
    function = net._function_for(*data)
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
