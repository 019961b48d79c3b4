"""There are no import cycles, inside functions or outside, except those listed here with reasons."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import mxforge
import networkx as nx

ROOT = Path(mxforge.__file__).resolve().parent
FOLDERS = ("codegen", "frontend", "ir", "passes", "runtime", "tools")

ALLOWED = {
    (r"ir\.graph", r"ir\.printer"): "`str(graph)` prints it, and the printer knows graphs",
    (
        r"ir\.dialects\.core\.(control|control_gradient|reduction|scan|split|window)",
        r"ir\.dialects\.core\.(builder|control_gradient|gradient|split)",
    ): "the gradient of a primitive with a graph is a graph of primitives",
}
"""Imports that close a cycle: patterns of the importing and the imported module."""


def modules() -> dict[str, Path]:
    """The files of the package by module name below `mxforge`; the package itself is ""."""
    found = {"": ROOT / "__init__.py", "__main__": ROOT / "__main__.py"}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """The statements inside a node that are executed, and parts that contain some; without `if TYPE_CHECKING`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            continue
        if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
            for other in child.orelse:
                yield other
                yield from statements(other)
            continue
        yield child
        yield from statements(child)


def source_of(node: ast.ImportFrom, name: str, path: Path) -> str | None:
    """The module of a `from` import, below `mxforge`; None for another package."""
    if node.level == 0:
        package, _, rest = (node.module or "").partition(".")
        return rest if package == "mxforge" else None
    parts = name.split(".") if name else []
    kept = len(parts) - node.level + (path.name == "__init__.py")
    return ".".join((*parts[:kept], *filter(None, [node.module])))


def imports(name: str, path: Path, known: dict[str, Path]) -> Iterator[str]:
    """The modules of the package that a module imports, also inside functions."""
    for node in statements(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (a.name.removeprefix("mxforge.") for a in node.names if a.name.startswith("mxforge."))
        if not isinstance(node, ast.ImportFrom):
            continue
        source = source_of(node, name, path)
        for alias in node.names if source is not None else ():
            inner = f"{source}.{alias.name}".removeprefix(".")
            yield inner if inner in known else str(source)


@cache
def import_graph() -> nx.DiGraph[str]:
    """The modules, with an edge from each to those that it imports."""
    known = modules()
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(known)
    graph.add_edges_from((name, m) for name, path in known.items() for m in imports(name, path, known) if m in known)
    return graph


def is_allowed(importer: str, imported: str) -> bool:
    return any(re.fullmatch(a, importer) and re.fullmatch(b, imported) for a, b in ALLOWED)


def cycles(graph: nx.DiGraph[str]) -> list[list[str]]:
    """The sets of modules that import each other, directly or indirectly."""
    found = nx.strongly_connected_components(graph)
    return [sorted(c) for c in found if len(c) > 1 or any(graph.has_edge(m, m) for m in c)]


def test_there_are_no_import_cycles() -> None:
    kept = nx.DiGraph((a, b) for a, b in import_graph().edges if not is_allowed(a, b))
    assert cycles(kept) == []


def test_every_allowed_import_exists_and_closes_a_cycle() -> None:
    graph = import_graph()
    for pair in ALLOWED:
        matching = [edge for edge in graph.edges if all(map(re.fullmatch, pair, edge))]
        assert any(nx.has_path(graph, b, a) for a, b in matching), f"{pair} is not needed any more"


def test_arrays_do_not_import_modules_above_them() -> None:
    below = nx.descendants(import_graph(), "frontend.ndarray.ndarray")
    above = ("symbol", "gluon", "module", "io", "metric", "optimizer", "kvstore", "initializer", "image", "executor")
    assert [m for m in below if m.startswith(tuple(f"frontend.{name}" for name in above))] == []
    assert not {"frontend.ndarray", "frontend.ndarray.sparse_arrays", "frontend.ndarray.sparse"} & below


def test_relative_imports_are_resolved() -> None:
    graph = import_graph()
    assert "ir.graph" in graph["passes.expand"] and "frontend.ndarray.ndarray" in graph["frontend.ndarray"]
    assert "frontend.namespace.aliases" in graph[""] and "tools.main" in graph["__main__"]
