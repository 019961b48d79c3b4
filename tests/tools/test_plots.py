"""Figures are written in the format of their suffix."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from mxforge.tools.errors import ToolError, UsageError
from mxforge.tools.plots import check_plot, new_figure, save_figure

STARTS = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}


@pytest.mark.parametrize("suffix", STARTS)
@pytest.mark.usefixtures("matplotlib")
def test_a_figure_is_written(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"figure{suffix}"
    check_plot(path)
    figure = new_figure(2, 2)
    figure.subplots().plot([1, 2], [3, 4])
    save_figure(figure, path)
    assert path.read_bytes().startswith(STARTS[suffix])


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(UsageError, match=r"figure\.gif: a plot is a \.png, \.svg or \.pdf file"):
        check_plot(Path("figure.gif"))


def test_a_missing_matplotlib_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ToolError, match="pip install matplotlib"):
        check_plot(Path("figure.png"))
