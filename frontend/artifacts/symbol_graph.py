"""A symbol file as data: nodes, the edges between them, and the order in which MXNet writes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from .errors import ArtifactError

FIRST_VERSION = 800  # what MXNet takes for the version of a file that names none
CURRENT_VERSION = 10901

# A value of the graph's own attributes, with the name of its type in front: ("int", 10901).
GraphValue = int | str | tuple["GraphValue", ...]


class GraphAttr(NamedTuple):
    """A typed attribute of the whole graph; `kind` is MXNet's name for the type: int, str, list_int, list_str."""

    kind: str
    value: GraphValue


class NodeEntry(NamedTuple):
    """Output `index` of node `node_id`; `version` counts mutations and is 0 in every file that MXNet wrote."""

    node_id: int
    index: int = 0  # pyright: ignore[reportIncompatibleMethodOverride]
    version: int = 0


@dataclass(frozen=True)
class SymbolNode:
    """One node: a variable when `op` is "null". `num_outputs`, hidden ones included, is None where no file said it."""

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
        """The nodes that must come before this one, in the order in which MXNet visits them."""
        return (*(entry.node_id for entry in self.inputs), *self.control_deps)


@dataclass(frozen=True)
class SymbolFile:
    """A graph in MXNet's order: every node after its inputs, none that no head needs. `heads` are the outputs."""

    nodes: tuple[SymbolNode, ...]
    heads: tuple[NodeEntry, ...]
    attrs: Mapping[str, GraphAttr]

    @property
    def arg_nodes(self) -> tuple[int, ...]:
        """The variables, as node numbers."""
        return tuple(i for i, node in enumerate(self.nodes) if node.is_variable)

    @property
    def version(self) -> int:
        """The MXNet that wrote the file: 10901 is 1.9.1."""
        value = self.attrs.get("mxnet_version", GraphAttr("int", FIRST_VERSION)).value
        if not isinstance(value, int):
            raise ArtifactError(f"mxnet_version is {value!r} and not a number")
        return value


def arrange(nodes: Sequence[SymbolNode], heads: Sequence[NodeEntry]) -> tuple[list[SymbolNode], list[NodeEntry]]:
    """`nodes` and `heads` renumbered into the order of MXNet's depth-first walk; what no head needs is dropped.

    All numbers must lie in range. ArtifactError names a node that depends on itself.
    """
    order = _depth_first(nodes, [head.node_id for head in heads])
    if order == list(range(len(nodes))):
        return list(nodes), list(heads)
    new_id = {old: new for new, old in enumerate(order)}

    def moved(entries: Sequence[NodeEntry]) -> tuple[NodeEntry, ...]:
        return tuple(entry._replace(node_id=new_id[entry.node_id]) for entry in entries)

    arranged = [
        replace(
            nodes[old], inputs=moved(nodes[old].inputs), control_deps=tuple(new_id[i] for i in nodes[old].control_deps)
        )
        for old in order
    ]
    return arranged, list(moved(heads))


def _depth_first(nodes: Sequence[SymbolNode], roots: Sequence[int]) -> list[int]:
    """Node numbers in post-order, without recursion: a file may chain more nodes than Python's stack holds."""
    order: list[int] = []
    finished = [False] * len(nodes)
    open_nodes: set[int] = set()
    for root in roots:
        stack = [] if finished[root] else [(root, iter(nodes[root].dependencies))]
        open_nodes.update(number for number, _ in stack)
        while stack:
            number, waiting = stack[-1]
            following = _next_unfinished(nodes, number, waiting, finished, open_nodes)
            if following is None:
                stack.pop()
                open_nodes.discard(number)
                finished[number] = True
                order.append(number)
            else:
                open_nodes.add(following)
                stack.append((following, iter(nodes[following].dependencies)))
    return order


def _next_unfinished(
    nodes: Sequence[SymbolNode], number: int, waiting: Iterator[int], finished: list[bool], open_nodes: set[int]
) -> int | None:
    for candidate in waiting:
        if candidate in open_nodes:
            raise ArtifactError(
                f"node {candidate} ({nodes[candidate].name!r}) depends on itself, through node {number}"
                f" ({nodes[number].name!r})"
            )
        if not finished[candidate]:
            return candidate
    return None
