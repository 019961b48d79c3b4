"""Reads and writes `-symbol.json` files: MXNet's graphs as text, in every form since MXNet 0.8.

Source: JSONNode and JSONGraph in nnvm/src/pass/saveload_json.cc, and dmlc/json.h, as of MXNet 1.9.1.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NoReturn

from .errors import ArtifactError
from .symbol_graph import GraphAttr, GraphValue, NodeEntry, SymbolFile, SymbolNode, arrange

MAX_SUBGRAPH_DEPTH = 32
MAX_U32 = 2**32 - 1

# The fields that MXNet accepts; True if it requires them. Any other field is an error, as in MXNet.
NODE_FIELDS = {
    "op": True,
    "name": True,
    "inputs": True,
    "attrs": False,
    "attr": False,
    "param": False,
    "control_deps": False,
    "subgraphs": False,
    "backward_source_id": False,
}
GRAPH_FIELDS = {"nodes": True, "arg_nodes": True, "heads": True, "node_row_ptr": False, "attrs": False}


def read_symbol_json(text: str | bytes, label: str = "symbol") -> SymbolFile:
    """Parse a graph. It is not upgraded: `upgrade_symbol` converts a graph of an older version.

    The fields `attrs`, `attr` and `param` are merged as in MXNet. Nodes can be in any order; the result is in MXNet's
    order. The numbers of outputs are read from `node_row_ptr` if it is valid (MXNet ignores it). All numbers are
    checked to be in range. Raises ArtifactError, with `label` and the position, if the text is invalid.
    """
    try:
        return _Reader("the graph", depth=0).graph(_parse(text))
    except ArtifactError as error:
        raise ArtifactError(f"{label}: {error}") from None
    except RecursionError:
        raise ArtifactError(f"{label}: nested too deeply") from None


def _parse(text: str | bytes) -> Any:
    try:
        if isinstance(text, bytes):
            text = text.decode()
        text.encode()
        return json.loads(text, strict=False, object_pairs_hook=_unique_keys, parse_constant=_no_constant)
    except ArtifactError:
        raise
    except ValueError as error:
        raise ArtifactError(f"not valid JSON: {error}") from None


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        key, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise ArtifactError(f"the key {_short(key)} appears twice in one object")
    return fields


def _no_constant(name: str) -> NoReturn:
    raise ArtifactError(f"{name} is not a JSON number")


class _Reader:
    """A parser of one graph, with a method for each part of the format. Errors contain `place`, the current part."""

    def __init__(self, place: str, depth: int) -> None:
        self.graph_place = self.place = place
        self.depth = depth

    def fail(self, problem: str) -> NoReturn:
        raise ArtifactError(f"{self.place}: {problem}")

    def typed(self, value: Any, cls: type, what: str) -> Any:
        # a bool is an int in Python, but not in JSON
        if not isinstance(value, cls) or isinstance(value, bool):
            self.fail(f"{what} is {_short(value)} and not {_KIND_NAMES[cls]}")
        return value

    def fields(self, value: Any, known: Mapping[str, bool], what: str) -> dict[str, Any]:
        fields = self.typed(value, dict, what)
        for name in fields:
            if name not in known:
                self.fail(f"unknown field {name!r}; known are {', '.join(known)}")
        for name, required in known.items():
            if required and name not in fields:
                self.fail(f"the field {name!r} is missing")
        return fields

    def number(self, value: Any, below: int, what: str) -> int:
        if not 0 <= self.typed(value, int, what) < below:
            self.fail(f"{what} is {_short(value)}, outside 0 to {below - 1}")
        return value

    def text(self, value: Any, what: str) -> str:
        try:
            self.typed(value, str, what).encode()
        except UnicodeEncodeError:
            self.fail(f"{what} is {_short(value)}, which is not valid Unicode")
        return value

    def graph(self, value: Any) -> SymbolFile:
        if self.depth > MAX_SUBGRAPH_DEPTH:
            self.fail(f"subgraphs nested more than {MAX_SUBGRAPH_DEPTH} deep")
        fields = self.fields(value, GRAPH_FIELDS, "it")
        raw_nodes = self.typed(fields["nodes"], list, "'nodes'")
        counts = self.output_counts(fields.get("node_row_ptr", []), len(raw_nodes))
        nodes = [self.node(i, raw, len(raw_nodes), counts[i]) for i, raw in enumerate(raw_nodes)]
        self.place = self.graph_place
        heads = self.entries(fields["heads"], len(nodes), "heads")
        self.check_arguments(fields["arg_nodes"], nodes)
        self.check_indices(nodes, heads)
        attrs = self.graph_attrs(fields.get("attrs", {}))
        arranged, arranged_heads = arrange(nodes, heads)
        return SymbolFile(tuple(arranged), tuple(arranged_heads), attrs)

    def node(self, number: int, value: Any, nodes: int, num_outputs: int | None) -> SymbolNode:
        self.place = f"{self.graph_place}, node {number}"
        fields = self.fields(value, NODE_FIELDS, "it")
        op, name = (self.text(fields[key], f"'{key}'") for key in ("op", "name"))
        self.place += f" ({name!r})"
        self.typed(fields.get("backward_source_id", -1), int, "'backward_source_id'")
        raw_deps = self.typed(fields.get("control_deps", []), list, "'control_deps'")
        return SymbolNode(
            op,
            name,
            self.node_attrs(fields),
            self.entries(fields["inputs"], nodes, "inputs"),
            1 if op == "null" else num_outputs,
            tuple(self.number(i, nodes, "a control dependency") for i in raw_deps),
            tuple(self.subgraphs(fields.get("subgraphs", []))),
        )

    def node_attrs(self, fields: Mapping[str, Any]) -> dict[str, str]:
        """Merge the attributes as MXNet does: the last of `attrs` and `attr`, and missing names from `param`."""
        merged: dict[str, str] = {}
        last = [key for key in fields if key in ("attrs", "attr")][-1:]
        for key in ("param", *last):
            for name, value in self.typed(fields.get(key, {}), dict, f"'{key}'").items():
                merged[self.text(name, "the name of an attribute")] = self.text(value, f"the attribute {name!r}")
        return merged

    def entries(self, value: Any, nodes: int, what: str) -> tuple[NodeEntry, ...]:
        return tuple(self.entry(item, nodes, what) for item in self.typed(value, list, f"'{what}'"))

    def entry(self, value: Any, nodes: int, what: str) -> NodeEntry:
        parts = self.typed(value, list, f"an entry of '{what}'")
        if len(parts) not in (2, 3):
            self.fail(f"an entry of '{what}' has {len(parts)} numbers; 2 or 3 are possible")
        node_id = self.number(parts[0], nodes, f"a node number in '{what}'")
        return NodeEntry(node_id, *(self.number(n, MAX_U32 + 1, f"a number in '{what}'") for n in parts[1:]))

    def subgraphs(self, value: Any) -> Iterator[SymbolFile]:
        for i, raw in enumerate(self.typed(value, list, "'subgraphs'")):
            yield _Reader(f"{self.place}, subgraph {i}", self.depth + 1).graph(raw)

    def output_counts(self, value: Any, nodes: int) -> Sequence[int | None]:
        """The number of outputs of each node; None for all unless `node_row_ptr` increases from 0 over all nodes."""
        listed = self.typed(value, list, "'node_row_ptr'")
        starts = [self.number(n, MAX_U32 + 1, "a number in 'node_row_ptr'") for n in listed]
        counts = [end - start for start, end in pairwise(starts)]
        valid = len(starts) == nodes + 1 and starts[0] == 0 and min(counts, default=1) > 0
        return counts if valid else [None] * nodes

    def check_arguments(self, value: Any, nodes: Sequence[SymbolNode]) -> None:
        for raw in self.typed(value, list, "'arg_nodes'"):
            node = nodes[self.number(raw, len(nodes), "a node number in 'arg_nodes'")]
            if not node.is_variable:
                self.fail(f"'arg_nodes' lists node {raw} ({node.name!r}), which is a {node.op} and not a variable")

    def check_indices(self, nodes: Sequence[SymbolNode], heads: Sequence[NodeEntry]) -> None:
        for entry in (*heads, *(entry for node in nodes for entry in node.inputs)):
            source = nodes[entry.node_id]
            if source.num_outputs is not None and entry.index >= source.num_outputs:
                self.fail(f"output {entry.index} of node {entry.node_id} ({source.name!r}) does not exist")
        for i, node in enumerate(nodes):
            if node.is_variable and node.inputs:
                self.fail(f"node {i} ({node.name!r}) is a variable and has inputs")

    def graph_attrs(self, value: Any) -> dict[str, GraphAttr]:
        return {
            self.text(name, "a graph attribute's name"): self.graph_attr(name, raw)
            for name, raw in self.typed(value, dict, "'attrs'").items()
        }

    def graph_attr(self, name: str, value: Any) -> GraphAttr:
        parts = self.typed(value, list, f"the graph attribute {name!r}")
        if len(parts) != 2:
            self.fail(f"the graph attribute {name!r} is {_short(value)} and not [type, value]")
        type_name = self.text(parts[0], f"the type of the graph attribute {name!r}")
        if type_name == "int":
            self.typed(parts[1], int, f"the graph attribute {name!r}")
        return GraphAttr(type_name, self.graph_value(parts[1], name))

    def graph_value(self, value: Any, name: str) -> GraphValue:
        if isinstance(value, list):
            return tuple(self.graph_value(item, name) for item in value)
        if isinstance(value, str):
            return self.text(value, f"the graph attribute {name!r}")
        return self.typed(value, int, f"the graph attribute {name!r}")


_KIND_NAMES = {dict: "an object", list: "an array", str: "a string", int: "an integer"}


def _short(value: Any) -> str:
    """`value` for a message: containers as their length, long integers and strings truncated."""
    if isinstance(value, dict | list):
        return f"{'an object' if isinstance(value, dict) else 'an array'} of {len(value)}"
    if isinstance(value, int) and value.bit_length() > 128:
        return f"a number of {value.bit_length()} bits"
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:60] + "..."


def write_symbol_json(file: SymbolFile, num_outputs: Callable[[str, Mapping[str, str]], int] | None = None) -> str:
    """The text of a graph, byte for byte as MXNet 1.9.1's tojson returns it.

    `num_outputs(op, attrs)` is called for nodes whose `num_outputs` is None. If it is missing then, ArtifactError is
    raised.
    """
    return _Writer(num_outputs).graph(file, depth=0)


class _Writer:
    """dmlc's JSON layout: objects with several keys and long arrays have one line per item, others are on one line."""

    def __init__(self, num_outputs: Callable[[str, Mapping[str, str]], int] | None) -> None:
        self.num_outputs = num_outputs

    def graph(self, file: SymbolFile, depth: int) -> str:
        """The text of a graph. `depth` is the number of open brackets, which is dmlc's indentation."""
        inner = depth + 1
        fields = {
            "nodes": _block("[]", [self.node(node, inner + 1) for node in file.nodes], inner),
            "arg_nodes": _numbers(file.arg_nodes, inner),
            "node_row_ptr": _numbers(self.row_starts(file.nodes), inner),
            "heads": _entries(file.heads, inner),
        }
        if file.attrs:
            fields["attrs"] = _map({name: _any(attr, inner + 1) for name, attr in file.attrs.items()}, inner)
        return _object(fields, depth)

    def node(self, node: SymbolNode, depth: int) -> str:
        inner = depth + 1
        fields = {"op": _text(node.op), "name": _text(node.name)}
        if node.attrs:
            fields["attrs"] = _map({key: _text(node.attrs[key]) for key in sorted(node.attrs)}, inner)
        fields["inputs"] = _entries(node.inputs, inner)
        if node.control_deps:
            fields["control_deps"] = _numbers(node.control_deps, inner)
        if node.subgraphs:
            fields["subgraphs"] = _block("[]", [self.graph(g, inner + 1) for g in node.subgraphs], inner)
        return _object(fields, depth)

    def row_starts(self, nodes: Sequence[SymbolNode]) -> list[int]:
        starts = [0]
        for node in nodes:
            starts.append(starts[-1] + self.outputs_of(node))
        return starts

    def outputs_of(self, node: SymbolNode) -> int:
        if node.num_outputs is not None:
            return node.num_outputs
        if self.num_outputs is None:
            raise ArtifactError(f"node {node.name!r} ({node.op}): its number of outputs is unknown")
        return self.num_outputs(node.op, node.attrs)


_ESCAPES = str.maketrans({"\r": "\\r", "\n": "\\n", "\\": "\\\\", "\t": "\\t", '"': '\\"'})


def _text(value: str) -> str:
    return f'"{value.translate(_ESCAPES)}"'


def _block(brackets: str, items: Sequence[str], depth: int) -> str:
    """One line per item, indented by `depth + 1` levels. `depth` is the number of open brackets."""
    if not items:
        return brackets
    indent = "\n" + "  " * (depth + 1)
    return brackets[0] + indent + f", {indent}".join(items) + "\n" + "  " * depth + brackets[1]


def _array(items: Sequence[str], depth: int) -> str:
    return _block("[]", items, depth) if len(items) > 10 else f"[{', '.join(items)}]"


def _numbers(values: Sequence[int], depth: int) -> str:
    return _array([str(value) for value in values], depth)


def _entries(entries: Sequence[NodeEntry], depth: int) -> str:
    return _array([f"[{e.node_id}, {e.index}, {e.version}]" for e in entries], depth)


def _object(fields: Mapping[str, str], depth: int) -> str:
    return _block("{}", [f"{_text(key)}: {value}" for key, value in fields.items()], depth)


def _map(fields: Mapping[str, str], depth: int) -> str:
    if len(fields) > 1:
        return _object(fields, depth)
    return "{" + ", ".join(f"{_text(key)}: {value}" for key, value in fields.items()) + "}"


def _any(attr: GraphAttr, depth: int) -> str:
    return f"[{_text(attr.kind)}, {_value(attr.value, depth + 1)}]"


def _value(value: GraphValue, depth: int) -> str:
    """The text of a value. Up to 10 integers are on one line; strings and arrays have one line each."""
    match value:
        case int():
            return str(value)
        case str():
            return _text(value)
    items = [_value(item, depth + 1) for item in value]
    return _array(items, depth) if all(isinstance(item, int) for item in value) else _block("[]", items, depth)
