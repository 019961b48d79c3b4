"""The graph of a symbol file: nodes, edges, and the order in which MXNet writes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ...ir.lazy_dataclass import dataclass
from .errors import ArtifactError

FIRST_VERSION = 800  # MXNet's default for a file without a version
CURRENT_VERSION = 10901

# The value of an attribute of the whole graph.
GraphValue = int | str | tuple["GraphValue", ...]


class GraphAttr(NamedTuple):
    """A typed attribute of the whole graph. `kind` is MXNet's name of the type: int, str, list_int, list_str."""

    kind: str
    value: GraphValue


class NodeEntry(NamedTuple):
    """Output `index` of node `node_id`. `version` counts mutations and is 0 in every file of MXNet."""

    node_id: int
    index: int = 0  # pyright: ignore[reportIncompatibleMethodOverride]
    version: int = 0


@dataclass(frozen=True)
class SymbolNode:
    """One node: a variable if `op` is "null". `num_outputs` includes hidden outputs; None if the file does not contain
    it."""

    op: str
    name: str
    attrs: Mapping[str, str]
    inputs: tuple[NodeEntry, ...] = ()
    num_outputs: int | None = None
    control_deps: tuple[int, ...] = ()
    subgraphs: tuple[SymbolFile, ...] = ()

    @property
    def is_variable(self) -> bool:
        return self.op == "null"

    @property
    def dependencies(self) -> tuple[int, ...]:
        """The nodes that must precede this one, in the order in which MXNet visits them."""
        return (*(entry.node_id for entry in self.inputs), *self.control_deps)


@dataclass(frozen=True)
class SymbolFile:
    """A graph in MXNet's order: every node follows its inputs, and every node is used by a head. `heads` are the
    outputs."""

    nodes: tuple[SymbolNode, ...]
    heads: tuple[NodeEntry, ...]
    attrs: Mapping[str, GraphAttr]

    @property
    def arg_nodes(self) -> tuple[int, ...]:
        """The node numbers of the variables."""
        return tuple(i for i, node in enumerate(self.nodes) if node.is_variable)

    @property
    def version(self) -> int:
        """The version of MXNet that wrote the file: 10901 is 1.9.1."""
        value = self.attrs.get("mxnet_version", GraphAttr("int", FIRST_VERSION)).value
        if not isinstance(value, int):
            raise ArtifactError(f"mxnet_version is {value!r} and not a number")
        return value


def arrange(nodes: Sequence[SymbolNode], heads: Sequence[NodeEntry]) -> tuple[list[SymbolNode], list[NodeEntry]]:
    """Renumber `nodes` and `heads` in the order of MXNet's depth-first traversal. Nodes that no head uses are dropped.

    All node numbers must be in range. Raises ArtifactError, which names the node, if a node depends on itself.
    """
    order = _depth_first(nodes, [head.node_id for head in heads])
    if order == list(range(len(nodes))):
        return list(nodes), list(heads)
    new_id = {old: new for new, old in enumerate(order)}

    def renumber(entries: Sequence[NodeEntry]) -> tuple[NodeEntry, ...]:
        return tuple(entry._replace(node_id=new_id[entry.node_id]) for entry in entries)

    arranged = [
        replace(
            nodes[old],
            inputs=renumber(nodes[old].inputs),
            control_deps=tuple(new_id[i] for i in nodes[old].control_deps),
        )
        for old in order
    ]
    return arranged, list(renumber(heads))


def _depth_first(nodes: Sequence[SymbolNode], roots: Sequence[int]) -> list[int]:
    """Node numbers in post-order. Not recursive: a chain of nodes can be longer than Python's stack."""
    order: list[int] = []
    finished = [False] * len(nodes)
    open_nodes: set[int] = set()
    for root in roots:
        stack = [] if finished[root] else [(root, iter(nodes[root].dependencies))]
        open_nodes.update(number for number, _ in stack)
        while stack:
            number, dependencies = stack[-1]
            dependency = _next_unfinished(nodes, number, dependencies, finished, open_nodes)
            if dependency is None:
                stack.pop()
                open_nodes.discard(number)
                finished[number] = True
                order.append(number)
            else:
                open_nodes.add(dependency)
                stack.append((dependency, iter(nodes[dependency].dependencies)))
    return order


def _next_unfinished(
    nodes: Sequence[SymbolNode], number: int, dependencies: Iterator[int], finished: list[bool], open_nodes: set[int]
) -> int | None:
    for candidate in dependencies:
        if candidate in open_nodes:
            raise ArtifactError(
                f"node {candidate} ({nodes[candidate].name!r}) depends on itself, through node {number}"
                f" ({nodes[number].name!r})"
            )
        if not finished[candidate]:
            return candidate
    return None
