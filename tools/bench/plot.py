"""Draws figures of `mxforge bench`: times of engines, throughput by batch or threads, or suites side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..plots import new_figure
from .measure import Figures
from .report import Measured, cpu_name, time_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_OURS, _OTHERS = "#d1495b", ("#30638e", "#edae49", "#00798c", "#6a4c93", "#8d99ae", "#5c4033", "#3a3a3a", "#9bc53d")
_GREY = "#555555"
_UNITS = ((1e-3, 1e-6, "us"), (1.0, 1e-3, "ms"), (float("inf"), 1.0, "s"))
"""(times below this, the unit in seconds, its name)"""


def draw(done: Sequence[Measured]) -> Figure:
    """The figure of all measurements: bars of times for one, lines of throughput for one workload with several batches
    or threads, and bars of times by ours for several workloads."""
    if len(done) == 1:
        figure = _times(done[0])
    elif len({measured.conditions.workload for measured in done}) == 1:
        figure = _throughput(done)
    else:
        figure = _ratios(done)
    return figure


def _engines(done: Sequence[Measured]) -> dict[str, str]:
    """The engines with figures, and their colours."""
    names = list(dict.fromkeys(name for m in done for name, figures in m.programs().items() if figures is not None))
    return {name: _OTHERS[(i - 1) % len(_OTHERS)] if i else _OURS for i, name in enumerate(names)}


def _short(measured: Measured) -> str:
    return measured.conditions.workload.partition(" (")[0]


def _threads(count: int) -> str:
    return f"{count} thread{'s' if count > 1 else ''}"


def _title(figure: Figure, title: str) -> None:
    figure.suptitle(f"{title}\n", fontsize=12, fontweight="bold")
    figure.text(0.5, 0.985, f"\n\n{cpu_name()}", ha="center", va="top", fontsize=8, color=_GREY)


def _plain(axes: Axes, grid: str) -> None:
    """Remove the frame, and draw a light grid along one axis."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="x" if grid == "x" else "y", color="#dddddd", linewidth=0.8)
    axes.set_axisbelow(True)


# --- one measurement --------------------------------------------------------------------------------------------------


def _times(measured: Measured) -> Figure:
    """Horizontal bars of the median, with whiskers to the 99th percentile."""
    colours = _engines([measured])
    programs = {name: figures for name, figures in measured.programs().items() if figures is not None}
    unit, word = _unit(max(f.percentile(99) for f in programs.values()))
    figure = new_figure(7.5, 1.7 + 0.5 * len(programs))
    axes = figure.subplots()
    farthest = max(f.percentile(99) for f in programs.values()) / unit
    for row, (name, figures) in enumerate(programs.items()):
        _bar(axes, row, figures, unit, colours[name], farthest)
    axes.set_yticks(range(len(programs)), [f"{name}\n{figures.version}" for name, figures in programs.items()])
    axes.invert_yaxis()
    axes.set_xlim(0, 1.3 * farthest)
    axes.set_xlabel(f"{word} a call: p50, and the line to p99")
    _plain(axes, "x")
    where = measured.conditions
    batch = f", batch {where.batch}" if where.batch > 1 else ""
    _title(figure, f"{_short(measured)}{batch}, {_threads(where.threads)}")
    return figure


def _unit(longest: float) -> tuple[float, str]:
    return next((unit, word) for limit, unit, word in _UNITS if longest < limit)


def _bar(axes: Axes, row: int, figures: Figures, unit: float, colour: str, farthest: float) -> None:
    middle, high = figures.median / unit, figures.percentile(99) / unit
    axes.barh(row, middle, height=0.62, color=colour)
    axes.errorbar(middle, row, xerr=[[0], [high - middle]], color="#222222", capsize=4, linewidth=1.2)
    text = f"{time_text(figures.median)} (p99 {time_text(figures.percentile(99))})"
    axes.text(high + 0.015 * farthest, row, text, va="center", fontsize=8)


# --- batches and threads ----------------------------------------------------------------------------------------------


def _throughput(done: Sequence[Measured]) -> Figure:
    """Lines of elements per second: by batch, with a panel for each number of threads, or by threads if there is one
    batch."""
    batches, threads = ({getattr(m.conditions, name) for m in done} for name in ("batch", "threads"))
    panels = [[m for m in done if m.conditions.threads == n] for n in sorted(threads)] if len(batches) > 1 else [done]
    figure = new_figure(max(6.0, 1.5 + 3.6 * len(panels)), 4.2)
    colours = _engines(done)
    for axes, panel in zip(figure.subplots(1, len(panels), sharey=True, squeeze=False)[0], panels, strict=True):
        _lines(axes, panel, "batch" if len(batches) > 1 else "threads", colours)
        if len(batches) > 1:
            axes.set_title(_threads(panel[0].conditions.threads), fontsize=10)
    first = figure.axes[0]
    first.set_ylim(bottom=0)
    first.set_ylabel("calls per second" if batches == {1} else "elements of batches per second")
    figure.legend(*first.get_legend_handles_labels(), loc="outside lower center", ncols=len(colours), frameon=False)
    fixed = "" if len(batches) > 1 else f", batch {min(batches)}"
    _title(figure, f"Throughput of {_short(done[0])}{fixed}")
    return figure


def _lines(axes: Axes, panel: Sequence[Measured], key: str, colours: dict[str, str]) -> None:
    ordered = sorted(panel, key=lambda m: getattr(m.conditions, key))
    places = [str(getattr(m.conditions, key)) for m in ordered]
    for name, colour in colours.items():
        rates = [_rate(m, name) for m in ordered]
        axes.plot(places, rates, marker="o", color=colour, label=name, linewidth=2.2 if colour == _OURS else 1.6)
    axes.set_xlabel(key)
    axes.margins(x=0.1)
    _plain(axes, "y")


def _rate(measured: Measured, name: str) -> float:
    figures = measured.programs().get(name)
    return float("nan") if figures is None else figures.rate(measured.conditions.batch)


# --- several workloads ------------------------------------------------------------------------------------------------


def _ratios(done: Sequence[Measured]) -> Figure:
    """Grouped bars: the median of each peer by ours, on a logarithmic axis. Right of 1 mxforge is faster."""
    from matplotlib.ticker import LogLocator

    colours = {name: colour for name, colour in _engines(done).items() if colour != _OURS}
    height = 0.8 / max(len(colours), 1)
    figure = new_figure(7.5, 1.8 + 0.16 * len(done) * (len(colours) + 1.5))
    axes = figure.subplots()
    for number, (name, colour) in enumerate(colours.items()):
        ratios = [_ratio(m, name) for m in done]
        rows = [row - 0.4 + (number + 0.5) * height for row in range(len(done))]
        axes.barh(rows, [r - 1 for r in ratios], height, left=1, color=colour, label=name)
        for row, ratio in zip(rows, ratios, strict=True):
            side = "left" if ratio >= 1 else "right"
            if ratio == ratio:
                axes.annotate(
                    f"{ratio:.2g}", (ratio, row), (3 if ratio >= 1 else -3, 0), textcoords="offset points", ha=side,
                    va="center", fontsize=7,
                )  # fmt: skip
    axes.axvline(1, color=_OURS, linewidth=1.6, label="mxforge")
    axes.set_xscale("log", subs=())
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.margins(x=0.12)
    axes.set_yticks(range(len(done)), [_setting(m, done) for m in done])
    axes.invert_yaxis()
    axes.set_xlabel("time by that of mxforge (p50); right of 1 mxforge is faster")
    _plain(axes, "x")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
    _title(figure, "Time by that of mxforge")
    return figure


def _ratio(measured: Measured, name: str) -> float:
    figures = measured.programs().get(name)
    return float("nan") if figures is None else figures.median / measured.ours.median


def _setting(measured: Measured, done: Sequence[Measured]) -> str:
    several = len({m.conditions.threads for m in done}) > 1
    return f"{_short(measured)}, {_threads(measured.conditions.threads)}" if several else _short(measured)
