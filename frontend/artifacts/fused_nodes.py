"""Replaces nodes that MXNet's oneDNN backend fused by the nodes that they were fused from.

A fused node holds these nodes as its only subgraph. Its inputs are the values of the subgraph's variables, in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from .errors import ArtifactError
from .symbol_graph import NodeEntry, SymbolFile, SymbolNode

_FUSED = "_sg_mkldnn_"


def is_quantized(node: SymbolNode) -> bool:
    """True for an operator of MXNet's quantisation, and for a fused node that computes in int8."""
    operators = ("_contrib_quantize", "_contrib_dequantize", "_contrib_requantize")
    fused = _is_fused(node) and node.attrs.get("quantized", "").lower() in ("true", "1")
    return fused or node.op.startswith(operators)


def expand_fused(file: SymbolFile) -> SymbolFile:
    """The graph without fused nodes, in subgraphs of other nodes too.

    The last node of each takes the fused node's name, so the names of outputs are unchanged. The nodes are not in
    MXNet's order. ArtifactError names a fused node whose subgraph does not fit it.
    """
    if not any(node.subgraphs or _is_fused(node) for node in file.nodes):
        return file
    expansion = _Expansion()
    heads = expansion.add(file, None)
    return replace(file, nodes=tuple(expansion.nodes), heads=heads)


def _is_fused(node: SymbolNode) -> bool:
    return node.op.startswith(_FUSED)


class _Expansion:
    def __init__(self) -> None:
        self.nodes: list[SymbolNode] = []

    def add(self, file: SymbolFile, values: Iterator[NodeEntry] | None) -> tuple[NodeEntry, ...]:
        """Append the nodes of a graph and return its heads. `values` replace its variables, unless it is None."""
        fused: dict[int, Sequence[NodeEntry]] = {}  # the outputs of what is not one node of the result
        numbers: list[int] = []

        def moved(entries: Sequence[NodeEntry]) -> tuple[NodeEntry, ...]:
            return tuple(
                _output(file.nodes[e.node_id], fused[e.node_id], e)
                if e.node_id in fused
                else e._replace(node_id=numbers[e.node_id])
                for e in entries
            )

        for i, node in enumerate(file.nodes):
            if node.is_variable and values is not None:
                fused[i] = (next(values),)
            elif _is_fused(node):
                fused[i] = self._add_fused(node, moved(node.inputs))
            else:
                self.nodes.append(
                    replace(
                        node,
                        inputs=moved(node.inputs),
                        control_deps=tuple(numbers[d] for d in node.control_deps),
                        subgraphs=tuple(map(expand_fused, node.subgraphs)),
                    )
                )
            numbers.append(fused[i][0].node_id if i in fused else len(self.nodes) - 1)
        return moved(file.heads)

    def _add_fused(self, node: SymbolNode, inputs: Sequence[NodeEntry]) -> Sequence[NodeEntry]:
        """Append what `node` was fused from and return its outputs."""
        what = f"node {node.name!r} ({node.op})"
        if len(node.subgraphs) != 1 or not node.subgraphs[0].heads:
            raise ArtifactError(f"{what} does not hold the subgraph that it was fused from")
        body = node.subgraphs[0]
        if len(body.arg_nodes) != len(inputs):
            raise ArtifactError(f"{what} has {len(inputs)} inputs, and its subgraph {len(body.arg_nodes)} variables")
        first = len(self.nodes)
        heads = self.add(body, iter(inputs))
        last = heads[0].node_id
        if len(heads) == 1 and last >= first:
            self.nodes[last] = replace(self.nodes[last], name=node.name)
        return heads


def _output(node: SymbolNode, outputs: Sequence[NodeEntry], entry: NodeEntry) -> NodeEntry:
    if entry.index >= len(outputs):
        raise ArtifactError(f"node {node.name!r} ({node.op}) has no output {entry.index}")
    return outputs[entry.index]
