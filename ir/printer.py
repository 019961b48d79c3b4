"""Prints a graph as MLIR assembly in generic form, which `parser` reads back into an equal graph.

    "builtin.module"() ({
      "func.func"() ({
      ^bb0(%arg0: tensor<2x3xf32> loc("data"), ...):           inputs, with their names
        %0 = "core.cast"(%arg0) {dtype = f16} : (tensor<2x3xf32>) -> tensor<2x3xf16> loc("name"("file.py":12:0))
        "func.return"(%0) : (tensor<2x3xf16>) -> ()
      }) {sym_name = "main", function_type = ..., core.parameters = array<i64: 1>} : () -> ()
    }) : () -> ()

A node's name and the user's line are its location. Nested graphs are regions terminated by `vector.yield`, the upstream
op that passes values of any type to any parent (an operation declared in IRDL cannot be a terminator); it carries the
nested graph's name, parameters, updates and random key. Kernels and programs have their own printers.
"""

from __future__ import annotations

import json
import re

from .attributes import dictionary_text, integers_text, quote
from .graph import Graph, Node, Value
from .kernel_printer import print_kernel
from .program_printer import print_program
from .registry import spelling
from .types import TensorType

__all__ = ["location_text", "print_graph", "print_kernel", "print_program"]

_FILE_LINE = re.compile(r"(.+):(0|[1-9]\d{0,8})", re.DOTALL)
INDENT = "  "


def print_graph(graph: Graph) -> str:
    """The text of `graph`; TypeError names an attribute that cannot be printed."""
    printer = _Printer()
    printer.function(graph)
    return "".join(printer.parts)


def location_text(name: str, location: str) -> str:
    """` loc(...)` of a name and a location; empty if both are empty."""
    if not location:
        return f" loc({quote(name)})" if name else ""
    place = _FILE_LINE.fullmatch(location)
    where = f"{quote(place[1])}:{place[2]}:0" if place else quote(location)
    return f" loc({where})" if place and not name else f" loc({quote(name)}({where}))"


class _Printer:
    """Numbers values through all regions of one function, as MLIR's scopes require."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.names: dict[Value, str] = {}
        self.types: dict[TensorType, str] = {}
        self.arguments = 0
        self.results = 0

    def function(self, graph: Graph) -> None:
        signature = f"({self.list_types(graph.inputs)}) -> {self.result_types(graph.outputs)}"
        self.parts.append('"builtin.module"() ({\n  "func.func"() ({\n')
        self.block(graph, INDENT, "func.return", "")
        self.parts.append(f"  }}) {{sym_name = {quote(graph.name)}, function_type = {signature}{_state(graph)}}}")
        self.parts.append(" : () -> ()\n}) : () -> ()\n")

    def block(self, graph: Graph, indent: str, terminator: str, attributes: str) -> None:
        """Print the only block of a region; `attributes` is the terminator's attribute dictionary."""
        for v in graph.inputs:
            self.names[v] = f"%arg{self.arguments}"
            self.arguments += 1
        declared = ", ".join(f"{self.names[v]}: {self.type(v.type)}{location_text(v.name, '')}" for v in graph.inputs)
        self.parts.append(f"{indent}^bb0({declared}):\n" if declared else f"{indent}^bb0:\n")
        inner = indent + INDENT
        for node in graph.nodes:
            self.node(node, inner)
        values = ", ".join(self.name(v) for v in graph.outputs)
        self.parts.append(f'{inner}"{terminator}"({values}){attributes} : ({self.list_types(graph.outputs)}) -> ()\n')

    def node(self, node: Node, indent: str) -> None:
        op = node.op
        attributes = op.attributes()
        operands = ", ".join([self.name(v) for v in node.inputs])
        defined = self.define(node)
        self.parts.append(f'{indent}{defined}"{spelling(op, len(node.inputs), len(node.outputs))}"({operands})')
        regions = op.regions()
        if regions:
            self.regions(regions, indent)
        written = f" {dictionary_text(attributes)}" if attributes else ""
        where = location_text(node.name, node.location)
        self.parts.append(f"{written} : ({self.list_types(node.inputs)}) -> {self.result_types(node.outputs)}{where}\n")

    def regions(self, regions: tuple[Graph, ...], indent: str) -> None:
        for i, body in enumerate(regions):
            self.parts.append("}, {\n" if i else " ({\n")
            self.block(body, indent, "vector.yield", f" {{core.graph = {quote(body.name)}{_state(body)}}}")
            self.parts.append(indent)
        self.parts.append("})")

    def define(self, node: Node) -> str:
        """`%3 = ` or `%3:2 = `; also stores the names of the results."""
        outputs = node.outputs
        if not outputs:
            return ""
        name = f"%{self.results}"
        self.results += 1
        if len(outputs) == 1:
            self.names[outputs[0]] = name
            return f"{name} = "
        self.names.update((v, f"{name}#{i}") for i, v in enumerate(outputs))
        return f"{name}:{len(outputs)} = "

    def name(self, value: Value) -> str:
        """The name of a value, `%undefined` if the graph does not define it: dumps of broken graphs stay readable."""
        return self.names.get(value, "%undefined")

    def type(self, t: TensorType) -> str:
        text = self.types.get(t)
        if text is None:
            text = self.types[t] = str(t)
        return text

    def list_types(self, values: tuple[Value, ...]) -> str:
        return ", ".join([self.type(v.type) for v in values])

    def result_types(self, values: tuple[Value, ...]) -> str:
        return self.type(values[0].type) if len(values) == 1 else f"({self.list_types(values)})"


def _state(graph: Graph) -> str:
    """The graph's parameters, updates, private outputs, random key (its input and the number of draws) and checks (in
    JSON), each if present."""
    parameters = f", core.parameters = {integers_text(tuple(sorted(graph.parameters)))}" if graph.parameters else ""
    updates = f", core.updates = {integers_text(graph.updates)}" if graph.updates else ""
    updates += f", core.late_updates = {integers_text(tuple(sorted(graph.late)))}" if graph.late else ""
    private = f", core.private = {integers_text(tuple(sorted(graph.private)))}" if graph.private else ""
    key = graph.random
    random = f", core.random = {integers_text((key.input, key.draws))}" if key is not None else ""
    checks = f", core.checks = {quote(json.dumps(graph.checks))}" if graph.checks else ""
    return parameters + updates + private + random + checks
