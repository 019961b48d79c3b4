"""Refuses models before any node is read: operators that nothing defines, recursion, tensors that nothing computes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from ..writer import onnx_library
from . import rules
from .graph import functions_of, opset_of
from .node import Unsupported

_STANDARD = ("", "ai.onnx")


def refuse_unknown(model: Any) -> None:
    """Unsupported with all operators that cannot be read, each with the names of its nodes."""
    functions, opset = functions_of(model), opset_of(model)
    users: dict[str, list[str]] = {}
    for node in _nodes(model.graph.node, 0):
        if (node.domain, node.op_type) not in functions and not _is_known(node, opset):
            name = f"{node.domain}.{node.op_type}" if node.domain not in _STANDARD else node.op_type
            users.setdefault(name, []).append(node.name or next(iter(node.output), ""))
    if users:
        lines = [f"{name} ({', '.join(map(repr, names))})" for name, names in sorted(users.items())]
        raise Unsupported(f"operators that are not supported: {'; '.join(lines)}")


def refuse_recursion(model: Any) -> None:
    """Unsupported if a function of the model calls itself."""
    functions = functions_of(model)
    finished: set[tuple[str, str]] = set()

    def visit(key: tuple[str, str], path: tuple[tuple[str, str], ...]) -> None:
        if key in path:
            raise Unsupported(f"the function {key[1]!r} calls itself")
        if key in functions and key not in finished:
            for node in _nodes(functions[key].node, 0):
                visit((node.domain, node.op_type), (*path, key))
            finished.add(key)

    for key in functions:
        visit(key, ())


def refuse_undefined(graph: Any, outer: Collection[str] = ()) -> None:
    """Unsupported if a node or an output reads a tensor that nothing before it computes, as in a cycle."""
    defined = {"", *outer, *(value.name for value in (*graph.input, *graph.initializer))}
    computed = {name for node in graph.node for name in node.output}
    for node in graph.node:
        missing = next((name for name in node.input if name not in defined), None)
        if missing is not None:
            who = f"{node.op_type} ({node.name or next(iter(node.output), '')!r})"
            why = "a later node computes it (a cycle?)" if missing in computed else "nothing computes it"
            raise Unsupported(f"{who}: tensor {missing!r} is not defined before it is read: {why}")
        for attribute in node.attribute:
            if attribute.HasField("g"):
                refuse_undefined(attribute.g, defined)
        defined.update(node.output)
    for output in graph.output:
        if output.name not in defined:
            raise Unsupported(f"the output {output.name!r} is not defined: nothing computes it")


def _nodes(nodes: Sequence[Any], depth: int) -> Iterator[Any]:
    """All nodes, including those of nested graphs."""
    if depth > 64:
        raise Unsupported("graphs are nested too deeply")
    for node in nodes:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _nodes(attribute.g.node, depth + 1)


def _is_known(node: Any, opset: int) -> bool:
    if node.domain not in _STANDARD:
        return False
    if node.op_type in rules.RULES:
        return rules.RULES[node.op_type] not in rules.REFUSED
    library = onnx_library()
    try:
        schema = library.defs.get_schema(node.op_type, opset, "")
    except library.defs.SchemaError:
        return False
    return schema.has_function or schema.has_context_dependent_function
