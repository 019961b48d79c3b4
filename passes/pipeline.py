"""The passes that a graph goes through before code is generated, in order, with the reason for each place."""

from __future__ import annotations

from .assign_layouts import AssignLayouts
from .decompose import Decompose
from .divide_once import DivideOnce
from .eliminate import EliminateCommonSubexpressions, EliminateDeadCode
from .expand import Expand
from .fold_batchnorm import FoldBatchNorm
from .fuse import Fuse
from .manager import Pass
from .simplify import Simplify
from .unroll_scan import UnrollScan

TO_CORE: tuple[Pass, ...] = (
    Decompose(),  # everything below speaks core
    EliminateDeadCode(),  # hidden outputs that nobody reads: moving statistics, masks, loops for gradients
    UnrollScan(),  # the steps of a loop are ordinary nodes to everything below
    Simplify(),  # decompositions leave identities and constant arithmetic behind
    EliminateCommonSubexpressions(),  # repeated broadcasts and batch-norm scales become one
    EliminateDeadCode(),
)

FOR_CPU: tuple[Pass, ...] = (
    *TO_CORE,
    Expand(),  # after the reference's way ends: the interpreter has these primitives itself
    DivideOnce(),  # before fusion, so that the reciprocal is a number of the row
    FoldBatchNorm(),  # before layouts: the weights are still row-major
    Simplify(),  # a folded shift leaves sums of broadcasts
    EliminateCommonSubexpressions(),
    EliminateDeadCode(),
    AssignLayouts(),  # before fusion: a Relayout is a node that may join a region
    Fuse(),  # last: regions hide their nodes from local rules
)
