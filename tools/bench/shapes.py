"""Measures calls of hybridized networks with new shapes, in a process without a disk cache: `--suite shapes`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ...ir.lazy_dataclass import dataclass
from .calls import measure_alone
from .training_shapes import report_training

Shape = tuple[int, ...]

_PROGRAM = """
import mxforge
from mxforge.tools.bench.shapes import report
report(mxforge)
"""
_SAMPLES = 30
_SAMPLE_SECONDS = 0.002


def measure_shapes(threads: int) -> int:
    """Print the table, measured in a separate process. ToolError if the process fails."""
    return measure_alone(_PROGRAM, threads)


@dataclass(frozen=True)
class Workload:
    """A network and the shapes of its calls: the first is specialised, the second compiles for dynamic shapes."""

    make: Callable[[Any], Any]
    shapes: tuple[Shape, ...]


def _mlp(mx: Any) -> Any:
    nn = mx.gluon.nn
    return _chain(mx, nn.Dense(64, activation="relu"), nn.Dense(64, activation="relu"), nn.Dense(10))


def _cnn(mx: Any) -> Any:
    nn = mx.gluon.nn
    first = (nn.Conv2D(16, 3, padding=1, activation="relu"), nn.MaxPool2D(2), nn.Conv2D(32, 3, padding=1))
    second = (nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D(2), nn.Conv2D(64, 3, padding=1, activation="relu"))
    return _chain(mx, *first, *second, nn.GlobalAvgPool2D(), nn.Dense(10))


def _lstm(mx: Any) -> Any:
    return _chain(mx, mx.gluon.rnn.LSTM(128, num_layers=2, layout="NTC"), mx.gluon.nn.Dense(10, flatten=False))


def _attention(mx: Any) -> Any:
    """A transformer's block without masks: attention with 4 heads, and two dense layers."""
    nn = mx.gluon.nn
    width, heads = 128, 4

    class Block(mx.gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            with self.name_scope():
                self.project, self.join = nn.Dense(3 * width, flatten=False), nn.Dense(width, flatten=False)
                self.wide, self.narrow = nn.Dense(4 * width, flatten=False), nn.Dense(width, flatten=False)
                self.norm1, self.norm2 = nn.LayerNorm(), nn.LayerNorm()

        def hybrid_forward(self, F: Any, x: Any) -> Any:
            parts = F.reshape(self.project(x), shape=(0, 0, 3, heads, -1))
            q, k, v = F.split(F.transpose(parts, axes=(2, 0, 3, 1, 4)), num_outputs=3, axis=0, squeeze_axis=True)
            q, k, v = (F.reshape(part, shape=(-3, 0, 0)) for part in (q, k, v))
            weights = F.softmax(F.batch_dot(q, k, transpose_b=True) / (width / heads) ** 0.5)
            mixed = F.reshape(F.batch_dot(weights, v), shape=(-4, -1, heads, 0, 0))
            x = self.norm1(x + self.join(F.reshape(F.transpose(mixed, axes=(0, 2, 1, 3)), shape=(0, 0, -3))))
            return self.norm2(x + self.narrow(F.LeakyReLU(self.wide(x), act_type="gelu")))

    return Block()


def _resnet(mx: Any) -> Any:
    return mx.gluon.model_zoo.vision.resnet18_v2()


def _chain(mx: Any, *layers: Any) -> Any:
    net = mx.gluon.nn.HybridSequential()
    net.add(*layers)
    return net


WORKLOADS: dict[str, Workload] = {
    "three dense layers": Workload(_mlp, ((8, 32), (64, 32), (500, 32), (30, 32), (200, 32))),
    "small CNN": Workload(_cnn, ((2, 3, 32, 32), (4, 3, 48, 40), (8, 3, 32, 32), (3, 3, 56, 56), (5, 3, 40, 64))),
    "LSTM, 2 layers of 128": Workload(_lstm, ((4, 20, 64), (4, 35, 64), (8, 50, 64), (6, 27, 64), (2, 60, 64))),
    "transformer block": Workload(_attention, ((2, 32, 128), (4, 50, 128), (8, 64, 128), (3, 90, 128), (2, 128, 128))),
    "resnet18_v2": Workload(
        _resnet, ((1, 3, 224, 224), (1, 3, 192, 192), (1, 3, 256, 192), (1, 3, 160, 224), (1, 3, 192, 256))
    ),
}


@dataclass(frozen=True)
class Figures:
    """Milliseconds of the first call of each shape, how many modules it compiled, and the time of a later call by that
    of a program compiled for its shape."""

    first: list[float]
    compiled: list[int]
    ratios: list[float]


def measure_workload(mx: Any, workload: Workload) -> Figures:
    """The figures of one network."""
    from ...codegen.statistics import statistics

    net = workload.make(mx)
    net.initialize(mx.init.Xavier())
    net.infer_shape(mx.nd.zeros(workload.shapes[0]))
    data = mx.sym.var("data")
    specialised = mx.gluon.SymbolBlock(net(data), data, params=net.collect_params())
    net.hybridize()
    specialised.hybridize(static_alloc=True, static_shape=True)
    figures = Figures([], [], [])
    for shape in workload.shapes:
        x = mx.nd.random.uniform(shape=shape)
        x.wait_to_read()
        modules, start = statistics.modules, time.perf_counter()
        net(x).wait_to_read()
        figures.first.append(1e3 * (time.perf_counter() - start))
        figures.compiled.append(statistics.modules - modules)
        figures.ratios.append(_ratio(net, specialised, x))
    return figures


def _ratio(net: Any, other: Any, x: Any) -> float:
    """The least time of a call of `net` by that of `other`; samples take turns."""
    other(x).wait_to_read()  # compiles
    net(x).wait_to_read()
    start = time.perf_counter()
    other(x).wait_to_read()
    calls = max(1, int(_SAMPLE_SECONDS / (time.perf_counter() - start)))
    least = [float("inf")] * 2
    for _ in range(_SAMPLES):
        for i, block in enumerate((net, other)):
            start = time.perf_counter()
            for _ in range(calls):
                block(x)
            least[i] = min(least[i], time.perf_counter() - start)
    return least[0] / least[1]


def report(mx: Any) -> None:
    """Warm LLVM up, then measure each network. The first shape runs a program of its own in both columns."""
    (mx.nd.ones((5, 7)) / 3).wait_to_read()
    print(f"{'ms':24} {'first shape':>11} {'second':>8} {'others, each':>13} {'compiled then':>14}  time / specialised")
    for name, workload in WORKLOADS.items():
        figures = measure_workload(mx, workload)
        others = sorted(figures.first[2:])
        ratios = " ".join(f"{r:.2f}" for r in figures.ratios[1:])
        times = f"{figures.first[0]:11.1f} {figures.first[1]:8.1f} {others[len(others) // 2]:13.1f}"
        print(f"{name:24} {times} {sum(figures.compiled[2:]):14}  {ratios}")
    report_training(mx)
