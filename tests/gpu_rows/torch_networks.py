"""The networks of the hardware table in PyTorch: those of the suites of `mxforge bench`, and two more."""

from __future__ import annotations

from importlib.machinery import SourceFileLoader
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

_SUITES = Path(__file__).resolve().parents[2] / "tools/bench/training_torch.py"


def network_of(torch: Any, name: str, shape: list[int]) -> Any:
    """A network for inputs of this shape."""
    nn, networks = torch.nn, _networks(torch)
    if name == "small":
        widths = [shape[-1], *[128] * 6]
        dense = [(nn.Linear(a, b), nn.ReLU()) for a, b in pairwise(widths)]
        return nn.Sequential(*(layer for pair in dense for layer in pair))
    if name == "resnet18_thumbnail":
        return _thumbnail(nn, networks)
    if name == "mobilenet_v2":
        return networks.mobilenet()
    return networks.resnet50() if name == "resnet50" else networks.NETWORKS[name]()


def _networks(torch: Any) -> Any:
    """The networks of the suites, from a file that imports nothing of mxforge."""
    loader = SourceFileLoader("suites_of_torch", str(_SUITES))
    module = ModuleType(loader.name)
    loader.exec_module(module)
    return module.Networks(torch)


def _thumbnail(nn: Any, networks: Any) -> Any:
    """ResNet-18 for images of 32 x 32: the stem is one convolution of 3 x 3."""
    net = networks.resnet18()
    return nn.Sequential(nn.Conv2d(3, 64, 3, padding=1, bias=False), *list(net)[4:])
