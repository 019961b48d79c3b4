"""Modules of MLIR as programs: what a user's passes made of a graph, or a module from elsewhere."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, NamedTuple

from ...ir.hashing import structural_hash
from ...ir.places import reading, writing
from ...ir.program import Launch, Place, Program, Space
from ...ir.types import DType, TensorType
from ...passes.manager import Context
from ..stablehlo.export import NAME
from ..stablehlo.upstream import Upstream, UpstreamError
from .objects import compile_pieces
from .pipeline import (
    FUSED,
    LINALG,
    SCHEDULED,
    SIGNATURE,
    STABLEHLO,
    Lowered,
    advance,
    main_of,
    stage_of,
    translate,
    workspace_of,
)
from .target import MlirTarget

_ALONE = "inline,symbol-privatize{exclude=main},symbol-dce"
"""Passes after which `main` is the only function, unless it is recursive."""

_ON_TENSORS = (STABLEHLO, LINALG, FUSED, SCHEDULED)
"""The stages at which functions return tensors."""


class Named(NamedTuple):
    """An argument or a result of a module's function."""

    name: str
    type: TensorType


class CompiledModule(NamedTuple):
    """The program of a module, whose inputs and outputs are the arguments and the results of its function `main`."""

    program: Program
    inputs: tuple[Named, ...]
    outputs: tuple[Named, ...]


def lowered_module(text: str, stage: str, target: MlirTarget, context: Context) -> Any:
    """The module of a text of StableHLO, in a context of its own, lowered to a stage. UpstreamError names the operation
    that cannot be lowered."""
    upstream = Upstream()
    with upstream.context(), upstream.ir.Location.unknown():
        module = upstream.parse(text)
        advance(upstream, module, stage, target, context)
        return module


def compile_module(module: Any, target: MlirTarget, context: Context) -> CompiledModule:
    """The program of a module, which is not changed. UpstreamError if the module is malformed, its function has no
    fixed types, or it cannot be compiled."""
    upstream = Upstream()
    written = io.BytesIO()
    module.operation.write_bytecode(written)
    bytecode = written.getvalue()
    with upstream.context(), upstream.ir.Location.unknown():
        copy = upstream.parse(bytecode)
        if stage_of(copy) in _ON_TENSORS:
            upstream.run(f"builtin.module({_ALONE})", copy)
        inputs, outputs = _interface(upstream, copy)
        symbol = f"m_{structural_hash(target.identity, bytecode)[:24]}"
        lowered = translate(upstream, copy, symbol, target, context)
    code = compile_pieces(lowered.pieces, target, context)
    return CompiledModule(_program(symbol, lowered, code, inputs, outputs), inputs, outputs)


def _interface(upstream: Upstream, module: Any) -> tuple[tuple[Named, ...], tuple[Named, ...]]:
    """The arguments and the results of `main` as it was in StableHLO."""
    ir = upstream.ir
    try:
        main = main_of(module)
    except LookupError as error:
        raise UpstreamError(str(error)) from None
    stage, known = stage_of(module), module.operation.attributes
    if stage != STABLEHLO and SIGNATURE not in known:
        raise UpstreamError(f"the module has no attribute {SIGNATURE}, so the types of its function are not known")
    signature = ir.TypeAttr(main.attributes["function_type"] if stage == STABLEHLO else known[SIGNATURE]).value
    arguments, results = signature.inputs, signature.results
    expected = len(arguments) + (0 if stage in _ON_TENSORS else len(results) + (workspace_of(module) > 0))
    if len(main.regions[0].blocks[0].arguments) != expected:
        raise UpstreamError(f"{SIGNATURE} does not fit the function main, which must take {expected} arguments")
    names = _names(ir, main, "arg_attrs")
    of_results = _names(ir, main, "res_attrs") if stage in _ON_TENSORS else names[len(arguments) :]
    return _named(ir, arguments, names, "argument"), _named(ir, results, of_results, "result")


def _names(ir: Any, function: Any, attribute: str) -> list[str]:
    if attribute not in function.attributes:
        return []
    listed = [ir.DictAttr(a) for a in ir.ArrayAttr(function.attributes[attribute])]
    return [ir.StringAttr(a[NAME]).value if NAME in a else "" for a in listed]


def _named(ir: Any, types: Sequence[Any], names: Sequence[str], kind: str) -> tuple[Named, ...]:
    names = [*names, *[""] * len(types)]
    return tuple([Named(names[i] or f"{kind}{i}", _tensor_type(ir, t)) for i, t in enumerate(types)])


def _tensor_type(ir: Any, type: Any) -> TensorType:
    if isinstance(type, ir.RankedTensorType) and type.has_static_shape:
        try:
            return TensorType(tuple(type.shape), DType(str(type.element_type)))
        except ValueError:
            pass
    raise UpstreamError(f"a function with an argument or a result of type {type} cannot be run: give it a fixed type")


def _program(
    symbol: str, lowered: Lowered, code: tuple[bytes, ...], inputs: Sequence[Named], outputs: Sequence[Named]
) -> Program:
    """A program with one launch."""
    places = [Place(Space.INPUT, i) for i in range(len(inputs))]
    places += [Place(Space.OUTPUT, i) for i in range(len(outputs))]
    accesses = [reading(x.type.nbytes) for x in inputs] + [writing(x.type.nbytes) for x in outputs]
    if lowered.workspace:
        places.append(Place(Space.ARENA))
        accesses.append(writing(lowered.workspace))
    return Program(
        name="main",
        inputs=tuple(x.type for x in inputs),
        outputs=tuple(x.type for x in outputs),
        parameters=frozenset(),
        steps=(Launch(symbol, tuple(places), 1, 1, "module", accesses=tuple(accesses)),),
        prepare=(),
        arena_bytes=lowered.workspace,
        prepared_bytes=0,
        constants=b"",
        code=code,
        scratch_bytes=lowered.workspace,
    )
