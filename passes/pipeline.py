"""The stages that a graph goes through before code is generated, each a list of passes with the reason for each place.

    to core          TO_CORE         operators of mx become primitives
    differentiate    Differentiate   for training: adds the cotangents of inputs, while loops are still loops
    partition        partition       for training: one graph becomes a forward and a backward graph
    optimise         OPTIMISE        what every target does
    lower            LOWER_CPU       what one target does, up to regions that become kernels

Inference skips the second and the third stage, which `training.py` puts together.
"""

from __future__ import annotations

from .assign_layouts import AssignLayouts
from .decompose import Decompose
from .divide_once import DivideOnce
from .eliminate import EliminateCommonSubexpressions, EliminateDeadCode
from .expand import Expand
from .fold_batchnorm import FoldBatchNorm
from .fuse import Fuse
from .inline_calls import InlineCalls
from .manager import Pass
from .simplify import Simplify
from .unroll_scan import UnrollScan

TO_CORE: tuple[Pass, ...] = (
    Decompose(),  # everything below speaks core
)
TO_CORE_WITH_GRADIENTS: tuple[Pass, ...] = (
    Decompose(own_gradients=True),  # an operator's own gradient stays with its call until nothing is differentiated
)

JOINT: tuple[Pass, ...] = (
    InlineCalls(),  # nothing is differentiated any more; operands that a gradient does not read are not kept
    EliminateDeadCode(),
    Simplify(),  # the cut counts what is computed, so identities must go first
    EliminateCommonSubexpressions(),  # what the gradient computes like the forward pass is one value
    EliminateDeadCode(),
)
"""Between differentiate and partition."""

OPTIMISE: tuple[Pass, ...] = (
    InlineCalls(),  # before loops are counted: a call costs what its body costs
    EliminateDeadCode(),  # unused hidden outputs: moving statistics, masks, loops for gradients
    UnrollScan(),  # the steps of a loop are ordinary nodes to everything below
    Simplify(),  # decompositions leave identities and constant arithmetic behind
    EliminateCommonSubexpressions(),  # repeated broadcasts and batch-norm scales become one
    EliminateDeadCode(),
)

LOWER_CPU: tuple[Pass, ...] = (
    Expand(),  # not for the reference target: the interpreter has these primitives itself
    DivideOnce(),  # before fusion, so that the reciprocal is a number of the row
    FoldBatchNorm(),  # before layouts: the weights are still row-major
    Simplify(),  # a folded shift leaves sums of broadcasts
    EliminateCommonSubexpressions(),
    EliminateDeadCode(),
    AssignLayouts(),  # before fusion: a Relayout is a node that may join a region
    Fuse(),  # last: regions hide their nodes from local rules
)

FOR_REFERENCE: tuple[Pass, ...] = (*TO_CORE, *OPTIMISE)
FOR_CPU: tuple[Pass, ...] = (*FOR_REFERENCE, *LOWER_CPU)
