"""The stages of a module through upstream MLIR.

A module can enter at any stage. It has attributes: `mxforge.stage`, the stage at which it is (`stablehlo` without it);
`mxforge.signature`, the type of its function on tensors; `mxforge.workspace`, the bytes of the last argument, which
`buffers` adds if the function needs memory for its own buffers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ...passes.manager import Context
from ..stablehlo.upstream import Upstream, UpstreamError, walk
from .barriers import add_barriers, remove_barriers
from .destinations import choose_destinations
from .digits import keep_digits, widen_bfloats
from .legalize.rules import legalize, refuse_rest, use_scalars
from .link import Piece, linked
from .memory import expand_copies, place_buffers
from .operations import CONTRACTIONS
from .schedule import schedule, schedule_moves
from .windows import cut_windows

if TYPE_CHECKING:
    from .target import MlirTarget

STABLEHLO, LINALG, FUSED, SCHEDULED, BUFFERS, LLVM = "stablehlo", "linalg", "fused", "scheduled", "buffers", "llvm"
SIGNATURE, STAGE, WORKSPACE = "mxforge.signature", "mxforge.stage", "mxforge.workspace"

_Step = Callable[[Upstream, Any, "MlirTarget"], None]


class Stage(NamedTuple):
    """The passes of upstream MLIR that lower a module to a stage, and steps of this package before and after them."""

    passes: str
    before: _Step | None = None
    after: _Step | None = None


def _legalize(upstream: Upstream, module: Any, target: MlirTarget) -> None:
    legalize(upstream, module)


def _leave_loops(upstream: Upstream, module: Any, target: MlirTarget) -> None:
    refuse_rest(upstream, module)
    use_scalars(upstream, module)
    keep_digits(upstream, module)


def _widen(upstream: Upstream, module: Any, target: MlirTarget) -> None:
    widen_bfloats(upstream, module)


def _protect(upstream: Upstream, module: Any, target: MlirTarget) -> None:
    cut_windows(upstream, module)
    add_barriers(upstream, module, CONTRACTIONS)


def _unprotect(upstream: Upstream, module: Any, target: MlirTarget) -> None:
    remove_barriers(module)


def _schedule(upstream: Upstream, module: Any, target: MlirTarget) -> None:
    schedule(upstream, module, target)


def _choose_destinations(upstream: Upstream, module: Any, target: MlirTarget) -> None:
    choose_destinations(upstream, main_of(module))


def _place_buffers(upstream: Upstream, module: Any, target: MlirTarget) -> None:
    workspace, ir = place_buffers(upstream, main_of(module)), upstream.ir
    expand_copies(upstream, module)
    schedule_moves(upstream, module, target)
    module.operation.attributes[WORKSPACE] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), workspace)


STAGES = {
    LINALG: Stage(
        "func.func(stablehlo-legalize-to-linalg),stablehlo-convert-to-signless,canonicalize,cse",
        before=_legalize,
        after=_leave_loops,
    ),
    FUSED: Stage(
        "canonicalize,cse,linalg-fold-unit-extent-dims,linalg-fuse-elementwise-ops,canonicalize,cse,"
        "eliminate-empty-tensors",
        before=_protect,
        after=_unprotect,
    ),
    SCHEDULED: Stage("func.func(canonicalize,cse)", before=_schedule),
    BUFFERS: Stage(
        "one-shot-bufferize{bufferize-function-boundaries=true allow-return-allocs-from-loops=true "
        "function-boundary-type-conversion=identity-layout-map},"
        "func.func(buffer-hoisting,buffer-loop-hoisting),buffer-deallocation-pipeline,canonicalize,cse",
        before=_choose_destinations,
        after=_place_buffers,
    ),
    "loops": Stage(
        "func.func(convert-linalg-to-loops),scf-forall-to-parallel,convert-scf-to-openmp,canonicalize,cse,"
        "convert-vector-to-scf{full-unroll=true},canonicalize,cse"
    ),
    LLVM: Stage(
        "lower-affine,expand-strided-metadata,lower-affine,arith-expand{include-bf16=true},convert-scf-to-cf,"
        "convert-math-to-llvm,convert-math-to-libm,convert-vector-to-llvm,convert-ub-to-llvm,"
        "finalize-memref-to-llvm,convert-arith-to-llvm,convert-func-to-llvm{use-bare-ptr-memref-call-conv=true},"
        "convert-cf-to-llvm,convert-index-to-llvm,convert-openmp-to-llvm,reconcile-unrealized-casts,canonicalize,cse",
        before=_widen,
    ),
}
"""How a module is lowered from one stage to the next. StableHLO is the stage before the first."""


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
    for name in names[names.index(stage_of(module)) + 1 : names.index(until) + 1]:
        stage = STAGES[name]
        if stage.before is not None:
            stage.before(upstream, module, target)
        upstream.run(f"builtin.module({stage.passes})", module)
        if stage.after is not None:
            stage.after(upstream, module, target)
        attributes[STAGE] = ir.StringAttr.get(name)
        _dump(module, name, context)


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
