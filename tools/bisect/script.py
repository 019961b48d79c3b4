"""Runs a Python script in which every program is compared with the interpretation of its graph.

run_script    starts a new interpreter, as `mxforge exec` does
main          runs the script in it
Watch         wraps each program that the script makes: its first runs are compared, on their operands
"""

from __future__ import annotations

import argparse
import json
import os
import runpy
import subprocess
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...ir.dialects.core import evaluate_graph
from ...ir.graph import Graph
from ...ir.lazy_dataclass import dataclass
from ...ir.types import DType, TensorType
from ...passes.manager import Context, Options
from ...runtime.calls_by_run import bound_by_run, direct_by_run
from ...runtime.compile import hash_of
from ...runtime.device import Address, BoundCall, DirectCall, Runnable
from ...runtime.devices import HOST
from ...runtime.tensor_memory import read_tensor
from ...runtime.watch import watch
from ..errors import ToolError
from ..exec_program import environment
from ..schemas.bisect import BisectReport
from ..schemas.print_json import as_json
from .bisection import Bisection, lowered, noise_of, random_values
from .compare import Array
from .findings import Fault, Findings, Stage
from .kernels import is_determined
from .stages import Comparison

if TYPE_CHECKING:
    from ...ir.dialects.core.split import Split


def run_script(options: argparse.Namespace) -> int:
    """Run the script in a new interpreter, which replaces this process."""
    path: str = options.model
    if not Path(path).is_file():
        raise ToolError(f"{path}: no such file")
    settings = json.dumps({"tolerance": options.tolerance, "runs": options.runs or 1, "json": options.json})
    sys.stdout.flush()
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    command = [sys.executable, *flags, "-m", __spec__.name, settings, path, *options.program]
    os.execve(sys.executable, command, {**environment(), "MXFORGE_CACHE": "0"})


def main(arguments: Sequence[str]) -> int:
    """Run `SCRIPT ARGUMENTS...` after the options in JSON, and report. Returns 1 after a fault, else the status of the
    script; its exceptions are raised."""
    settings, path = json.loads(arguments[0]), arguments[1]
    sys.argv[:] = list(arguments[1:])
    sys.path[0] = str(Path(path).resolve().parent)
    watcher = Watch(settings["tolerance"], settings["runs"])
    watch(HOST, watcher)
    status: Any = 0
    try:
        runpy.run_path(path, run_name="__main__")
    except SystemExit as end:
        status = end.code
    finally:
        watch(HOST, None)
        print(as_json("bisect", watcher.report()) if settings["json"] else watcher.as_text(), flush=True)
    if watcher.fault is not None:
        return 1
    if isinstance(status, str):
        print(status, file=sys.stderr)
    return status if isinstance(status, int) else int(status is not None)


@dataclass(frozen=True)
class _Derivative:
    """What a forward graph was made from."""

    graph: Graph
    wrt: tuple[int, ...]
    rows: tuple[int, ...]
    options: Options


class FaultFound(SystemExit):
    """Ends the script at the first fault."""


class Watch:
    """Compares the first `runs` runs of each program. `given` is the tolerance. After a fault nothing is compared."""

    def __init__(self, requested: float | None, runs: int) -> None:
        self.requested, self.runs = requested, runs
        self.findings = Findings()
        self.programs, self.compared, self.python = 0, 0, 0
        self._derivatives: dict[str, _Derivative] = {}  # by the hash of the forward graph, which has not run yet
        self._ran: set[str] = set()  # the hashes of graphs that ran

    @property
    def fault(self) -> Fault | None:
        """The first fault."""
        return self.findings.fault

    def program(self, graph: Graph, options: Options, program: Runnable) -> Runnable:
        """See `Watcher`. Programs that call Python functions, which can have state, are not compared."""
        self.programs += 1
        if graph.calls_python():
            self.python += 1
            return program
        return WatchedProgram(program, lambda inputs, actual: self._check(graph, options, inputs, actual), self.runs)

    def split(self, graph: Graph, wrt: Sequence[int], rows: Sequence[int], options: Options, split: Split) -> None:
        """See `Watcher`. The derivative is compared on the operands of the first forward run; on random ones if an
        equal graph ran already."""
        if graph.calls_python() or self.fault is not None:
            return
        key, derivative = hash_of(split.forward), _Derivative(graph, tuple(wrt), tuple(rows), options)
        if key in self._ran:
            self._check_derivative(derivative, random_values(split.forward.input_types()))
        else:
            self._derivatives[key] = derivative

    def as_text(self) -> str:
        """The report."""
        if self.fault is not None:
            return self.findings.as_text()
        omitted = f"; {self.python} call Python functions and were not compared" if self.python else ""
        return f"mxforge bisect: {self.compared} runs of {self.programs} programs compared, and none is wrong{omitted}"

    def report(self) -> BisectReport:
        """The report for `--json`."""
        report = self.findings.report()
        return replace(report, programs=self.programs, compared_runs=self.compared, not_compared=self.python)

    def _check(self, graph: Graph, options: Options, inputs: Sequence[Array], actual: Sequence[Array]) -> None:
        if self.fault is not None:
            return
        self.compared += 1
        self.findings = _compared(graph, options, inputs, actual, self.requested)
        if self.fault is not None:
            raise FaultFound(1)
        key = hash_of(graph)
        self._ran.add(key)
        derivative = self._derivatives.pop(key, None)
        if derivative is not None:
            self._check_derivative(derivative, inputs)

    def _check_derivative(self, derivative: _Derivative, inputs: Sequence[Array]) -> None:
        bisection = Bisection(HOST.target, self.requested)
        bisection.joint(derivative.graph, derivative.wrt, derivative.options, inputs, derivative.rows)
        self.findings = bisection.findings
        if self.fault is not None:
            raise FaultFound(1)


def _compared(
    graph: Graph, options: Options, inputs: Sequence[Array], actual: Sequence[Array], requested: float | None
) -> Findings:
    """Compare the results of a program with the interpretation of its graph, and bisect it if they differ. Programs
    with narrow weights, which round on purpose, and with several right results are bisected at once."""
    core = lowered(graph, Context(HOST.target, options))
    expected = evaluate_graph(core, inputs)
    compare = Comparison(Findings(), graph.name, requested, noise_of(core, inputs, expected))
    comparable = options.weights is DType.F32 and is_determined(core)
    wrong = [d for d in compare.differences(core.outputs, actual, expected) if d.is_wrong] if comparable else []
    if comparable and not wrong:
        return compare.findings
    bisected = Bisection(HOST.target, requested).prediction(graph, options, inputs)
    if bisected.fault is None and wrong:
        what = "the program of the script is wrong, but its passes and kernels are right when they run alone"
        bisected.fault = Fault("program", what, graph.name, wrong)
        bisected.stages.append(Stage(graph.name, "program of the script"))
    return bisected


class WatchedProgram:
    """A program whose first runs are compared; implements `Runnable`. `check` gets the operands and the results."""

    def __init__(self, program: Runnable, check: Callable[[Sequence[Array], Sequence[Array]], None], runs: int) -> None:
        self._program, self._check, self._left = program, check, runs
        self.inputs, self.outputs, self.state, self.random = (
            program.inputs,
            program.outputs,
            program.state,
            program.random,
        )
        self.own_bytes = program.own_bytes

    @property
    def holders(self) -> Sequence[object]:
        return self._program.holders

    def may_overwrite(self, output: int, operand: int) -> bool:
        return self._program.may_overwrite(output, operand)

    def run(self, inputs: Sequence[int], outputs: Sequence[int], parameters_version: Hashable = 0) -> None:
        """See `Runnable`."""
        if self._left <= 0:
            self._program.run(inputs, outputs, parameters_version)
            return
        self._left -= 1
        operands = _read(inputs, self.inputs)
        self._program.run(inputs, outputs, parameters_version)
        updated = [inputs[i] for i in self.state], [self.inputs[i] for i in self.state]
        self._check(operands, [*_read(outputs, self.outputs), *_read(*updated)])

    def direct_call(self) -> DirectCall:
        return direct_by_run(self)

    def bound_call(self, fixed: Mapping[int, Address]) -> BoundCall:
        return bound_by_run(self, fixed)


def _read(addresses: Sequence[int], types: Sequence[TensorType]) -> list[Array]:
    return [read_tensor(address, type)[0] for address, type in zip(addresses, types, strict=True)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
