"""Runs passes over a graph, and verifies, times, prints and dumps the graph between them."""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import field
from pathlib import Path
from typing import ClassVar

from ..ir.code_store import NO_STORE, CodeStore
from ..ir.file_errors import names_file
from ..ir.graph import Graph
from ..ir.lazy_dataclass import dataclass
from ..ir.precision import default_precision
from ..ir.settings import Settings, settings
from ..ir.target import Capabilities
from ..ir.types import DType


@dataclass(frozen=True, slots=True)
class Options:
    """The user's options for a compilation.

    `static_shape` compiles extents into the kernels; otherwise they are arguments of launches where that is as fast.
    `residual_bytes` bounds what the forward program of a derivative saves for the backward program, as far as computing
    cheap operators again allows; None minimises time. `weights` is the dtype to which predictions round weights, and
    in which they are stored if it is narrower than float32. `keeps_prepared`: what depends on parameters alone is kept
    from run to run; otherwise each run computes it when it is needed, in memory that other values use too.
    `verifies` is False to leave out the checks of values (`Graph.checks`). `precision` is the mode in which GPUs
    multiply float32 numbers, one of `ir/precision.py`; it is that of the environment by default.
    """

    training: bool = False
    static_shape: bool = True
    dynamic: bool = False
    residual_bytes: int | None = None
    weights: DType = DType.F32
    keeps_prepared: bool = True
    verifies: bool = True
    precision: str = field(default_factory=default_precision)


@dataclass
class Context:
    """What passes can read: the target's capabilities and the user's options. `trace` collects (pass name, seconds);
    `kernels` has the code of kernels that were compiled before."""

    target: Capabilities
    options: Options = field(default_factory=Options)
    settings: Settings = field(default_factory=settings)
    kernels: CodeStore = NO_STORE
    trace: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])
    dumped: int = 0

    def dump(self, stage: str, suffix: str, text: str | bytes) -> None:
        """Write a numbered file of the current compilation if MXFORGE_DUMP names a folder."""
        folder = self.settings.dump
        if folder is None:
            return
        folder.mkdir(parents=True, exist_ok=True)
        path = _next_file(folder, stage, suffix)
        with names_file(path):
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
        self.dumped += 1


def _next_file(folder: Path, stage: str, suffix: str) -> Path:
    number = 1 + max((int(p.name[:4]) for p in folder.glob("[0-9][0-9][0-9][0-9]-*")), default=-1)
    return folder / f"{number:04d}-{stage}.{suffix}"


class Pass(ABC):
    """A pure function from graph to graph. Subclasses are frozen dataclasses whose fields are their options.

    `run` returns the same object if nothing changed. The docstring states what the pass does, what it needs and what it
    keeps.
    """

    name: ClassVar[str]

    @abstractmethod
    def run(self, graph: Graph, context: Context) -> Graph: ...


def run_passes(passes: Sequence[Pass], graph: Graph, context: Context) -> Graph:
    """Run the passes in order, with the observation that the settings enable."""
    for step in passes:
        start = time.perf_counter()
        result = step.run(graph, context)
        context.trace.append((step.name, time.perf_counter() - start))
        if result is graph:
            continue
        _observe(step, result, context)
        graph = result
    return graph


def _observe(step: Pass, graph: Graph, context: Context) -> None:
    if context.settings.verify:
        from ..ir.verifier import verify_graph

        verify_graph(graph)
    if context.settings.debug >= 3:
        print(f"// after {step.name}\n{graph}", file=sys.stderr)
    if context.settings.dump is not None:
        context.dump(step.name, "mlir", str(graph))
