"""The documentation is current: its code runs, its settings and links exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import mxforge
import pytest
from mxforge.ir.dialects.core import CoreBuilder
from mxforge.ir.settings import Settings
from rewriting import assert_text, graph_text, run_pass, tensor

ROOT = Path(mxforge.__file__).resolve().parent
DOCS = sorted((ROOT / "docs").glob("*.md")) + sorted((ROOT / "docs" / "design").glob("*.md"))
CODE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str) -> str:
    """All Python code of a page, as one program."""
    return "\n".join(CODE.findall((ROOT / "docs" / page).read_text()))


def test_the_example_of_an_operator_is_its_declaration_and_runs() -> None:
    """The first code block of the page is a class of the package, and the others use it."""
    declaration, *uses = CODE.findall((ROOT / "docs" / "add-an-operator.md").read_text())
    assert declaration in (ROOT / "ir" / "dialects" / "mx" / "nn_activation.py").read_text()
    ran = subprocess.run(
        [sys.executable, "-c", "\n".join(uses)], check=False, capture_output=True, text=True, env=_path()
    )
    assert ran.returncode == 0, ran.stderr


def test_a_target_is_a_folder_and_a_line(tmp_path: Path) -> None:
    """The first code block of the page is the folder, the second the line, and the third uses the target."""
    folder, *rest = CODE.findall((ROOT / "docs" / "add-a-target.md").read_text())
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "__init__.py").write_text(folder)
    assert len(rest[0].strip().splitlines()[2:]) == 1, "an import, and one line of registration"
    path = {"PYTHONPATH": os.pathsep.join((str(tmp_path), _path()["PYTHONPATH"]))}
    program = [sys.executable, "-c", "\n".join(rest)]
    ran = subprocess.run(program, check=False, capture_output=True, text=True, env=_path() | path)
    assert ran.returncode == 0, ran.stderr


def test_the_tour_of_the_readme_runs_as_printed(tmp_path: Path) -> None:
    """In a folder with the files of the tests, as in a clone; the environment is this one."""
    tour = (ROOT / "README.md").read_text().partition("## Five-minute tour")[2].partition("**Inside.**")[0]
    commands = [c for c in re.findall(r"^```bash\n(.*?)^```$", tour, re.MULTILINE | re.DOTALL) if "activate" not in c]
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "mxforge").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mxforge "$@"\n')
    (tmp_path / "bin" / "mxforge").chmod(0o755)
    environment = _path() | {"PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    (python,) = CODE.findall(tour)
    for program in (["bash", "-euc", "".join(commands)], [sys.executable, "-c", python]):
        ran = subprocess.run(program, check=False, capture_output=True, text=True, env=environment, cwd=tmp_path)
        assert ran.returncode == 0, ran.stderr
    assert {"convnet", "convnet.safetensors", "stages"} <= {path.name for path in (tmp_path / "build").iterdir()}


def _path() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}


def test_the_example_of_a_pass_runs() -> None:
    scope: dict[str, object] = {"__name__": "example"}
    exec("from __future__ import annotations\n" + blocks("add-a-pass.md"), scope)
    b = CoreBuilder()
    x = b.input(tensor(3))
    graph = b.build([b.exp(b.neg(b.neg(x)))])
    result = run_pass(scope["CancelNegation"](), graph)  # type: ignore[operator]
    assert_text(
        graph_text(result),
        """
        (%arg0: 3xf32):
          %0 = neg(%arg0) : 3xf32
          %1 = exp(%arg0) : 3xf32
          return %1
        """,
    )


def test_the_page_on_debugging_lists_all_switches_with_their_defaults() -> None:
    text = (ROOT / "docs" / "debugging.md").read_text()
    listed = dict(re.findall(r"^\| `(MXFORGE_\w+)` \| (.*?) ?\|", text, re.MULTILINE))
    expected = {f"MXFORGE_{f.name.upper()}": _default_text(f.default) for f in fields(Settings)}
    assert listed == expected
    assert "`OMP_NUM_THREADS`" in text


def _default_text(default: object) -> str:
    return "" if default is None else str(int(default) if isinstance(default, bool) else default)


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS], ids=lambda p: p.name)
def test_links_and_paths_exist(page: Path) -> None:
    text = page.read_text()
    for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", text):
        assert (page.parent / target).exists(), target
    for path in re.findall(r"`((?:ir|passes|codegen|runtime|frontend|tools|tests|docs)/[\w/.-]+\.\w+)`", text):
        assert (ROOT / path).exists(), path
