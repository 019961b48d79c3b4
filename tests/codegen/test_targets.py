"""The common part of the compiler imports no target, and targets do not import each other."""

from __future__ import annotations

import ast
from pathlib import Path

import mxforge
import pytest

CODEGEN = Path(mxforge.__file__).parent / "codegen"
TARGETS = sorted(p.parent.name for p in CODEGEN.glob("*/target.py"))


def imports(path: Path) -> set[str]:
    """The dotted names of the modules of `codegen` that a file imports, also inside functions."""
    package = path.relative_to(CODEGEN.parent).parts[:-1]
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            found.add(".".join((*base, node.module or "")))
        elif isinstance(node, ast.ImportFrom | ast.Import):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
            found.update(name.removeprefix("mxforge.") for name in names)
    return found


def of_target(module: str, target: str) -> bool:
    return f"{module}.".startswith(f"codegen.{target}.")


def test_both_targets_are_found() -> None:
    assert TARGETS == ["llvm", "triton"]


@pytest.mark.parametrize("path", sorted(CODEGEN.glob("*.py")), ids=lambda p: p.name)
def test_the_common_part_imports_no_target(path: Path) -> None:
    assert [m for m in imports(path) for t in TARGETS if of_target(m, t)] == []


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_imports_no_other(target: str) -> None:
    others = [t for t in TARGETS if t != target]
    files = sorted((CODEGEN / target).rglob("*.py"))
    assert [(f.name, m) for f in files for m in imports(f) for t in others if of_target(m, t)] == []
