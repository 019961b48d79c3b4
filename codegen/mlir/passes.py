"""The passes from a graph of mx or core to the calls that modules are made of."""

from __future__ import annotations

from ...passes.assign_layouts import AssignLayouts
from ...passes.eliminate import EliminateCommonSubexpressions, EliminateDeadCode
from ...passes.fold_batchnorm import FoldBatchNorm
from ...passes.lower_regions import LowerRegions
from ...passes.manager import Pass
from ...passes.pipeline import FOR_REFERENCE
from ...passes.simplify import Simplify
from .channels_last import ChannelsLast, RowMajorOutputs
from .outline import Outline
from .products import PlainProducts

TO_MODULES: tuple[Pass, ...] = (
    *FOR_REFERENCE,
    FoldBatchNorm(),
    Simplify(),  # a folded shift leaves sums of broadcasts
    EliminateCommonSubexpressions(),
    RowMajorOutputs(),
    AssignLayouts(),  # chooses where channels are last
    ChannelsLast(),
    PlainProducts(),
    EliminateCommonSubexpressions(),  # of transposes
    EliminateDeadCode(),
)
"""To a graph that is one module."""

FOR_MODULES: tuple[Pass, ...] = (*TO_MODULES, LowerRegions(before=TO_MODULES, after=(Outline(),)), Outline())
"""What `Target.passes` is for the target `mlir`."""
