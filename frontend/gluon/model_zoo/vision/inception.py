"""Inception v3 of Szegedy et al., "Rethinking the Inception architecture for computer vision"."""

from __future__ import annotations

from typing import Any

from ....context import Context
from ... import nn
from ...block import HybridBlock
from ...contrib.nn import HybridConcurrent
from ..model_store import CPU, MODELS_FOLDER, load_pretrained
from .classifier import Classifier

__all__ = ["Inception3", "inception_v3"]

Pair = tuple[int, int]


def _conv(channels: int, kernel: int | Pair, strides: int = 1, padding: int | Pair = 0) -> nn.HybridSequential:
    """A convolution (without bias), then batch normalization, then ReLU."""
    out = nn.HybridSequential(prefix="")
    out.add(nn.Conv2D(channels, kernel, strides, padding, use_bias=False))
    out.add(nn.BatchNorm(epsilon=0.001), nn.Activation("relu"))
    return out


def _chain(*layers: Any) -> nn.HybridSequential:
    out = nn.HybridSequential(prefix="")
    out.add(*layers)
    return out


def _average_pool() -> HybridBlock:
    return nn.AvgPool2D(pool_size=3, strides=1, padding=1)


def _max_pool() -> HybridBlock:
    return nn.MaxPool2D(pool_size=3, strides=2)


def _split(channels: int) -> HybridConcurrent:
    """A 1 x 3 and a 3 x 1 convolution in parallel, concatenated along the channels."""
    out = HybridConcurrent(axis=1, prefix="")
    out.add(_chain(_conv(channels, (1, 3), padding=(0, 1))), _chain(_conv(channels, (3, 1), padding=(1, 0))))
    return out


def _branches_a(pool_features: int) -> list[Any]:
    return [
        _chain(_conv(64, 1)),
        _chain(_conv(48, 1), _conv(64, 5, padding=2)),
        _chain(_conv(64, 1), _conv(96, 3, padding=1), _conv(96, 3, padding=1)),
        _chain(_average_pool(), _conv(pool_features, 1)),
    ]


def _branches_b() -> list[Any]:
    return [
        _chain(_conv(384, 3, 2)),
        _chain(_conv(64, 1), _conv(96, 3, padding=1), _conv(96, 3, 2)),
        _chain(_max_pool()),
    ]


def _branches_c(c: int) -> list[Any]:
    row, column = (0, 3), (3, 0)
    return [
        _chain(_conv(192, 1)),
        _chain(_conv(c, 1), _conv(c, (1, 7), padding=row), _conv(192, (7, 1), padding=column)),
        _chain(
            _conv(c, 1),
            _conv(c, (7, 1), padding=column),
            _conv(c, (1, 7), padding=row),
            _conv(c, (7, 1), padding=column),
            _conv(192, (1, 7), padding=row),
        ),
        _chain(_average_pool(), _conv(192, 1)),
    ]


def _branches_d() -> list[Any]:
    return [
        _chain(_conv(192, 1), _conv(320, 3, 2)),
        _chain(
            _conv(192, 1),
            _conv(192, (1, 7), padding=(0, 3)),
            _conv(192, (7, 1), padding=(3, 0)),
            _conv(192, 3, 2),
        ),
        _chain(_max_pool()),
    ]


def _branches_e() -> list[Any]:
    return [
        _chain(_conv(320, 1)),
        _chain(_chain(_conv(384, 1)), _split(384)),
        _chain(_chain(_conv(448, 1), _conv(384, 3, padding=1)), _split(384)),
        _chain(_average_pool(), _conv(192, 1)),
    ]


def _module(prefix: str, branches: Any, *arguments: int) -> HybridConcurrent:
    """Parallel branches, concatenated along the channels."""
    out = HybridConcurrent(axis=1, prefix=prefix)
    with out.name_scope():
        out.add(*branches(*arguments))
    return out


def make_aux(classes: int) -> nn.HybridSequential:
    """The auxiliary classifier, which is used only in training."""
    return _chain(nn.AvgPool2D(pool_size=5, strides=3), _conv(128, 1), _conv(768, 5), nn.Flatten(), nn.Dense(classes))


class Inception3(Classifier):
    """Inception v3, for images of 299 x 299."""

    def __init__(self, classes: int = 1000, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = _chain(
                _conv(32, 3, 2),
                _conv(32, 3),
                _conv(64, 3, padding=1),
                _max_pool(),
                _conv(80, 1),
                _conv(192, 3),
                _max_pool(),
                _module("A1_", _branches_a, 32),
                _module("A2_", _branches_a, 64),
                _module("A3_", _branches_a, 64),
                _module("B_", _branches_b),
                _module("C1_", _branches_c, 128),
                _module("C2_", _branches_c, 160),
                _module("C3_", _branches_c, 160),
                _module("C4_", _branches_c, 192),
                _module("D_", _branches_d),
                _module("E1_", _branches_e),
                _module("E2_", _branches_e),
                nn.AvgPool2D(pool_size=8),
                nn.Dropout(0.5),
            )
            self.output = nn.Dense(classes)


def inception_v3(pretrained: bool = False, ctx: Context = CPU, root: str = MODELS_FOLDER, **kwargs: Any) -> Inception3:
    """Inception v3. With `pretrained`, weights are loaded from `root` and downloaded if missing."""
    return load_pretrained(Inception3(**kwargs), "inceptionv3", pretrained, ctx, root)
