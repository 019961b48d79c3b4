"""The example programs reach their accuracy. Killed and resumed, they end with the same parameters, bit for bit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
DIGITS = TESTS / "data" / "fixtures" / "digits.npz"
KILLED = 3
"""The number of epochs after which the first run is killed."""


def started(program: str, prefix: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "mxforge", "exec", str(TESTS / "examples" / f"{program}.py"), str(DIGITS)]
    return subprocess.Popen([*command, str(prefix), *options], stdout=subprocess.PIPE, text=True)


def accuracy_of(program: str, prefix: Path, *options: str) -> float:
    """Run a program to its end."""
    process = started(program, prefix, *options)
    printed, _ = process.communicate()
    assert process.returncode == 0
    return float(printed.split()[-1])


def parameters(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.params")}


@pytest.mark.parametrize("program", ["digits_module", "digits_gluon"])
def test_a_killed_training_continues_with_the_same_bits(program: str, tmp_path: Path) -> None:
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    whole.mkdir()
    stopped.mkdir()
    assert accuracy_of(program, whole / "net") > 0.97
    with started(program, stopped / "net") as process:
        assert process.stdout is not None
        next(line for line in process.stdout if line == f"finished epoch {KILLED}\n")
        process.kill()
    expected, found = parameters(whole), parameters(stopped)
    assert KILLED <= len(found) < len(expected)
    assert found.items() <= expected.items()
    assert accuracy_of(program, stopped / "net", "--resume") > 0.97
    assert parameters(stopped) == expected
