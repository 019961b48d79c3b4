"""The stages of a module through upstream MLIR.

A module can enter at any stage. It has attributes: `mxforge.stage`, the stage at which it is (`stablehlo` without it);
`mxforge.signature`, the type of its function on tensors; `mxforge.workspace`, the bytes of the last argument, which
`buffers` adds if the function needs memory for its own buffers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ...passes.manager import Context
from ..stablehlo.upstream import Upstream, UpstreamError, walk
from .barriers import add_barriers, remove_barriers
from .destinations import choose_destinations
from .digits import keep_digits
from .legalize import legalize, refuse_rest, use_scalars
from .link import Piece, linked
from .memory import expand_copies, place_buffers
from .operations import CONTRACTIONS
from .schedule import schedule

if TYPE_CHECKING:
    from .target import MlirTarget

STABLEHLO, LINALG, FUSED, SCHEDULED, _BUFFERS, LLVM = "stablehlo", "linalg", "fused", "scheduled", "buffers", "llvm"
_SCRIPTED = "transform.with_named_sequence"
SIGNATURE, STAGE, WORKSPACE = "mxforge.signature", "mxforge.stage", "mxforge.workspace"

STAGES = {
    LINALG: "func.func(stablehlo-legalize-to-linalg),stablehlo-convert-to-signless,canonicalize,cse",
    FUSED: (
        "canonicalize,cse,linalg-fold-unit-extent-dims,linalg-fuse-elementwise-ops,canonicalize,cse,"
        "eliminate-empty-tensors"
    ),
    SCHEDULED: "func.func(canonicalize,cse)",
    _BUFFERS: (
        "one-shot-bufferize{bufferize-function-boundaries=true allow-return-allocs-from-loops=true "
        "function-boundary-type-conversion=identity-layout-map},"
        "func.func(buffer-hoisting,buffer-loop-hoisting),buffer-deallocation-pipeline,canonicalize,cse"
    ),
    "loops": (
        "func.func(convert-linalg-to-loops),scf-forall-to-parallel,convert-scf-to-openmp,canonicalize,cse,"
        "convert-vector-to-scf{full-unroll=true},canonicalize,cse"
    ),
    LLVM: (
        "lower-affine,expand-strided-metadata,lower-affine,arith-expand{include-bf16=true},convert-scf-to-cf,"
        "convert-math-to-llvm,convert-math-to-libm,convert-vector-to-llvm,convert-ub-to-llvm,"
        "finalize-memref-to-llvm,convert-arith-to-llvm,convert-func-to-llvm{use-bare-ptr-memref-call-conv=true},"
        "convert-cf-to-llvm,convert-index-to-llvm,convert-openmp-to-llvm,reconcile-unrealized-casts,canonicalize,cse"
    ),
}
"""The passes of upstream MLIR from one stage to the next. StableHLO is the stage before the first."""


class Lowered(NamedTuple):
    """LLVM IR that defines a launch, and the bytes of its workspace."""

    pieces: list[Piece]
    workspace: int


def lower_module(text: str, symbol: str, target: MlirTarget, context: Context) -> Lowered:
    """The launch `symbol` of a StableHLO module whose function is `main`. Its arguments are the addresses of the
    operands, of the results and of the workspace. UpstreamError names the operation that cannot be compiled."""
    context.dump(STABLEHLO, "mlir", text)
    upstream = Upstream(verifies=context.settings.verify)
    with upstream.context(), upstream.ir.Location.unknown():
        return translate(upstream, upstream.parse(text), symbol, target, context)


def translate(upstream: Upstream, module: Any, symbol: str, target: MlirTarget, context: Context) -> Lowered:
    """As `lower_module`, for a module at any stage."""
    pipeline = context.settings.mlir_pipeline
    if pipeline and stage_of(module) == STABLEHLO:
        upstream.run(f"builtin.module({pipeline})", module)
        _dump(module, "pipeline", context)
    else:
        advance(upstream, module, LLVM, target, context)
    _require_llvm(module)
    text = upstream.llvm.translate_module_to_llvmir(module.operation)
    return Lowered(linked(text, symbol, target), workspace_of(module))


def _require_llvm(module: Any) -> None:
    """UpstreamError for an operation that has no translation, which would end the process."""

    def check(op: Any) -> None:
        name = op.operation.name
        if not name.startswith(("llvm.", "omp.", "builtin.module")):
            raise UpstreamError(f"{name} at {op.location} was not lowered to the LLVM dialect")

    walk(module.operation, check)


def advance(upstream: Upstream, module: Any, until: str, target: MlirTarget, context: Context) -> None:
    """Lower a module, in place, from the stage at which it is to a later one."""
    ir, attributes = upstream.ir, module.operation.attributes
    names = [STABLEHLO, *STAGES]
    if stage_of(module) == STABLEHLO != until:
        attributes[SIGNATURE] = main_of(module).attributes["function_type"]
    for stage in names[names.index(stage_of(module)) + 1 : names.index(until) + 1]:
        if stage == LINALG:
            legalize(upstream, module)
        if stage == SCHEDULED:
            apply_script(upstream, module, schedule(upstream, module, target))
        if stage == _BUFFERS:
            choose_destinations(upstream, main_of(module))
        if stage == FUSED:
            add_barriers(upstream, module, CONTRACTIONS)
        upstream.run(f"builtin.module({STAGES[stage]})", module)
        if stage == FUSED:
            remove_barriers(module)
        if stage == LINALG:
            refuse_rest(upstream, module)
            use_scalars(upstream, module)
            keep_digits(upstream, module)
        if stage == _BUFFERS:
            workspace = place_buffers(upstream, main_of(module))
            expand_copies(upstream, module)
            attributes[WORKSPACE] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), workspace)
        attributes[STAGE] = ir.StringAttr.get(stage)
        _dump(module, stage, context)


def apply_script(upstream: Upstream, module: Any, script: str) -> None:
    """Let the interpreter of the transform dialect run a script on a module."""
    if not script:
        return
    parsed = upstream.ir.Module.parse(script)
    module.operation.attributes[_SCRIPTED] = upstream.ir.UnitAttr.get()
    for op in list(parsed.body.operations):
        module.body.append(op)
    upstream.run("builtin.module(transform-interpreter{disable-expensive-checks=true})", module)
    for op in list(module.body.operations):
        if op.operation.name == "transform.named_sequence":
            op.erase()
    del module.operation.attributes[_SCRIPTED]


def _dump(module: Any, stage: str, context: Context) -> None:
    if context.settings.dump is not None:
        context.dump(stage, "mlir", str(module))


def stage_of(module: Any) -> str:
    """The stage at which a module is."""
    attributes = module.operation.attributes
    return str(attributes[STAGE].value) if STAGE in attributes else STABLEHLO


def main_of(module: Any) -> Any:
    """The function `main`. LookupError if there is none."""
    for op in module.body.operations:
        if "sym_name" in op.attributes and op.attributes["sym_name"].value == "main":
            return op
    raise LookupError("the module has no function main")


def workspace_of(module: Any) -> int:
    """The bytes of the last argument, in which the function has its buffers; 0 if it has no such argument."""
    attributes = module.operation.attributes
    return int(attributes[WORKSPACE].value) if WORKSPACE in attributes else 0
