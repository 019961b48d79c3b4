"""What reports show of a launch: its kind, and the names of the layers that it computes."""

from __future__ import annotations

from ..ir.dialects.core import Fused, Relayout
from ..ir.graph import Node, Op
from ..ir.program import LAYOUT
from ..passes.kinds import Kind, kind_of
from .compiler import Step as KernelStep


def kind_of_launch(op: Op) -> str:
    """The `kind` of a launch of `op`; see `Launch`."""
    if not isinstance(op, Fused):
        return op.name.rpartition(".")[2]
    moves = [n for n in op.body.nodes if isinstance(n.op, Relayout)]
    return LAYOUT if moves and all(_only_moves(n) for n in op.body.nodes) else op.kind


def _only_moves(node: Node) -> bool:
    """True if a node of a region computes nothing: a relayout, or a constant or broadcast, which layers share."""
    return isinstance(node.op, Relayout) or kind_of(node) is Kind.VIRTUAL


def step_names(step: KernelStep) -> list[str]:
    """The names of the layers that a step computes."""
    return list(dict.fromkeys(name for node in step.nodes for name in layer_names(node)))


def layer_names(node: Node) -> list[str]:
    """The names of the layers that a node computes, in order; for a region that computes none, the names of all its
    nodes."""
    inner = node.op.body.nodes if isinstance(node.op, Fused) else (node,)
    computing = [n for n in inner if not _only_moves(n)]
    return list(dict.fromkeys(n.name for n in computing or inner if n.name))
