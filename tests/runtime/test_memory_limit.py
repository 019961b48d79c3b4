"""The memory that a process can use: the machine's or its cgroup's."""

from __future__ import annotations

from pathlib import Path

import pytest
from mxforge.runtime import memory_limit
from mxforge.runtime.memory_limit import physical_memory


def test_memory_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_limit, "_QUOTA", tmp_path / "memory.max")
    whole = physical_memory()
    (tmp_path / "memory.max").write_text("max\n")
    assert physical_memory() == whole
    (tmp_path / "memory.max").write_text("1048576\n")
    assert physical_memory() == 1 << 20
