"""The stages of compilation before code generation. Each is a list of passes, with the reason for each pass's position.

    to core          TO_CORE         operators of mx become primitives
    differentiate    Differentiate   for training: adds the cotangents of inputs, before loops are unrolled
    partition        partition       for training: splits the graph into a forward and a backward graph
    optimise         OPTIMISE        passes for all targets
    lower            LOWER           passes for targets that compile kernels; the last forms regions

Inference skips the second and third stage, which `training.py` combines.
"""

from __future__ import annotations

from collections.abc import Sequence

from .assign_layouts import AssignLayouts
from .crop_windows import CropWindows
from .decompose import Decompose
from .divide_once import DivideOnce
from .divide_reductions import DivideReductions
from .eliminate import EliminateCommonSubexpressions, EliminateDeadCode
from .exchange_pools import ExchangePools
from .expand import Expand
from .fold_batchnorm import FoldBatchNorm
from .fuse import Fuse
from .hoist_sums import HoistSums
from .inline_calls import InlineCalls
from .join_products import JoinProducts
from .join_sums import JoinSums
from .lower_regions import LowerRegions
from .manager import Pass
from .narrow_weights import NarrowWeights
from .recompute_attention import RecomputeAttention
from .repeat_windows import RepeatWindows
from .simplify import Simplify
from .slice_batch import SliceBatch
from .unroll_scan import UnrollScan
from .widen_floats import WidenFloats

TO_CORE: tuple[Pass, ...] = (
    Decompose(),  # all later passes work on core
)


def to_core_with_gradients(wrt: Sequence[int]) -> tuple[Pass, ...]:
    """As TO_CORE, for a graph that is differentiated by the inputs `wrt`."""
    return (
        Decompose(
            own_gradients=True, wrt=tuple(wrt)
        ),  # calls carry operators' own gradients until differentiation is done
        CropWindows(),  # the gradient of unused taps is zero and not computed
    )


JOINT: tuple[Pass, ...] = (
    InlineCalls(),  # differentiation is done; operands that a gradient does not read are not saved
    EliminateDeadCode(),
    Simplify(),  # the cut counts computations, so identities are removed first
    EliminateCommonSubexpressions(),  # gradient and forward pass share equal computations
    EliminateDeadCode(),
    RecomputeAttention(),  # after equal computations are one: it copies some of them
)
"""Between differentiate and partition."""

OPTIMISE: tuple[Pass, ...] = (
    InlineCalls(),  # before the sizes of loops are counted
    EliminateDeadCode(),  # unused hidden outputs: moving statistics, masks, loops for gradients
    NarrowWeights(),  # before loops are unrolled: the numbers do not depend on their length
    HoistSums(),  # gradients of weights leave loops before their steps are counted
    UnrollScan(),  # later passes see the steps of a loop as ordinary nodes
    CropWindows(),  # before constants are folded: slices of constant weights are constants
    Simplify(),  # decompositions leave identities and constant arithmetic
    EliminateCommonSubexpressions(),  # repeated broadcasts and batch-norm scales become one
    JoinProducts(),  # after equal weights are one value
    JoinSums(),  # after loops are unrolled
    EliminateDeadCode(),
)

_TO_LAYOUTS: tuple[Pass, ...] = (
    Expand(),  # not for the reference target: the interpreter evaluates these primitives
    DivideOnce(),  # before fusion, so that the reciprocal is computed once per row
    WidenFloats(),  # before layouts: the blocks are of float32
    ExchangePools(),  # before batch norms are folded: their scale can follow an exchanged convolution
    FoldBatchNorm(),  # before layouts: the weights are still row-major
    Simplify(),  # a folded shift leaves sums of broadcasts
    EliminateCommonSubexpressions(),
    EliminateDeadCode(),
    SliceBatch(),  # before layouts, which the part in the loop chooses for itself
    AssignLayouts(),  # before fusion: a Relayout is a node that can join a region
)

FOR_REFERENCE: tuple[Pass, ...] = (*TO_CORE, *OPTIMISE)


def lower(*to_regions: Pass) -> tuple[Pass, ...]:
    """The passes from an optimised graph to regions; the passes `to_regions` make regions of core with layouts."""
    return (
        *_TO_LAYOUTS,
        LowerRegions(before=(*FOR_REFERENCE, *_TO_LAYOUTS), after=to_regions),  # its copies can join a region
        *to_regions,
    )


LOWER = lower(
    DivideReductions(),  # after layouts: blocks have units for threads
    RepeatWindows(),  # after layouts: in blocks the sums have fast code
    Fuse(),  # last: regions hide their nodes from local rules
)

FOR_KERNELS: tuple[Pass, ...] = (*FOR_REFERENCE, *LOWER)
"""What `Target.passes` is, for targets without passes of their own."""
