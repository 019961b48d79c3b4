"""Lists all operators of a model that no rule and no function defines, before any node is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
