"""The suites of networks and of training steps: their arrays, and how results are compared.

`training_mxnet.py` and `training_torch.py` define networks and steps. All frameworks begin with the same parameters and
read the same batch in every step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...frontend import gluon
from ...frontend.ndarray import NDArray, array, zeros
from ...ir.lazy_dataclass import dataclass
from .training_mxnet import network

Arrays = dict[str, np.ndarray]
Optimizer = tuple[str, dict[str, Any]]

TOLERANCE = 1e-3
"""The largest difference of the results: the losses of the first steps, and the changes of three weights in these
steps. A change is much smaller than its weight, whose rounding limits the accuracy."""

_RECTIFIED = 0.2
"""The tolerance of deep networks with batch norm. Rounding changes the sign of a few of their many rectified values
and so the gradients: those of PyTorch in float32 and float64 differ by up to 0.08. Larger steps would amplify that."""

_MOMENTUM: dict[str, Any] = {"learning_rate": 0.01, "momentum": 0.9}


@dataclass(frozen=True)
class Training:
    """One step of training a network: forward, backward, update, and the mean loss as a number.

    `shape` is the shape of a batch. Its targets are classes, or an array of the same shape for a loss of squares.
    """

    words: str
    shape: tuple[int, ...]
    classes: int = 0
    batch_axis: int = 0
    rate: float = 0.01
    hybridize: bool = True
    tolerance: float = TOLERANCE

    def arrays(self, suite: str) -> Arrays:
        g = np.random.default_rng(0)
        x = g.standard_normal(self.shape, np.float32)
        if self.classes:
            y = g.integers(0, self.classes, self.shape[0]).astype(np.float32)
        else:
            y = g.standard_normal(self.shape, np.float32)
        return {"x": x, "y": y, **_parameters(network(gluon, suite), array(x), g)}

    def spec(self, suite: str) -> dict[str, Any]:
        return {
            "training": suite,
            "loss": "classes" if self.classes else "squares of sequences" if self.batch_axis else "squares",
            "batch": self.shape[self.batch_axis],
            "optimizer": ("sgd", {**_MOMENTUM, "learning_rate": self.rate}),
            "hybridize": self.hybridize,
        }


def _parameters(net: gluon.HybridBlock, x: NDArray, g: np.random.Generator) -> Arrays:
    """Initial parameters of a network by name. Weights are normal with the variance 2 / inputs."""
    if not all(all(p.shape or (0,)) for p in net.collect_params().values()):
        net.infer_shape(x)
    return {name: _initial(name, shape, g) for name, shape in _shapes(net).items()}


def _shapes(net: gluon.HybridBlock) -> dict[str, tuple[int, ...]]:
    """The shapes of the parameters, which are known, by name."""
    return {name: p.shape or () for name, p in net.collect_params().items()}


def _initial(name: str, shape: tuple[int, ...], g: np.random.Generator) -> np.ndarray:
    if name.endswith(("gamma", "running_var")):
        return np.ones(shape, np.float32)
    if name.endswith("weight"):
        return g.standard_normal(shape, np.float32) * np.float32((2 / np.prod(shape[1:])) ** 0.5)
    return np.zeros(shape, np.float32)


@dataclass(frozen=True)
class Inference:
    """A call of a hybridized network on an array of this shape."""

    words: str
    network: str
    shape: tuple[int, ...]
    batch_axis: int

    def arrays(self) -> Arrays:
        g = np.random.default_rng(0)
        x = g.standard_normal(self.shape, np.float32)
        return {"x": x, **_parameters(network(gluon, self.network), array(x), g)}

    def spec(self) -> dict[str, Any]:
        return {"network": self.network}


@dataclass(frozen=True)
class Update:
    """One update of weights by constant gradients: what an optimizer does in a step."""

    words: str
    optimizer: Optimizer
    shapes: Callable[[], list[tuple[int, ...]]]
    tolerance: float = TOLERANCE

    def arrays(self, suite: str) -> Arrays:
        g = np.random.default_rng(0)
        shapes = self.shapes()
        weights = {f"weight{i}": g.standard_normal(s, np.float32) for i, s in enumerate(shapes)}
        return weights | {f"gradient{i}": g.uniform(0.5, 1.5, s).astype(np.float32) for i, s in enumerate(shapes)}

    def spec(self, suite: str) -> dict[str, Any]:
        return {"training": suite, "update": self.optimizer}


def _resnet50_shapes() -> list[tuple[int, ...]]:
    net = network(gluon, "train-resnet50")
    net.infer_shape(zeros((1, 3, 224, 224)))
    return [p.shape for p in net.collect_params().values() if p.grad_req != "null"]


def _small_shapes() -> list[tuple[int, ...]]:
    return [(64, 64) if i % 2 == 0 else (64,) for i in range(160)]


INFERENCES = {
    **{
        f"{kind}-{n}": Inference(f"{words} of two layers of 650, 35 steps of {n} sequences", kind, (35, n, 650), 1)
        for kind, words in (("lstm", "an LSTM"), ("gru", "a GRU"))
        for n in (1, 4, 32)
    },
    **{
        f"bert-{n}": Inference(f"BERT-base without embeddings on {n} tokens", "bert", (1, n, 768), 0)
        for n in (128, 512)
    },
}
TRAININGS: dict[str, Training | Update] = {
    "train-mlp": Training("784-128-64-10, relu", (64, 784), classes=10),
    "train-mlp-eager": Training("784-128-64-10, relu, not hybridized", (64, 784), classes=10, hybridize=False),
    "train-lenet": Training("LeNet with 20 and 50 channels, tanh", (64, 1, 28, 28), classes=10),
    "train-resnet18": Training("resnet18_v1", (32, 3, 32, 32), classes=10, rate=1e-4, tolerance=_RECTIFIED),
    "train-resnet50": Training("resnet50_v1", (8, 3, 224, 224), classes=1000, rate=1e-5, tolerance=_RECTIFIED),
    "train-mobilenet": Training("mobilenet_v2_1_0", (8, 3, 224, 224), classes=1000, rate=1e-5, tolerance=_RECTIFIED),
    "train-lstm": Training("an LSTM of two layers, squares of its outputs", (35, 32, 650), batch_axis=1, rate=1.0),
    "train-bert": Training("4 encoder layers of BERT-base", (8, 128, 768), rate=1.0),
    "train-adam": Update("Adam on the weights of resnet50_v1", ("adam", {"learning_rate": 1e-3}), _resnet50_shapes),
    "train-sgd-small": Update("SGD with momentum on 160 small weights", ("sgd", _MOMENTUM), _small_shapes),
}


def batch_of(arrays: Arrays) -> Arrays:
    """The arrays of a suite's batch; empty for an update."""
    return {name: array for name, array in arrays.items() if name in ("x", "y")}
