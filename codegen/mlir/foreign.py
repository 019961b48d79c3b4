"""Prepares StableHLO modules from elsewhere: one function of fixed shapes. Refuses what cannot be compiled, and names
the operation and its place."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ...ir.hashing import structural_hash
from ...ir.suggestions import suggestion
from ...ir.types import DType
from ...passes.manager import Context
from ..stablehlo.upstream import Upstream, UpstreamError, place_of, walk
from .legalize.calls import CALLS
from .legalize.rules import move_channels_last
from .modules import CompiledModule, compile_parsed, names_of_arguments
from .pipeline import STABLEHLO, STAGE, main_of
from .target import MlirTarget

_DIALECTS = ("builtin", "chlo", "func", "stablehlo")
"""Dialects of files. Others can read and write any memory, or call functions by name."""

_ALONE = (
    "func.func(stablehlo-legalize-composite-to-call),inline,symbol-privatize{exclude=main},symbol-dce,"
    "func.func(chlo-legalize-to-stablehlo)"
)
"""Passes after which `main` is the only function, unless it is recursive."""

_STATIC = (
    "stablehlo-refine-shapes,func.func(shape-legalize-to-stablehlo),stablehlo-refine-shapes,"
    "func.func(stablehlo-canonicalize-dynamism,stablehlo-check-shape-assertions)"
)
"""Passes that give all values the shapes that follow from those of the arguments."""

_DEVICES = "several devices would have to exchange data"
_HOST = "it exchanges data with the program that runs the module"
_REFUSED = {
    **dict.fromkeys(
        (
            "all_gather",
            "all_reduce",
            "all_to_all",
            "collective_broadcast",
            "collective_permute",
            "cross-replica-sum",
            "partition_id",
            "reduce_scatter",
            "replica_id",
        ),
        _DEVICES,
    ),
    **dict.fromkeys(("infeed", "outfeed", "recv", "send"), _HOST),
    **dict.fromkeys(("after_all", "create_token"), "tokens are not supported"),
    **dict.fromkeys(("get_tuple_element", "tuple"), "tuples are not supported"),
}
"""Reasons by operation of StableHLO."""

Shapes = Mapping[str, Sequence[int]]


_BYTECODE = b"ML\xefR"
_ARTIFACT = re.compile(rb"StableHLO_v(\d+\.\d+\.\d+)")
"""How bytecode of MLIR begins, and the version of StableHLO that portable artifacts have near their beginning."""


def read_module(upstream: Upstream, data: bytes) -> Any:
    """The module in a file: assembly, bytecode or a portable artifact. UpstreamError if it is malformed."""
    if not data.startswith(_BYTECODE):
        try:
            return upstream.parse(data.decode())
        except UnicodeDecodeError:
            raise UpstreamError("the file is neither text nor bytecode of MLIR") from None
    written = _ARTIFACT.search(data[:64])
    if written is None:
        return upstream.parse(data)
    try:
        module = upstream.stablehlo.deserialize_portable_artifact(upstream.ir.Context.current, data)
    except (upstream.ir.MLIRError, ValueError):
        release, known = written[1].decode(), str(upstream.stablehlo.get_current_version())
        raise UpstreamError(
            f"the artifact of StableHLO {release} is damaged, or newer than {known}, which is read"
        ) from None
    upstream.without_chlo(module)
    return module


def prepare(upstream: Upstream, module: Any, shapes: Shapes) -> None:
    """Make `main` the only function, with the shapes of arguments that are given, by name, and channels last.
    UpstreamError names the first operation that is refused."""
    _check_dialects(upstream, module)
    main = _name_main(upstream, module)
    upstream.run(f"builtin.module({_ALONE})", module)
    _set_shapes(upstream, module, main, shapes)
    walk(module.operation, lambda op: _check(upstream, op))
    move_channels_last(upstream, module)


class ModuleFile:
    """A module from a file, in a context of its own. UpstreamError if it is malformed."""

    def __init__(self, data: bytes) -> None:
        self._upstream, self._data = Upstream(), data
        self._context = self._upstream.context()
        self._context.allow_unregistered_dialects = True  # of attributes, which other tools leave in modules
        with self._context, self._upstream.ir.Location.unknown():
            self._module = read_module(self._upstream, data)

    def compile(self, shapes: Shapes, target: MlirTarget, context: Context) -> CompiledModule:
        """The program, once. Arguments of unknown shape have those that are given."""
        symbol = f"m_{structural_hash(target.identity, self._data, str(sorted(shapes.items())))[:24]}"
        with self._context, self._upstream.ir.Location.unknown():
            context.dump(STABLEHLO, "mlir", str(self._module))
            prepare(self._upstream, self._module, shapes)
            return compile_parsed(self._upstream, self._module, symbol, target, context)


def _check_dialects(upstream: Upstream, module: Any) -> None:
    if STAGE in module.operation.attributes:
        raise UpstreamError("the module is not in StableHLO but in a later stage, which mx.mlir.compile takes")

    def check(op: Any) -> None:
        name = op.operation.name
        if name.partition(".")[0] not in _DIALECTS or "." not in name:
            raise UpstreamError(f"{name} is not an operation of StableHLO{place_of(upstream.ir, op.location)}")
        if name == "func.func" and not op.regions[0].blocks:
            raise UpstreamError(f"the function {op.name.value} has no body{place_of(upstream.ir, op.location)}")

    for op in module.body.operations:
        walk(op, check)


def _name_main(upstream: Upstream, module: Any) -> Any:
    """The function that is run: `main`, or the only public one."""
    try:
        return main_of(module)
    except LookupError:
        functions = [op for op in module.body.operations if op.operation.name == "func.func"]
        public = [op for op in functions if _is_public(op)]
        if len(public) != 1:
            listed = ", ".join(op.name.value for op in functions) or "no function"
            raise UpstreamError(f"the module has no function main; it has {listed}") from None
        public[0].attributes["sym_name"] = upstream.ir.StringAttr.get("main")
        return public[0]


def _is_public(function: Any) -> bool:
    attributes = function.attributes
    return "sym_visibility" not in attributes or attributes["sym_visibility"].value == "public"


def _set_shapes(upstream: Upstream, module: Any, main: Any, shapes: Shapes) -> None:
    """Give arguments of unknown shape those shapes. UpstreamError for a shape that is missing or does not fit."""
    ir = upstream.ir
    signature = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
    types = list(signature.inputs)
    if not signature.results:
        raise UpstreamError("main has no results")
    names = names_of_arguments(ir, main, len(types))
    for name in shapes:
        if name not in names:
            raise UpstreamError(f"main has no argument {name!r}; it has {', '.join(names)}.{suggestion(name, names)}")
    chosen = [_chosen(ir, n, t, shapes) for n, t in zip(names, types, strict=True)]
    if chosen != types:
        listed = ",".join(map(str, chosen))
        upstream.run(f"builtin.module(stablehlo-refine-arguments{{types={listed}}},{_STATIC})", module)


def _chosen(ir: Any, name: str, type: Any, shapes: Shapes) -> Any:
    """The type of an argument with the shape that is given for it, or that it has."""
    if not isinstance(type, ir.RankedTensorType):
        raise UpstreamError(f"the argument {name!r} has the type {type}: it must be a tensor with a rank")
    extents = [None if type.is_dynamic_dim(k) else n for k, n in enumerate(type.shape)]
    if name in shapes:
        shape = list(shapes[name])
        if len(shape) != len(extents) or any(n not in (None, m) for n, m in zip(extents, shape, strict=True)):
            raise UpstreamError(f"the shape {tuple(shape)} does not fit the argument {name!r}, which has type {type}")
        return ir.RankedTensorType.get(shape, type.element_type, type.encoding)
    if None in extents:
        listed = ",".join("D" if n is None else str(n) for n in extents)
        raise UpstreamError(f"the argument {name!r} has the type {type}: pass its shape, {name}={listed}")
    return type


def _check(upstream: Upstream, op: Any) -> None:
    """UpstreamError for an operation that cannot be compiled."""
    values = [*op.results, *(a for region in op.regions for block in region for a in block.arguments)]
    reasons = (_refusal(op), *(_problem(upstream.ir, v.type) for v in values))
    reason = next((r for r in reasons if r), "")
    if reason:
        raise UpstreamError(f"{op.operation.name}{place_of(upstream.ir, op.location)} cannot run: {reason}")


def _refusal(op: Any) -> str:
    """Why an operation is refused; "" if it is not."""
    name = op.operation.name
    if name == "stablehlo.custom_call" and op.attributes["call_target_name"].value not in CALLS:
        return f"functions are not called by name, as {op.attributes['call_target_name'].value!r}"
    if name in ("func.call", "stablehlo.composite"):
        return "a function calls itself"
    return _REFUSED.get(name.partition(".")[2], "") if name.startswith("stablehlo.") else ""


def _problem(ir: Any, type: Any) -> str:
    """Why values of a type are refused; "" if they are not."""
    if not isinstance(type, ir.RankedTensorType):
        return f"{type} is not a tensor with a rank"
    if not type.has_static_shape:
        return f"the shape of {type} does not follow from those of the arguments"
    if str(type.element_type) not in {d.value for d in DType}:
        return f"{type} has elements of a type that is not supported"
    return ""
