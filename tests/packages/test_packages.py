"""Unmodified programs that use packages for MXNet return MXNet's numbers under `mxforge exec`.

They run in this environment, or with the interpreter in MXFORGE_PACKAGES_PYTHON, if the packages are installed.
docs/drop-in.md describes how to create such an environment.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from recorded_results import NEEDS, PROGRAMS, RECORDED, differences, lines, recorded, tolerance

PYTHON = os.environ.get("MXFORGE_PACKAGES_PYTHON", sys.executable)
CASES_OF_A_PROCESS = 16  # all networks of a model zoo in one process would need tens of GB
ROOT = Path(__file__).resolve().parents[2]


def batched(names: Iterable[str], size: int) -> list[list[str]]:
    every = list(names)
    return [every[start : start + size] for start in range(0, len(every), size)]


def execute(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program under `mxforge exec`, with this mxforge and without warnings as errors."""
    link = str(ROOT / ".link")
    paths = os.pathsep.join([link, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))])
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONWARNINGS": "ignore", "MXFORGE_VERIFY": "0"}
    command = [PYTHON, "-m", "mxforge", "exec", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def missing(program: str) -> str:
    """The first missing module of a program with the reason, or ""."""
    for module in NEEDS[program]:
        done = execute("-c", f"import {module}")
        if done.returncode:
            return f"{module}: {(done.stderr.strip().splitlines() or ['?'])[-1]}"
    return ""


@pytest.mark.parametrize("program", NEEDS)
def test_a_package_gives_the_numbers_of_mxnet(program: str) -> None:
    if reason := missing(program):
        pytest.skip(f"not installed for {PYTHON}: {reason}")
    expected = recorded(program)
    results = {}
    for chosen in batched(expected, CASES_OF_A_PROCESS):
        done = execute(str(PROGRAMS / f"{program}.py"), *chosen)
        results.update(lines(done.stdout))
        assert results.keys() >= {*chosen}, f"exit status {done.returncode}: {done.stderr[-2000:]}"
    wrong = {case: differences(results[case], theirs, tolerance(program)) for case, theirs in expected.items()}
    assert {case: found for case, found in wrong.items() if found} == {}


def test_every_program_is_recorded() -> None:
    programs = {path.stem for path in PROGRAMS.glob("*.py")} - {"cases", "training"}
    assert programs == NEEDS.keys() == {path.stem for path in RECORDED.glob("*.json")}


def test_a_difference_is_found() -> None:
    case = {"facts": {}, "outputs": [{"shape": [2], "dtype": "float32", "largest": 2.0, "values": [1.0, 2.0]}]}
    other = {"facts": {}, "outputs": [{**case["outputs"][0], "values": [1.0, 2.0001]}]}
    assert differences(case, case) == []
    assert differences(other, case) == ["output 0 of shape [2] is off by 5.0e-05 of its largest element"]
    assert differences({**case, "facts": {"a": 1}}, case) == ["facts {'a': 1}, not {}"]
    assert differences({"error": "KeyError: 'x'", "at": ["a.py:3"]}, case) == ["KeyError: 'x' at a.py:3"]
