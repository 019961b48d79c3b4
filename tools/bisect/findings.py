"""What a bisection finds: the stages that it compared, and the first fault."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Literal

from ...ir.lazy_dataclass import dataclass
from ..schemas import bisect as schema
from ..schemas.record import real
from .compare import Difference


@dataclass(frozen=True)
class Stage:
    """A comparison that was made. `step` is the name of a pass, or of what ran; `worst` is None for the reference of
    the stages after it. `graph` is what was compared: the model, or the forward or backward graph of its training."""

    graph: str
    step: str
    worst: Difference | None = None


@dataclass(frozen=True)
class Kernel:
    """A kernel, in text: the layers that it computes with their operators, its number among the launches, the symbols
    of its functions, its schedule, and its region."""

    layers: Sequence[str]
    operators: Sequence[str]
    launches: Sequence[int]
    symbols: Sequence[str]
    schedule: Sequence[str]
    region: str


FaultKind = Literal["pass", "kernel", "memory", "program"]


@dataclass(frozen=True)
class Fault:
    """The first wrong numbers. `what` names the fault in one sentence."""

    kind: FaultKind
    what: str
    graph: str
    differences: Sequence[Difference] = ()
    kernel: Kernel | None = None


@dataclass
class Findings:
    """The stages in order, and the fault after which no stage was compared."""

    stages: list[Stage] = field(default_factory=list[Stage])
    fault: Fault | None = None
    kernels: int = 0

    def as_text(self) -> str:
        """The report: a line for each stage, and the fault."""
        width = max((len(stage.step) for stage in self.stages), default=0)
        lines: list[str] = []
        graph = ""
        for stage in self.stages:
            if stage.graph != graph:
                graph = stage.graph
                lines.append(graph)
            lines.append(f"  {stage.step:{width}}  {_stage_text(stage)}")
        return "\n".join([*lines, "", *_fault_lines(self.fault, self.kernels)])

    def report(self) -> schema.BisectReport:
        """The report for `--json`."""
        stages = tuple(_stage(stage) for stage in self.stages)
        return schema.BisectReport(stages=stages, kernels=self.kernels, fault=self.fault and _fault(self.fault))


def _stage_text(stage: Stage) -> str:
    if stage.worst is None:
        return "the reference"
    if stage.worst.is_wrong:
        return f"WRONG: {stage.worst.text()}"
    return f"largest difference {stage.worst.largest:.1e} (allowed {stage.worst.allowed:.1e})"


def _fault_lines(fault: Fault | None, kernels: int) -> list[str]:
    if fault is None:
        checked = f"; {kernels} kernels were compared one by one" if kernels else ""
        return [f"no pass and no kernel changes the numbers beyond rounding{checked}"]
    lines = [f"{fault.graph}: {fault.what}", *(f"  {d.text()}" for d in fault.differences)]
    if fault.kernel is not None:
        k = fault.kernel
        fields = {"layers": k.layers, "operators": k.operators, "functions": k.symbols, "schedule": k.schedule}
        lines += [f"  {name:9}  {', '.join(values)}" for name, values in fields.items() if values]
        lines += ["  region", *(f"    {line}" for line in k.region.splitlines())]
    return lines


def _stage(stage: Stage) -> schema.Stage:
    worst = stage.worst
    if worst is None:
        return schema.Stage(graph=stage.graph, step=stage.step)
    return schema.Stage(
        graph=stage.graph,
        step=stage.step,
        output=worst.name,
        dtype=worst.type.dtype.full_name,
        shape=worst.type.shape,
        largest=real(worst.largest),
        allowed=real(worst.allowed),
        wrong_elements=worst.count,
    )


def _fault(fault: Fault) -> schema.Fault:
    kernel = fault.kernel
    differences = tuple(_difference(d) for d in fault.differences)
    return schema.Fault(
        kind=fault.kind,
        what=fault.what,
        graph=fault.graph,
        differences=differences,
        kernel=kernel
        and schema.Kernel(
            layers=tuple(kernel.layers),
            operators=tuple(kernel.operators),
            launches=tuple(kernel.launches),
            symbols=tuple(kernel.symbols),
            schedule=tuple(kernel.schedule),
            region=kernel.region,
        ),
    )


def _difference(difference: Difference) -> schema.Difference:
    return schema.Difference(
        output=difference.name,
        dtype=difference.type.dtype.full_name,
        shape=difference.type.shape,
        largest=real(difference.largest),
        allowed=real(difference.allowed),
        wrong_elements=difference.count,
        index=difference.index,
        found=real(difference.found),
        expected=real(difference.expected),
    )
