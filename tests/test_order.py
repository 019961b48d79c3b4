"""The order of test files names files that exist, and puts them first."""

from __future__ import annotations

from pathlib import Path

import pytest
from order import LONGEST, place


def test_the_longest_files_exist() -> None:
    tests = Path(__file__).resolve().parent
    assert [name for name in LONGEST if not (tests / f"{name}.py").is_file()] == []


def test_the_longest_files_are_first(request: pytest.FixtureRequest) -> None:
    names = ["ir/test_text.py", f"{LONGEST[1]}.py", "codegen/test_chains.py", f"{LONGEST[0]}.py"]
    assert sorted(names, key=place) == [names[3], names[1], names[2], names[0]]
    tests = Path(__file__).resolve().parent
    files = [place(item.path.relative_to(tests).as_posix()) for item in request.session.items]
    assert files == sorted(files)
