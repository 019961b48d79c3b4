"""Fixtures for tests of the command line: it runs in this process; models to run it on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from mxforge.ir.settings import settings
from mxforge.runtime.cache import DiskCache
from mxforge.runtime.devices import HOST
from mxforge.runtime.host import tuning
from mxforge.runtime.host.threads import get_num_threads, set_num_threads
from mxforge.tools.main import main

FIXTURES = Path(__file__).resolve().parents[1] / "data" / "fixtures"


@dataclass(frozen=True)
class Done:
    """The outcome of a command: exit status and output."""

    status: int
    out: str
    err: str


Command = Callable[..., Done]


@pytest.fixture
def mxforge(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Command]:
    """Runs the command line in this process. Its changes of the environment last for the test."""

    def run(*arguments: str | Path) -> Done:
        try:
            status = main([str(a) for a in arguments])
        except SystemExit as end:  # argparse exits the process
            status = end.code if isinstance(end.code, int) else 1
        captured = capsys.readouterr()
        return Done(status, captured.out, captured.err)

    before, threads = dict(os.environ), get_num_threads()
    settings.cache_clear()
    yield run
    os.environ.clear()
    os.environ.update(before)
    settings.cache_clear()
    set_num_threads(threads)


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DiskCache]:
    """A disk cache for tuned schedules: those that a test stores change the code of no other test."""
    monkeypatch.setenv("MXFORGE_CACHE", "1")
    cache = DiskCache(tmp_path / "cache", enabled=True)
    monkeypatch.setattr(tuning, "default_cache", lambda: cache)
    HOST.refresh()
    yield cache
    monkeypatch.undo()
    HOST.refresh()


@pytest.fixture
def matplotlib() -> None:
    """Skips the test where matplotlib, which draws plots, is not installed."""
    pytest.importorskip("matplotlib")


@pytest.fixture
def shtab() -> None:
    """Skips the test where shtab, which writes scripts for completion, is not installed."""
    pytest.importorskip("shtab")


@pytest.fixture
def convnet() -> Path:
    """The prefix of the files of a small convolutional network on (2, 3, 32, 32)."""
    return FIXTURES / "convnet"


@pytest.fixture
def compiled(mxforge: Command, convnet: Path, tmp_path: Path) -> Path:
    """The same network as a compiled folder."""
    folder = tmp_path / "compiled"
    done = mxforge("compile", convnet, "-o", folder, "--input-shape", "data=2,3,32,32")
    assert done.status == 0, done.err
    return folder
