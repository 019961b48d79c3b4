"""How many files a new kind of step, a new device and a new target touch."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import mxforge
import pytest
from mxforge.ir import steps

ROOT = Path(mxforge.__file__).parent
FOLDERS = ("codegen", "frontend", "ir", "passes", "runtime", "tools")


@cache
def modules() -> dict[str, ast.Module]:
    """The modules of the package by their paths."""
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    return {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text()) for path in paths}


def imports(module: str, tree: ast.Module) -> Iterator[tuple[str, str]]:
    """(folder or module, name) of what a module imports from the package."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = Path(module).parents[node.level - 1] / (node.module or "").replace(".", "/")
            yield from ((base.as_posix(), alias.name) for alias in node.names)


def users(kind: str) -> set[str]:
    """The modules that import a kind of step; `ir/program.py` only passes the common ones on."""
    declared = {"ir/steps", "ir/program"}
    found = {m for m, tree in modules().items() if any(s in declared and n == kind for s, n in imports(m, tree))}
    return found - {"ir/program.py"}


def test_a_new_kind_of_step_touches_four_files() -> None:
    """Its declaration, what runs it on the host and on other devices, and what makes it: as with the latest kind."""
    assert list(steps.KINDS.values())[-1] is steps.Collective
    assert users("Collective") == {"codegen/records.py", "runtime/launched_program.py", "ir/program_rewrite.py"}


@pytest.mark.parametrize("kind", ["Fill", "HostCall", "Loop", "Branch"])
def test_few_modules_know_a_kind_of_step(kind: str) -> None:
    assert kind in {declared.__name__ for declared in steps.KINDS.values()}
    assert 0 < len(users(kind)) <= 4


def test_a_device_is_a_folder_and_a_line() -> None:
    """Only these lines ask whether a device is the host. Every other device is a line of `PROVIDERS`."""
    asking = [
        module
        for module, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare) and any(isinstance(x, ast.Name) and x.id == "HOST" for x in node.comparators)
    ]
    assert sorted(asking) == ["frontend/ndarray/dlpack.py", "runtime/compile.py", "runtime/compile.py"]


@pytest.mark.parametrize(
    ("target", "allowed"),
    [
        (
            "llvm",
            (
                "codegen/mlir/",
                "runtime/host/",
                "tools/bisect/",
                "tools/make_kernels.py",
                "tools/profile/",
                "tools/tune/",
                "tools/schemas/",
            ),
        ),
        ("mlir", ("runtime/host/device.py", "runtime/stablehlo.py", "frontend/mlir.py")),
        ("triton", ("runtime/cuda/", "runtime/host/tuning_file.py", "tools/profile/", "tools/tune/")),
    ],
)
def test_a_target_is_a_folder(target: str, allowed: tuple[str, ...]) -> None:
    """The device of a target, and tools that measure its code, import it; nothing else does."""
    folder = f"codegen/{target}"
    using = {m for m, tree in modules().items() if any((s + "/").startswith(folder + "/") for s, _ in imports(m, tree))}
    assert using and {m for m in using if not m.startswith((folder, *allowed))} == set()
