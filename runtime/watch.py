"""Lets a tool watch the programs of a device that this process makes, with the graphs that they compute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from ..ir.graph import Graph
from ..passes.manager import Options
from .device import Device, Runnable

if TYPE_CHECKING:
    from ..ir.dialects.core.split import Split


class Watcher(Protocol):
    """What a tool does with programs."""

    def program(self, graph: Graph, options: Options, program: Runnable) -> Runnable:
        """What callers get instead of the program `program` of a graph."""
        ...

    def split(self, graph: Graph, wrt: Sequence[int], rows: Sequence[int], options: Options, split: Split) -> None:
        """Called when a graph was differentiated, before the programs of `split` are made; see `training_graphs`."""
        ...


_watcher: Watcher | None = None
_device: Device | None = None


def watch(device: Device, watcher: Watcher | None) -> None:
    """Watch the programs of a device that are made from now on; None ends that. Programs that exist are not watched."""
    global _watcher, _device
    _watcher, _device = watcher, device


def is_watched(device: Device) -> bool:
    """True if a tool watches the programs of a device."""
    return _watcher is not None and device is _device


def watched(device: Device, graph: Callable[[], Graph], options: Options, program: Runnable) -> Runnable:
    """The program for callers."""
    return program if _watcher is None or device is not _device else _watcher.program(graph(), options, program)


def watch_split(graph: Graph, wrt: Sequence[int], rows: Sequence[int], options: Options, split: Split) -> None:
    """Pass a derivative to the watcher."""
    if _watcher is not None:
        _watcher.split(graph, wrt, rows, options, split)
