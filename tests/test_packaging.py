"""The package as a whole: complete, quick to import, loaded once, and with a docstring in each file."""

from __future__ import annotations

import ast
import importlib
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import mxforge
import pytest
from grouped import grouped

ROOT = Path(__file__).resolve().parent.parent
LAZY = ("llvmlite", "triton")
MOST_MODULES = 40
"""How many of its modules `import mxforge` loads at most. Their number bounds its time, whatever else runs."""
SHIM = Path("frontend/namespace/shim")  # on the path of programs, outside of the package
SITE = Path("docs/conf.py")  # read by Sphinx alone
LONGEST_FILE = 600
IMPORT = re.compile(r"\b(import|from)\s+mxforge\b|\bimport\b.*,\s*mxforge\b")  # code, and text that looks like it
SOMEBODYS_FOLDER = re.compile(r"(?<![\w.])/(?:home|root|work|Users)/")
IMPORT_PROBE = """
import json, sys
import mxforge
print(json.dumps(sorted(sys.modules)))
"""


def source_files() -> list[Path]:
    """Every Python file of the package and its tests, without build outputs and hidden folders."""
    skipped = {"build", "dist"}
    files = (path.relative_to(ROOT) for path in ROOT.rglob("*.py"))
    return sorted(f for f in files if not (skipped & set(f.parts) or any(part.startswith(".") for part in f.parts)))


def package_name(folder: Path) -> str:
    return ".".join(("mxforge", *folder.parts))


def test_packages_are_listed_completely() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    folders = {f.parent for f in source_files() if f.name == "__init__.py" and f.parts[0] != "tests"}
    assert sorted(listed) == sorted(map(package_name, folders))


def test_every_module_is_in_a_package() -> None:
    files = [f for f in source_files() if f.parts[0] != "tests" and f != SITE]
    assert [f for f in files if not (ROOT / f.parent / "__init__.py").exists()] == []


def test_root_contains_only_the_public_modules() -> None:
    assert [f.name for f in source_files() if len(f.parts) == 1] == ["__init__.py", "__main__.py"]


def test_version_has_one_source() -> None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        installed = version("mxforge")
    except PackageNotFoundError:
        pytest.skip("mxforge runs here without being installed")
    assert installed == mxforge.mxforge_version


def test_package_is_loaded_once() -> None:
    graph = importlib.import_module("mxforge.ir.graph")
    loaded = [name for name in sys.modules if name == "ir.graph" or name.endswith(".ir.graph")]
    assert loaded == ["mxforge.ir.graph"]
    assert Path(graph.__file__ or "").resolve() == ROOT / "ir" / "graph.py"


def absolute_imports(file: Path) -> list[str]:
    """The imports of mxforge by its name in `file`."""
    text = (ROOT / file).read_text()
    nodes = list(ast.walk(ast.parse(text))) if IMPORT.search(text) else []
    plain = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    sources = [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and node.level == 0]
    return [name for name in plain + sources if name.partition(".")[0] == "mxforge"]


def test_package_imports_itself_relatively() -> None:
    # Not a lint rule: in a checkout called mxforge, ruff treats every relative import as an import of mxforge.
    files = (f for f in source_files() if f.parts[0] != "tests" and f != SITE and SHIM not in f.parents)
    assert {f: found for f in files if (found := absolute_imports(f))} == {}


def test_import_is_light() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORT_PROBE], capture_output=True, check=True)
    packages = [module.partition(".")[0] for module in json.loads(done.stdout)]
    assert packages.count("mxforge") <= MOST_MODULES
    assert set(packages).isdisjoint(LAZY)


def has_docstring(text: str) -> bool:
    return text.startswith('"""') or ast.get_docstring(ast.parse(text)) is not None


@grouped("file", source_files(), by=lambda file: file.parts[0])
def test_each_file_has_a_docstring(file: Path) -> None:
    text = (ROOT / file).read_text()
    assert not text or has_docstring(text), "every file needs a docstring that describes it"
    assert text.count("\n") <= LONGEST_FILE, "split the file"
    assert not SOMEBODYS_FOLDER.search(text), "the project must not contain paths of one machine"
