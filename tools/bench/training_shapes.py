"""Measures steps of training with new shapes, in a process without a disk cache: part of `--suite shapes`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from ...ir.lazy_dataclass import dataclass
from .shape_runs import RUNS, chain, fcn, lstm, mlp, module, run_seconds

Shape = tuple[int, ...]
Step = Callable[[Any], None]
"""A step of training on one batch, which waits for its end."""

_SAMPLES = 20


@dataclass(frozen=True)
class Training:
    """Steps of one kind and the shapes of their batches. `make(mx, static)` returns the step; with `static` each shape
    runs programs of its own."""

    make: Callable[[Any, bool], Step]
    shapes: tuple[Shape, ...]


NEW_SHAPES: dict[str, Training] = {
    "two dense layers": Training(mlp, ((8, 32), (64, 32), (50, 32), (30, 32), (20, 32))),
    "LSTM of 64": Training(lstm, ((4, 20, 32), (4, 35, 32), (8, 50, 32), (6, 27, 32), (2, 60, 32))),
    "three convolutions": Training(fcn, ((2, 3, 32, 32), (4, 3, 48, 40), (3, 3, 56, 56), (5, 3, 40, 64))),
    "Module, batch size": Training(module, ((8, 32), (64, 32), (50, 32), (30, 32), (20, 32))),
    "eager chain": Training(chain, ((5, 7), (6, 9), (8, 12), (30, 20), (11, 5))),
}


@dataclass(frozen=True)
class TrainingFigures:
    """Milliseconds of processor time of the first step of each shape, those beyond a later step, how many modules it
    compiled, and the time of a later step by that of programs of its own shape."""

    first: list[float]
    beyond: list[float]
    compiled: list[int]
    ratios: list[float]


def measure_training(mx: Any, training: Training, samples: int = _SAMPLES) -> TrainingFigures:
    """The figures of steps of one kind."""
    from ...codegen.statistics import statistics

    step, specialised = training.make(mx, False), training.make(mx, True)
    figures = TrainingFigures([], [], [], [])
    for shape in training.shapes:
        x = mx.nd.random.uniform(shape=shape)
        x.wait_to_read()
        modules, start = statistics.modules, time.process_time()
        step(x)
        figures.first.append(1e3 * (time.process_time() - start))
        figures.compiled.append(statistics.modules - modules)
        later, own = _least((step, specialised), x, samples)
        start = time.process_time()
        for _ in range(samples):
            step(x)
        figures.beyond.append(figures.first[-1] - 1e3 * (time.process_time() - start) / samples)
        figures.ratios.append(later / own)
    return figures


def _least(steps: Sequence[Step], x: Any, samples: int) -> list[float]:
    """The least milliseconds of steps that take turns."""
    least = [float("inf")] * len(steps)
    for sample in range(samples + 3):
        for i, step in enumerate(steps):
            start = time.perf_counter()
            step(x)
            least[i] = min(least[i], 1e3 * (time.perf_counter() - start)) if sample >= 3 else least[i]
    return least


def report_training(mx: Any) -> None:
    """Measure each kind of step and each whole run, and print them."""
    from ...ir.caches import clear_caches

    title = f"{'first shape':>11} {'second':>8} {'others, beyond':>14} {'compiled then':>14}"
    print(f"\n{'training, CPU ms':24} {title}  time / specialised")
    for name, training in NEW_SHAPES.items():
        figures = measure_training(mx, training)
        beyond = sorted(figures.beyond[2:])
        ratios = " ".join(f"{r:.2f}" for r in figures.ratios[1:])
        times = f"{figures.first[0]:11.1f} {figures.first[1]:8.1f} {beyond[len(beyond) // 2]:14.2f}"
        print(f"{name:24} {times} {sum(figures.compiled[2:]):14}  {ratios}")
    print()
    for name in RUNS:
        clear_caches()
        print("{}: {:.2f} s, {:.2f} of processor time".format(name, *run_seconds(mx, name)))
