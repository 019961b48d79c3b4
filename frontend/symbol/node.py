"""The nodes of symbols, and their traversal in MXNet's order."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from ..artifacts import SymbolFile
from ..base import MXNetError
from ..tracebacks import cause_of

if TYPE_CHECKING:
    from ...ir.dialects.mx.operator import Operator

# Attributes for the executor and the optimizer: written without underscores by users, with them in files.
HIDDEN_KEYS = ("ctx_group", "lr_mult", "wd_mult", "force_mirroring", "mirror_stage")


_numbers = itertools.count()


class SymNode:
    """One variable or one use of an operator.

    `op` is the operator's canonical name, "null" for a variable. `attrs` holds all attributes as MXNet writes them,
    hidden ones (`__lr_mult__`) included. `version` counts the uses that mutate a variable. `operator` is parsed from
    `attrs` on first access. A node that was made later has a higher `number`; a copy has that of its original.
    """

    __slots__ = ("_operator", "attrs", "inputs", "location", "name", "number", "op", "subgraphs", "version")

    def __init__(
        self, op: str, name: str, attrs: dict[str, str], inputs: Iterable[Entry] = (), location: str = ""
    ) -> None:
        self.op = op
        self.name = name
        self.attrs = attrs
        self.inputs = list(inputs)
        self.location = location
        self.number = next(_numbers)
        self.version = 0
        self.subgraphs: tuple[SymbolFile, ...] = ()
        self._operator: Operator | None = None

    @property
    def is_variable(self) -> bool:
        return self.op == "null"

    @property
    def operator(self) -> Operator:
        """The operator with this node's parameters. MXNetError names the node and an invalid parameter."""
        if self._operator is None:
            attrs = {**self.attrs, **subgraph_attribute(self.subgraphs)}
            self._operator = parse_operator(self.op, attrs, self.name)
        return self._operator

    def copy(self) -> SymNode:
        """A copy of the node with the same inputs, which can be modified."""
        copy = SymNode(self.op, self.name, dict(self.attrs), self.inputs, self.location)
        copy.number, copy.version = self.number, self.version
        copy.subgraphs, copy._operator = self.subgraphs, self._operator
        return copy

    @property
    def num_outputs(self) -> int:
        return 1 if self.is_variable else self.operator.num_outputs

    @property
    def visible_outputs(self) -> int:
        return 1 if self.is_variable else self.operator.visible_outputs

    def output_name(self, index: int) -> str:
        """The name of output `index` in lists, such as `fc1_output` or `data`."""
        if self.is_variable:
            return self.name
        name = self.operator.output_names()[index]
        return f"{self.name}_{name}" if self.name else name

    def input_names(self) -> tuple[str, ...]:
        return self.operator.input_names(len(self.inputs))

    def auxiliary_inputs(self) -> list[SymNode]:
        """The variables that this node mutates."""
        if self.is_variable or not _mutates(type(self.operator)):
            return []
        return [self.inputs[i].node for i in self.operator.auxiliary.values() if i < len(self.inputs)]


class Entry(NamedTuple):
    """Output `index` of a node; `version` is the number of earlier mutations of a variable."""

    node: SymNode
    index: int = 0  # pyright: ignore[reportIncompatibleMethodOverride]
    version: int = 0


@cache
def _mutates(op: type[Operator]) -> bool:
    """True if an operator can have auxiliary inputs."""
    from ...ir.dialects.mx.operator import Operator

    return op.auxiliary is not Operator.auxiliary or any("!" in declared for declared in op.inputs)


def is_hidden(key: str) -> bool:
    """True for an attribute that is not a parameter of the operator, such as `__lr_mult__`."""
    return key.startswith("__") and key.endswith("__")


def subgraph_attribute(subgraphs: Sequence[SymbolFile]) -> dict[str, str]:
    """The parameter that passes subgraphs to an operator; empty without subgraphs."""
    return {"subgraphs": json.dumps([_structure(g) for g in subgraphs])} if subgraphs else {}


def _structure(file: SymbolFile) -> Any:
    """A subgraph in the format that ir/dialects/mx/subgraph.py reads."""
    nodes: list[Any] = []
    for n in file.nodes:
        attrs: dict[str, Any] = {k: v for k, v in n.attrs.items() if not is_hidden(k)}
        if n.subgraphs:
            attrs["subgraphs"] = [_structure(g) for g in n.subgraphs]
        nodes.append([n.op, n.name, attrs, [[e.node_id, e.index] for e in n.inputs]])
    return [nodes, [[e.node_id, e.index] for e in file.heads]]


def parse_operator(op: str, attrs: dict[str, str], name: str) -> Operator:
    """The operator `op` with the parameters in `attrs`. MXNetError names the node and the invalid parameter."""
    from ...ir.dialects.mx.operator import lookup

    try:
        return lookup(op).parse({key: value for key, value in attrs.items() if not is_hidden(key)})
    except KeyError as error:
        raise MXNetError(f"node {name!r}: {error.args[0]}") from None
    except ValueError as error:
        raise MXNetError(f"{error}, in operator {op}(name={name!r})") from cause_of(error)


def depth_first(entries: Iterable[Entry]) -> list[SymNode]:
    """All nodes on which `entries` depend, each after its inputs, in MXNet's order. Does not recurse."""
    order: list[SymNode] = []
    seen: set[SymNode] = set()
    for entry in entries:
        if entry.node in seen:
            continue
        seen.add(entry.node)
        stack: list[tuple[SymNode, Iterator[Entry]]] = [(entry.node, iter(entry.node.inputs))]
        while stack:
            waiting = stack[-1][1]
            following = next((e.node for e in waiting if e.node not in seen), None)
            if following is None:
                order.append(stack.pop()[0])
            else:
                seen.add(following)
                stack.append((following, iter(following.inputs)))
    return order


def execution_order(entries: Sequence[Entry]) -> list[SymNode]:
    """The nodes of `depth_first` in the order in which they run. Operators in Python have effects, so they run in the
    order in which they were made, as far as their inputs allow it."""
    python = [n for n in depth_first(entries) if not n.is_variable and not type(n.operator).is_shared]
    return depth_first([*map(Entry, sorted(python, key=lambda n: n.number)), *entries])


def update_versions(node: SymNode) -> None:
    """Count the mutations of variables by `node`, as MXNet does when a node receives its inputs (UpdateNodeVersion)."""
    mutated = set(node.operator.auxiliary.values())
    for i, entry in enumerate(node.inputs):
        if not entry.node.is_variable:
            continue
        if i in mutated:
            entry.node.version += 1
        node.inputs[i] = entry._replace(version=entry.node.version)


def copy_nodes(entries: Iterable[Entry], replaced: dict[SymNode, Entry] | None = None) -> list[Entry]:
    """`entries` on copies of all their nodes; variables in `replaced` are replaced by other entries."""
    entries = list(entries)
    replaced = replaced or {}
    copies: dict[SymNode, SymNode] = {}

    def moved(entry: Entry) -> Entry:
        if entry.node in replaced:
            return replaced[entry.node]
        return entry._replace(node=copies[entry.node])

    for node in depth_first(entries):
        if node not in replaced:
            copied = copies[node] = node.copy()
            copied.inputs = [moved(e) for e in node.inputs]
    return [moved(e) for e in entries]
