"""A simulation of threads as text, and as a report for JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ...ir.lazy_dataclass import dataclass
from ..inspect_text import cut, table, type_text
from ..schemas import profile as schema
from ..schemas.common import Argument
from .thread_model import Limit, Prediction, ThreadCosts

_SHOWN = 8
"""Rows of what limits the speed, unless the user names a number."""


@dataclass(frozen=True)
class Simulated:
    """The predictions for the launches of a program. `span` is its critical path, and `together` its time if launches
    that do not depend on each other run at the same time. `data_together` is that time if none waited for memory that
    is used again."""

    launches: Sequence[Prediction]
    span: float
    together: float
    data_together: float


@dataclass(frozen=True)
class Simulation:
    """`seconds` is the time of the launches of the model compiled for one thread; `predictions` are those of the
    programs by the number of threads that they are compiled for."""

    model: str
    inputs: tuple[Argument, ...]
    costs: ThreadCosts
    seconds: float
    predictions: Mapping[int, Simulated]


@dataclass(frozen=True)
class Loss:
    """Seconds that launches of one name take longer than an even division of their work, for one cause. `units` and
    `chunks` are those of the first such launch."""

    name: str
    limit: Limit
    seconds: float
    launches: int
    units: int
    chunks: int


def losses(predictions: Sequence[Prediction]) -> list[Loss]:
    """What limits the speed, the most first."""
    groups: dict[tuple[str, Limit], list[Prediction]] = {}
    for p in predictions:
        for limit, seconds in p.lost.items():
            if seconds > 0:
                groups.setdefault((p.work.name, limit), []).append(p)
    all_losses = [
        Loss(name, limit, sum(p.lost[limit] for p in own), len(own), own[0].work.count, own[0].chunks)
        for (name, limit), own in groups.items()
    ]
    return sorted(all_losses, key=lambda loss: -loss.seconds)


def _sum(predictions: Sequence[Prediction]) -> tuple[float, float, dict[Limit, float]]:
    """(work, predicted time, lost time by cause) in seconds."""
    lost = {limit: sum(p.lost.get(limit, 0.0) for p in predictions) for limit in Limit}
    return sum(p.work.seconds for p in predictions), sum(p.seconds for p in predictions), lost


def as_text(simulation: Simulation, top: int | None) -> str:
    """A row for each number of threads, and what limits the largest."""
    return "\n".join((*_head(simulation), *_rows(simulation), *_losses(simulation, top or _SHOWN)))


def _head(simulation: Simulation) -> Iterator[str]:
    costs = simulation.costs
    yield simulation.model
    for argument in simulation.inputs:
        yield f"  {argument.name}  {type_text(argument)}"
    yield "  predictions from times on one thread, not measurements (mxforge help threads)"
    launch, chunk = f"launch {1e6 * costs.launch:.2f} us x log2(threads)", f"chunk {1e9 * costs.chunk:.0f} ns"
    yield f"  assumed: {launch}, {chunk}, memory {costs.bandwidth / 1e9:.0f} GB/s"


def _rows(simulation: Simulation) -> Iterator[str]:
    yield f"\nthreads (one: {1e3 * simulation.seconds:.3f} ms)"
    head = (
        "threads",
        "ms",
        "speed-up",
        "% of it even",
        *(f"% {limit}" for limit in Limit),
        "work",
        "together",
        "no reuse",
        "path",
    )
    cells = [_cells(simulation, threads) for threads in simulation.predictions]
    yield from table([head, *cells], "r" * len(head))


def _cells(simulation: Simulation, threads: int) -> Sequence[str]:
    simulated = simulation.predictions[threads]
    work, seconds, lost = _sum(simulated.launches)
    shares = [work / threads, *lost.values()]
    return (
        str(threads),
        f"{1e3 * seconds:.3f}",
        f"{simulation.seconds / seconds if seconds else 0.0:.1f}",
        *(f"{100 * share / seconds if seconds else 0.0:.0f}" for share in shares),
        f"{work / simulation.seconds if simulation.seconds else 0.0:.2f}",
        f"{1e3 * simulated.together:.3f}",
        f"{1e3 * simulated.data_together:.3f}",
        f"{1e3 * simulated.span:.3f}",
    )


def _losses(simulation: Simulation, top: int) -> Iterator[str]:
    threads = max(simulation.predictions)
    launches = simulation.predictions[threads].launches
    _, total, _ = _sum(launches)
    largest = losses(launches)[:top]
    if not largest:
        return
    yield f"\nwhat limits {threads} threads"
    rows = [
        (
            str(loss.limit),
            f"{1e6 * loss.seconds:.1f}",
            f"{100 * loss.seconds / total:.1f}",
            str(loss.launches),
            str(loss.units),
            str(loss.chunks),
            cut(loss.name),
        )
        for loss in largest
    ]
    yield from table([("limit", "lost us", "%", "launches", "units", "chunks", "layer"), *rows], "lrrrrrl")


def report(simulation: Simulation) -> schema.SimulationReport:
    """The simulation with all launches."""
    costs = simulation.costs
    return schema.SimulationReport(
        model=simulation.model,
        inputs=simulation.inputs,
        launch_cost=costs.launch,
        chunk_cost=costs.chunk,
        bytes_per_second=costs.bandwidth,
        seconds=simulation.seconds,
        threads=tuple(_prediction(simulation, threads) for threads in simulation.predictions),
    )


def _prediction(simulation: Simulation, threads: int) -> schema.Prediction:
    simulated = simulation.predictions[threads]
    work, seconds, lost = _sum(simulated.launches)
    return schema.Prediction(
        threads=threads,
        seconds=seconds,
        speed_up=simulation.seconds / seconds if seconds else None,
        work_seconds=work,
        lost={str(limit): value for limit, value in lost.items()},
        span_seconds=simulated.span,
        together_seconds=simulated.together,
        data_together_seconds=simulated.data_together,
        launches=tuple(_launch(p) for p in simulated.launches),
    )


def _launch(p: Prediction) -> schema.PredictedLaunch:
    return schema.PredictedLaunch(
        name=p.work.name,
        count=p.work.count,
        grain=p.work.grain,
        chunks=p.chunks,
        work_seconds=p.work.seconds,
        seconds=p.seconds,
        bytes=None if p.work.nbytes is None else round(p.work.nbytes),
        lost={str(limit): value for limit, value in p.lost.items()},
    )
