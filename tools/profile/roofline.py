"""The plot of `mxforge profile`: launches under the roofs of this machine.

The horizontal axis is the intensity of a launch (operations for each byte), the vertical axis its speed. The roofs are
what the measured peaks allow: memory and cache limit launches of low intensity, arithmetic the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..contexts import machine_text
from ..plots import new_figure, save_figure
from .report import Profile
from .rows import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LABELS = 5
_LABEL_WIDTH = 34
_LEAST_AREA, _MOST_AREA = 12.0, 700.0
_KINDS = (
    ("contract", "convolutions, products", "#1f77b4"),
    ("attention", "attention", "#8c564b"),
    ("winograd", "convolutions by Winograd", "#17becf"),
    ("window", "windows (pooling)", "#2ca02c"),
    ("row", "reductions", "#9467bd"),
    ("pointwise", "pointwise", "#ff7f0e"),
    ("", "other", "#7f7f7f"),
)
"""(kind of a launch, text of the legend, colour); the last is for all other kinds."""
_LOOPS_TEXT, _LOOPS, _LEAST_CROSS = "plain loops", "#d62728", 60.0
_LEAST_SHARE = 0.01
"""The share of the time from which a launch is named."""


def draw_roofline(profile: Profile, path: Path) -> None:
    """Draw the launches whose work is known and has operations, and write the plot; its folder is created."""
    shown = [row for row in profile.launches if row.operations and row.nbytes and row.seconds]
    figure = new_figure(9, 6)
    axes = figure.add_subplot()
    axes.set_xscale("log")
    axes.set_yscale("log")
    low, high = _range([row.intensity or 1.0 for row in shown], profile)
    _draw_roofs(axes, profile, low, high)
    _draw_rows(axes, profile, shown)
    axes.set_xlim(low, high)
    axes.set_ylim(top=3 * max([profile.peaks.operations / 1e9, *map(_speed, shown)]))
    axes.set_xlabel("operations for each byte that is read or written")
    axes.set_ylabel("GFLOP/s")
    axes.set_title(_title(profile, shown), fontsize=11)
    axes.grid(visible=True, which="major", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    if shown:
        axes.legend(loc="lower right", fontsize=9, framealpha=0.9)
    path.parent.mkdir(parents=True, exist_ok=True)
    save_figure(figure, path)


def _title(profile: Profile, shown: Sequence[Row]) -> str:
    machine = profile.machine
    hidden = len(profile.launches) - len(shown)
    share = 1 - sum(row.seconds for row in shown) / (profile.launch_seconds or 1)
    more = f"; not shown: {hidden} without operations, {100 * share:.0f} % of the time" if hidden else ""
    total = f"{1e3 * profile.seconds.p50:.3g} ms a run, {machine_text(machine)}"
    return f"{profile.model}: {total}\narea of a dot: its time{more}"


def _range(intensities: Sequence[float], profile: Profile) -> tuple[float, float]:
    """The limits of the horizontal axis: all launches, and the ridge where the two roofs meet."""
    ridge = profile.peaks.operations / profile.peaks.bandwidth
    return min([*intensities, ridge]) / 3, max([*intensities, ridge]) * 4


def _draw_roofs(axes: Axes, profile: Profile, low: float, high: float) -> None:
    peaks = profile.peaks
    peak = peaks.operations / 1e9
    axes.hlines(peak, low, high, colors="black", linewidth=1.5)
    axes.annotate(
        f"{peak:.0f} GFLOP/s", (high, peak), xytext=(-4, 4), textcoords="offset points", ha="right", fontsize=9
    )
    roofs = [("memory", peaks.bandwidth, "-"), ("last cache", peaks.cache_bandwidth, "--")]
    for name, bandwidth, style in roofs:
        if bandwidth is None:
            continue
        ridge = peaks.operations / bandwidth
        axes.plot([low, ridge], [low * bandwidth / 1e9, peak], style, color="black", linewidth=1.5)
        axes.annotate(
            f"{name} {bandwidth / 1e9:.0f} GB/s",
            (low, low * bandwidth / 1e9),
            xytext=(6, 6),
            textcoords="offset points",
            rotation=45,
            rotation_mode="anchor",
            transform_rotates_text=True,
            fontsize=9,
        )


def _draw_rows(axes: Axes, profile: Profile, rows: Sequence[Row]) -> None:
    longest = max((row.seconds for row in rows), default=1.0)
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault(_style(row), []).append(row)
    order = [(_LOOPS_TEXT, _LOOPS), *((text, colour) for _, text, colour in _KINDS)]
    for text, colour in sorted(groups, key=order.index):
        members = groups[text, colour]
        least = _LEAST_CROSS if text == _LOOPS_TEXT else _LEAST_AREA
        areas = [least + (_MOST_AREA - least) * row.seconds / longest for row in members]
        axes.scatter(
            [row.intensity or 0.0 for row in members],
            [_speed(row) for row in members],
            s=areas,
            c=colour,
            marker="X" if text == _LOOPS_TEXT else "o",
            alpha=0.65,
            edgecolors="white",
            linewidths=0.5,
        )
        axes.scatter([], [], s=50, c=colour, marker="X" if text == _LOOPS_TEXT else "o", label=text)
    _label(axes, profile, rows)


def _style(row: Row) -> tuple[str, str]:
    """The text of the legend and the colour of a launch."""
    if row.fallback:
        return _LOOPS_TEXT, _LOOPS
    own = "winograd" if row.winograd else row.kind
    return next((text, colour) for kind, text, colour in _KINDS if kind in (own, ""))


def _speed(row: Row) -> float:
    return (row.operations or 0.0) / row.seconds / 1e9


def _label(axes: Axes, profile: Profile, rows: Sequence[Row]) -> None:
    """Name the slowest launches and their shares of the time, with lines to their dots."""
    least = _LEAST_SHARE * profile.launch_seconds
    slowest = sorted((row for row in rows if row.seconds >= least), key=lambda row: -row.seconds)[:_LABELS]
    for number, row in enumerate(sorted(slowest, key=_speed)):
        share = 100 * row.seconds / profile.launch_seconds
        axes.annotate(
            f"{_short(row.name)}: {share:.0f} %",
            (row.intensity or 0.0, _speed(row)),
            xytext=(0.02, 0.97 - 0.045 * (len(slowest) - 1 - number)),
            textcoords="axes fraction",
            va="top",
            fontsize=8,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.0},
            arrowprops={"arrowstyle": "-", "relpos": (1.0, 0.5), "color": "#888888", "linewidth": 0.6, "shrinkB": 0},
        )


def _short(name: str) -> str:
    """The first of the layers, and the number of the others."""
    first, *others = name.split(" + ")
    cut = first if len(first) <= _LABEL_WIDTH else f"{first[: _LABEL_WIDTH - 3]}..."
    return f"{cut} + {len(others)}" if others else cut
