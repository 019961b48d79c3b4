"""Measures steps of training with new shapes, in a process without a disk cache: part of `--suite shapes`."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Any

from ...ir.lazy_dataclass import dataclass

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


def _block_step(mx: Any, net: Any, static: bool) -> Step:
    net.initialize(mx.init.Xavier())
    net.hybridize(static_alloc=static, static_shape=static)

    def step(x: Any) -> None:
        with mx.autograd.record():
            y = net(x)
        y.backward()
        mx.nd.waitall()

    return step


def _mlp(mx: Any, static: bool) -> Step:
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(64, activation="relu", in_units=32), mx.gluon.nn.Dense(10, in_units=64))
    return _block_step(mx, net, static)


def _lstm(mx: Any, static: bool) -> Step:
    return _block_step(mx, mx.gluon.rnn.LSTM(64, layout="NTC", input_size=32), static)


def _fcn(mx: Any, static: bool) -> Step:
    nn, net = mx.gluon.nn, mx.gluon.nn.HybridSequential()
    net.add(nn.Conv2D(16, 3, padding=1, activation="relu", in_channels=3))
    net.add(nn.Conv2D(16, 3, padding=1, activation="relu", in_channels=16), nn.Conv2D(4, 1, in_channels=16))
    return _block_step(mx, net, static)


def _module(mx: Any, static: bool) -> Step:
    hidden = mx.sym.Activation(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=64, name="a"), act_type="relu")
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(hidden, num_hidden=10, name="b"), name="softmax")
    modules: dict[Shape, Any] = {}

    def bound(shape: Shape) -> Any:
        module = mx.mod.Module(net)
        module.bind([("data", shape)], [("softmax_label", shape[:1])])
        module.init_params()
        module.init_optimizer()
        return module

    def step(x: Any) -> None:
        key = x.shape if static else ()
        module = modules[key] = modules.get(key) or bound(x.shape)
        module.forward_backward(mx.io.DataBatch([x], [mx.nd.zeros(x.shape[:1])]))
        module.update()
        mx.nd.waitall()

    return step


def _chain(mx: Any, static: bool) -> Step:
    def step(x: Any) -> None:
        x.attach_grad()
        with mx.autograd.record():
            y = (mx.nd.tanh(x * 2 + 1) * x).sum()
        y.backward()
        mx.nd.waitall()

    return step


NEW_SHAPES: dict[str, Training] = {
    "two dense layers": Training(_mlp, ((8, 32), (64, 32), (50, 32), (30, 32), (20, 32))),
    "LSTM of 64": Training(_lstm, ((4, 20, 32), (4, 35, 32), (8, 50, 32), (6, 27, 32), (2, 60, 32))),
    "three convolutions": Training(_fcn, ((2, 3, 32, 32), (4, 3, 48, 40), (3, 3, 56, 56), (5, 3, 40, 64))),
    "Module, batch size": Training(_module, ((8, 32), (64, 32), (50, 32), (30, 32), (20, 32))),
    "eager chain": Training(_chain, ((5, 7), (6, 9), (8, 12), (30, 20), (11, 5))),
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


RUNS: dict[str, tuple[Callable[[Any, bool], Step], int, Callable[[random.Random], Shape]]] = {
    "60 LSTM steps of random length": (_lstm, 60, lambda r: (4, r.randint(5, 60), 32)),
    "40 steps of convolutions of random size": (_fcn, 40, lambda r: (2, 3, r.randint(24, 64), r.randint(24, 64))),
    "40 Module steps of random batch size": (_module, 40, lambda r: (r.randint(2, 64), 32)),
}
"""Whole runs: the step, how many, and a random shape."""


def run_seconds(mx: Any, name: str) -> tuple[float, float]:
    """The seconds of a whole run, in which everything is new, and those of processor time."""
    make, count, shape = RUNS[name]
    source = random.Random(1)
    arrays = [mx.nd.random.uniform(shape=shape(source)) for _ in range(count)]
    mx.nd.waitall()
    start = time.perf_counter(), time.process_time()
    step = make(mx, False)
    for x in arrays:
        step(x)
    return time.perf_counter() - start[0], time.process_time() - start[1]


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
