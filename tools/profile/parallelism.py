"""How much of a program can run at the same time: its work and its critical path."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.program import Computation, Program
from ...ir.program_graph import critical_path, data_alone, dependences, reduced
from ...ir.step_accesses import step_accesses
from ..schemas.profile import Parallelism


def parallelism(program: Program, seconds: Sequence[float]) -> Parallelism:
    """The parallelism of a program whose launches take so long. Copies take no time."""
    launches = {n: k for k, n in enumerate(launch_steps(program))}
    times = [seconds[launches[n]] if n in launches else 0.0 for n in range(len(program.steps))]
    graph = dependences(step_accesses(program))
    alone = data_alone(graph)
    path, data_path = critical_path(graph, times), critical_path(alone, times)
    work, span, data_span = (sum(times[n] for n in steps) for steps in (range(len(times)), path, data_path))
    return Parallelism(
        dependences=reduced(graph).number_of_edges(),
        work_seconds=work,
        span_seconds=span,
        parallelism=work / span if span else None,
        critical_path=tuple(launches[n] for n in path if n in launches),
        data_span_seconds=data_span,
        data_parallelism=work / data_span if data_span else None,
    )


def launch_steps(program: Program) -> list[int]:
    """The positions of the launches among the steps."""
    return [n for n, step in enumerate(program.steps) if isinstance(step, Computation)]
