"""The pages for users run as printed: tutorials, getting started, migration, the command line, debugging."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import mxforge
import pytest
from pages import command_folder, run_page

ROOT = Path(mxforge.__file__).resolve().parent
DOCS = ROOT / "docs"
PAGES = [
    *sorted((DOCS / "tutorials").glob("*.md")),
    *(DOCS / f"{n}.md" for n in ("getting-started", "migration", "command-line", "debugging", "deploy-c")),
]


NEEDED = {"--plot": "matplotlib", "mxforge completion": "shtab", "torch_mlir.rewrite": "torch_mlir"}
"""Packages that commands of pages need."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_runs_as_printed(page: Path, tmp_path: Path) -> None:
    """In an empty folder and a process of its own: names of layers are numbered by process."""
    for command, package in NEEDED.items():
        if command in page.read_text():
            pytest.importorskip(package)
    (tmp_path / "empty").mkdir()
    path = os.pathsep.join((str(command_folder(tmp_path / "bin")), os.environ["PATH"]))
    environment = {**os.environ, "PATH": path, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    if "mxforge tune" in page.read_text():  # the schedules that it stores change the code of other tests
        environment["MXFORGE_CACHE_DIR"] = str(tmp_path / "cache")
    program = [sys.executable, ROOT / "tests" / "pages.py", page]
    ran = subprocess.run(
        program, check=False, capture_output=True, text=True, env=environment, cwd=tmp_path / "empty", timeout=600
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_wrong_pages_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    session = "```python\n>>> x = 2\n>>> x + 1\n{}\n```\n"
    commands = "```bash\n{} && echo written\n```\n\n```text\n{}\n```\n"
    assert run_page("page", session.format(3) + commands.format("true", "wr...en")) == []
    assert "line 3" in run_page("page", session.format(4))[0]
    assert "but got\nwritten" in run_page("page", commands.format("true", "read"))[0]
    assert "exit status 1" in run_page("page", commands.format("false", "written"))[0]
    with pytest.raises(ZeroDivisionError):
        run_page("page", "```python\n1 / 0\n```\n")
