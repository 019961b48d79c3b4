"""The line that is printed while a compilation takes long."""

from __future__ import annotations

import io
import time

import pytest
from mxforge.ir.settings import settings
from mxforge.runtime import progress as module
from mxforge.runtime.progress import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def lines(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, seconds: float) -> str:
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr(module, "_PATIENCE", 0.01)
    with progress("resnet50_v1"):
        deadline = time.monotonic() + seconds
        while not stream.getvalue() and time.monotonic() < deadline:
            time.sleep(0.005)
    return stream.getvalue()


def test_a_line_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lines(monkeypatch, Terminal(), 30) == "mxforge: compiling resnet50_v1, first call\n"


def test_no_line_in_a_file_or_if_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not lines(monkeypatch, io.StringIO(), 0.05)
    monkeypatch.setenv("MXFORGE_QUIET", "1")
    settings.cache_clear()
    try:
        assert not lines(monkeypatch, Terminal(), 0.05)
    finally:
        monkeypatch.delenv("MXFORGE_QUIET")
        settings.cache_clear()


def test_no_line_for_a_short_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with progress("lenet"):
        pass
    time.sleep(0.02)
    assert not terminal.getvalue()
