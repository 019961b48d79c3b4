"""The stages of a module through upstream MLIR."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...passes.manager import Context
from ..stablehlo.upstream import Upstream
from .link import linked
from .memory import expand_copies, place_buffers

if TYPE_CHECKING:
    from .target import MlirTarget

_BUFFERS = "buffers"

STAGES = {
    "linalg": (
        "func.func(stablehlo-legalize-to-linalg),stablehlo-convert-to-signless,canonicalize,cse,"
        "linalg-generalize-named-ops,linalg-fuse-elementwise-ops,canonicalize,cse"
    ),
    _BUFFERS: (
        "eliminate-empty-tensors,one-shot-bufferize{bufferize-function-boundaries=true "
        "function-boundary-type-conversion=identity-layout-map},"
        "buffer-results-to-out-params{modify-public-functions=true hoist-static-allocs=true},"
        "drop-equivalent-buffer-results,buffer-deallocation-pipeline,canonicalize,cse"
    ),
    "loops": "func.func(convert-linalg-to-parallel-loops),convert-scf-to-openmp,canonicalize,cse",
    "llvm": (
        "lower-affine,expand-strided-metadata,lower-affine,convert-scf-to-cf,convert-math-to-llvm,convert-math-to-libm,"
        "finalize-memref-to-llvm,convert-arith-to-llvm,convert-func-to-llvm{use-bare-ptr-memref-call-conv=true},"
        "convert-cf-to-llvm,convert-index-to-llvm,convert-openmp-to-llvm,reconcile-unrealized-casts,canonicalize,cse"
    ),
}
"""The passes of upstream MLIR from one stage to the next."""


class Lowered(NamedTuple):
    """LLVM IR that defines a launch, and the bytes of its workspace."""

    text: str
    workspace: int


def lower_module(text: str, symbol: str, target: MlirTarget, context: Context) -> Lowered:
    """The launch `symbol` of a StableHLO module whose function is `main`. Its arguments are the addresses of the
    operands, of the results and of the workspace. UpstreamError names the operation that cannot be compiled."""
    context.dump("stablehlo", "mlir", text)
    upstream = Upstream()
    with upstream.context(), upstream.ir.Location.unknown():
        module = upstream.parse(text)
        workspace = 0
        for stage, passes in _stages(context).items():
            upstream.run(f"builtin.module({passes})", module)
            if stage == _BUFFERS:
                expand_copies(upstream, module)
                workspace = place_buffers(upstream, module.body.operations[0])
            context.dump(stage, "mlir", str(module))
        translated = upstream.llvm.translate_module_to_llvmir(module.operation)
    return Lowered(linked(translated, symbol, target), workspace)


def _stages(context: Context) -> dict[str, str]:
    """The passes by stage: those of the settings, if it has some."""
    pipeline = context.settings.mlir_pipeline
    return {"pipeline": pipeline} if pipeline else STAGES
