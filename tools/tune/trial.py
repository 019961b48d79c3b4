"""Runs a model compiled with given schedules, and times its kernels."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np

from ...codegen.driver import Compilation, compile_steps
from ...codegen.llvm.emit import is_contraction
from ...codegen.llvm.schedule.tuned import Tuned, entry_of, kernel_key
from ...codegen.llvm.target import CpuTarget
from ...codegen.lower_contract import epilogue_in_float32
from ...frontend.dtypes import memory_dtype
from ...ir.graph import Graph
from ...ir.kernel import Kernel
from ...ir.types import TensorType
from ...passes.manager import Options
from ...runtime.executable import Executable
from ...runtime.probes import TimedRuns
from ..inputs import random_inputs
from ..models import Model, bind_executable

Schedules = Mapping[str, object]
"""Schedules by the keys of kernels."""

_RUNS = 2  # in a row: the second one finds in the caches what the program left there, as in a series of runs
_TOLERANCE = 2e-3


@dataclass(frozen=True)
class TunedKernel:
    """A contraction of a program: its `parameters` are buffers that rarely change, `launches` are numbers of those that
    compute it, and `layers` the names of their layers."""

    kernel: Kernel
    parameters: frozenset[str]
    launches: tuple[int, ...]
    layers: tuple[str, ...]


class Subject:
    """A model with inputs of one shape, which is compiled and run again and again."""

    def __init__(self, model: Model, types: Mapping[str, TensorType], graph: Graph, target: CpuTarget) -> None:
        self.model, self.types, self.graph, self.target = model, types, graph, target
        shapes = {name: (t.shape, memory_dtype(t.dtype)) for name, t in types.items()}
        self.arrays = list(random_inputs(shapes).values())

    def trial(self, schedules: Schedules) -> Trial:
        """The model compiled with these schedules, and those of the formulas for all other kernels."""
        tuned = Tuned({key: entry_of(s) for key, s in schedules.items()})  # type: ignore[arg-type]
        compiled = compile_steps(self.graph, self.target.with_tuned(tuned), Options())
        return Trial(self, compiled)


class Trial:
    """A program that can be run and timed; a context, which frees its memory at the end."""

    def __init__(self, subject: Subject, compiled: Compilation) -> None:
        self.executable = Executable(compiled.program)
        self.kernels = _kernels(compiled)
        self._stack = ExitStack()
        bound = bind_executable(subject.model, subject.types, self.executable)
        self.outputs = bound(*subject.arrays)
        inputs, outputs = self._stack.enter_context(bound.operands(subject.arrays))
        self._timed = TimedRuns(self.executable, inputs, outputs)
        self.launch_seconds = np.full(len(compiled.program.launches), np.inf)
        self.seconds = float("inf")

    def close(self) -> None:
        self._stack.close()

    def run(self) -> None:
        """Run the program and remember the least time of each launch."""
        for _ in range(_RUNS):
            begin, end = self._timed.timed().launches()
            self.launch_seconds = np.minimum(self.launch_seconds, (end - begin) / 1e9)

    def run_whole(self) -> None:
        """Run the program as any caller does, and remember the least time."""
        self.seconds = min(self.seconds, *(self._timed.plain() for _ in range(_RUNS)))

    def forget(self) -> None:
        """Forget all times."""
        self.launch_seconds[:] = np.inf

    def kernel_seconds(self, key: str) -> float:
        """The least time of all launches of a kernel."""
        return float(self.launch_seconds[list(self.kernels[key].launches)].sum())

    def agrees_with(self, other: Trial) -> bool:
        """True if the outputs differ by rounding only. Programs that draw random numbers are not compared."""
        if self.executable.random is not None:
            return True
        return all(_is_close(a, b) for a, b in zip(self.outputs, other.outputs, strict=True))


def _is_close(a: np.ndarray, b: np.ndarray) -> bool:
    if a.dtype.kind != "f":
        return bool(np.mean(a != b) < _TOLERANCE)
    largest = float(np.max(np.abs(b), initial=0.0, where=np.isfinite(b)))
    return bool(np.allclose(a, b, rtol=_TOLERANCE, atol=_TOLERANCE * largest, equal_nan=True))


def compare(trials: Sequence[Trial], seconds: float, *, whole: bool = False) -> None:
    """Time the kernels of trials in alternation for about this time, and whole runs if `whole`."""
    for trial in trials:
        trial.forget()
        trial.run()
    end, order = time.monotonic() + seconds, list(trials)
    for turn in range(1000):
        if turn >= 4 and time.monotonic() > end:
            break
        order.reverse()
        for trial in order:
            trial.run()
            if whole:
                trial.run_whole()


def _kernels(compiled: Compilation) -> dict[str, TunedKernel]:
    """The contractions of a program by their keys. Kernels of one key share their code and so its symbols."""
    program = compiled.program
    found: dict[str, TunedKernel] = {}
    for step in compiled.steps:
        if step.kernel is None or not is_contraction(step.kernel) or step.emission.fallback:
            continue
        symbols = {spec.symbol for spec in step.emission.launches}
        symbols |= {spec.symbol for i, _, spec in step.packs if step.operands[i] not in compiled.sharing.prepared}
        numbers = tuple(n for n, launch in enumerate(program.launches) if launch.symbol in symbols)
        layers = dict.fromkeys(program.names[i] for n in numbers for i in program.launches[n].layers)
        if numbers:
            kernel = epilogue_in_float32(step.kernel)
            own = TunedKernel(kernel, step.parameters, numbers, tuple(layers))
            found[kernel_key(kernel, step.parameters)] = own
    return found
