"""The scripts for completion know the commands, and complete as the shell runs them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mxforge.tools.grammar import build_parser


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
@pytest.mark.usefixtures("shtab")
def test_a_script_has_every_command(mxforge: Any, shell: str) -> None:
    done = mxforge("completion", shell)
    assert done.status == 0, done.err
    commands = next(action.choices for action in build_parser()._actions if action.choices)
    assert commands and all(command in done.out for command in commands)


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["ins"], ["inspect"]),
        (["run", "m", "--pre"], ["--preset"]),
        (["run", "m", "--preset", "ins"], ["insightface"]),
        (["compile", "model-s"], ["model-symbol.json"]),
    ],
)
@pytest.mark.usefixtures("shtab")
def test_bash_completes(mxforge: Any, tmp_path: Path, words: list[str], expected: list[str]) -> None:
    (tmp_path / "model-symbol.json").touch()
    (tmp_path / "script").write_text(mxforge("completion", "bash").out)
    line = " ".join(["mxforge", *words])
    program = f"""
    source ./script
    COMP_WORDS=(mxforge {" ".join(words)}) COMP_CWORD={len(words)} COMP_LINE='{line}' COMP_POINT={len(line)}
    $(complete -p mxforge | sed 's/.*-F \\([^ ]*\\) .*/\\1/')
    printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    ran = subprocess.run(["bash", "-c", program], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert [word.strip() for word in ran.stdout.splitlines()] == expected, ran.stderr


def test_a_missing_package_is_named(mxforge: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    done = mxforge("completion", "bash")
    assert done.status == 1 and "pip install shtab" in done.err
