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
from .constants import NO_CONSTANTS, Constants, take_constants
from .objects import Objects
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
    symbol = f"m_{structural_hash(target.identity, bytecode)[:24]}"
    with upstream.context(), upstream.ir.Location.unknown():
        copy = upstream.parse(bytecode)
        if stage_of(copy) in _ON_TENSORS:
            upstream.run(f"builtin.module({_ALONE})", copy)
        return compile_parsed(upstream, copy, symbol, target, context)


def compile_parsed(
    upstream: Upstream, module: Any, symbol: str, target: MlirTarget, context: Context
) -> CompiledModule:
    """The program of a module of the current context, which is lowered in place. Its kernel is called `symbol`."""
    inputs, outputs = _interface(upstream, module)
    is_stablehlo = stage_of(module) == STABLEHLO
    constants = take_constants(upstream, main_of(module)) if is_stablehlo else NO_CONSTANTS
    lowered = translate(upstream, module, symbol, target, context)
    objects = Objects(target, context)
    objects.add(lowered.pieces)
    return CompiledModule(_program(symbol, lowered, objects.finished(), inputs, outputs, constants), inputs, outputs)


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
    known = _names(ir, main, "arg_attrs")
    of_results = _names(ir, main, "res_attrs") if stage in _ON_TENSORS else known[len(arguments) :]
    names = names_of_arguments(ir, main, len(arguments))
    return _named(ir, arguments, names, "argument"), _named(ir, results, of_results, "result")


def names_of_arguments(ir: Any, main: Any, count: int) -> list[str]:
    """The names of the first arguments of a function: its attributes, or else locations, as far as they differ."""
    attributes = [*_names(ir, main, "arg_attrs"), *[""] * count]
    locations = [a.location for a in main.regions[0].blocks[0].arguments][:count]
    names = [a or _location_name(ir, location) for a, location in zip(attributes[:count], locations, strict=True)]
    return [n if n and names.count(n) == 1 else f"argument{i}" for i, n in enumerate(names)]


def _location_name(ir: Any, location: Any) -> str:
    name = location.name_str if isinstance(location, ir.NameLoc) else ""
    return "" if "=" in name else name


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
    symbol: str,
    lowered: Lowered,
    code: tuple[bytes, ...],
    inputs: Sequence[Named],
    outputs: Sequence[Named],
    constants: Constants,
) -> Program:
    """A program with one launch."""
    places = [Place(Space.INPUT, i) for i in range(len(inputs))]
    places += [Place(Space.CONSTANT, 0, offset) for offset, _ in constants.places]
    places += [Place(Space.OUTPUT, i) for i in range(len(outputs))]
    accesses = [reading(x.type.nbytes) for x in inputs] + [reading(nbytes) for _, nbytes in constants.places]
    accesses += [writing(x.type.nbytes) for x in outputs]
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
        constants=constants.block,
        code=code,
        scratch_bytes=lowered.workspace,
    )
