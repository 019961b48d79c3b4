"""Figures for reports. Matplotlib draws them; it is imported with the first figure."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from ..frontend.artifacts import write_atomically
from .errors import ToolError, UsageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg", ".pdf")


def check_plot(path: Path) -> None:
    """UsageError if the suffix is of no known format, ToolError if Matplotlib is missing. For use before long work."""
    if path.suffix not in SUFFIXES:
        raise UsageError(f"{path}: a plot is a {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]} file")
    new_figure(1, 1)


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of this size in inches. It does not belong to a window."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ToolError("plots need Matplotlib: pip install matplotlib") from None
    return Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: Figure, path: Path) -> None:
    """Write the figure in the format of the suffix."""
    data = io.BytesIO()
    figure.savefig(data, format=path.suffix[1:], dpi=120)
    write_atomically(path, data.getvalue())
