"""The pipeline stages for training: one graph becomes a forward and a backward graph."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.dialects.core.split import Split
from ..ir.graph import Graph
from .differentiate import Differentiate
from .manager import Context, run_passes
from .partition import partition
from .pipeline import JOINT, TO_CORE_WITH_GRADIENTS


def training_graphs(graph: Graph, wrt: Sequence[int], context: Context) -> Split:
    """The forward graph of a graph of mx or core nodes, and the backward graph that computes the cotangents of the
    inputs `wrt`. Both must still pass the stages optimise and lower. GraphError names a node without a gradient.

    If operators draw random numbers, the random key is the last input of the forward graph.
    """
    core = run_passes(TO_CORE_WITH_GRADIENTS, graph, context)
    joint = run_passes((Differentiate(tuple(wrt)), *JOINT), core, context)
    return partition(joint, len(joint.inputs) - len(core.inputs), len(wrt))
