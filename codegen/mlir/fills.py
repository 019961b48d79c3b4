"""Fills the pieces of a tensor instead of the tensor, where a parallel loop computes it in pieces."""

from __future__ import annotations

from typing import Any

from ..stablehlo.upstream import Upstream, find_all


def sink_fills(upstream: Upstream, module: Any) -> None:
    """Move each fill of a tensor to the pieces of it that are read in a parallel loop."""
    for fill in find_all(module.operation, ("linalg.fill",)):
        value, empty = fill.operands
        for use in list(fill.results[0].uses):
            user = use.owner.operation
            if user.name == "scf.forall":
                _sink_into(upstream, user, use.operand_number, value, empty)
            elif user.name == "tensor.extract_slice":
                user.operands[0] = empty
                _fill_slice(upstream, user, value)
        if not list(fill.results[0].uses):
            fill.erase()


def _sink_into(upstream: Upstream, loop: Any, position: int, value: Any, empty: Any) -> None:
    """Let a loop that writes into a filled tensor write into an empty one, of which it fills the pieces that it
    reads. The last operands of the loop are the tensors that it writes, its last arguments are those inside."""
    inside = loop.regions[0].blocks[0].arguments
    argument = inside[len(inside) - len(loop.operands) + position]
    uses = [use.owner.operation for use in argument.uses]
    if all(user.name in ("tensor.extract_slice", "tensor.parallel_insert_slice") for user in uses):
        loop.operands[position] = empty
        for user in uses:
            if user.name == "tensor.extract_slice":
                _fill_slice(upstream, user, value)


def _fill_slice(upstream: Upstream, piece: Any, value: Any) -> None:
    """Fill a piece before it is read."""
    with upstream.ir.InsertionPoint.after(piece), piece.location:
        filled = upstream.linalg.fill(value, outs=[piece.results[0]])
    piece.results[0].replace_all_uses_except(filled, filled.owner.operation)
