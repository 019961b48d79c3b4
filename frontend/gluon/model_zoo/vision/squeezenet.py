"""SqueezeNet of Iandola et al., versions 1.0 and 1.1."""

from __future__ import annotations

from typing import Any

from ....context import Context
from ... import nn
from ...contrib.nn import HybridConcurrent
from ..model_store import CPU, MODELS_FOLDER, load_pretrained
from .classifier import Classifier

__all__ = ["SqueezeNet", "squeezenet1_0", "squeezenet1_1"]

_LAYERS: dict[str, tuple[tuple[int, int], tuple[int, ...]]] = {
    "1.0": ((96, 7), (0, 16, 16, 32, 0, 32, 48, 48, 64, 0, 64)),
    "1.1": ((64, 3), (0, 16, 16, 0, 32, 32, 0, 48, 48, 64, 64)),
}
"""By version: channels and kernel of the first convolution; then the squeezed channels of each fire module, or 0 for a
pooling layer."""


def _make_fire_conv(channels: int, kernel: int, padding: int = 0) -> nn.HybridSequential:
    out = nn.HybridSequential(prefix="")
    out.add(nn.Conv2D(channels, kernel, padding=padding), nn.Activation("relu"))
    return out


def _make_fire(squeeze_channels: int, expand1x1_channels: int, expand3x3_channels: int) -> nn.HybridSequential:
    """A fire module: a 1 x 1 convolution to few channels, then 1 x 1 and 3 x 3 convolutions in parallel."""
    out = nn.HybridSequential(prefix="")
    out.add(_make_fire_conv(squeeze_channels, 1))
    expanded = HybridConcurrent(axis=1, prefix="")
    expanded.add(_make_fire_conv(expand1x1_channels, 1), _make_fire_conv(expand3x3_channels, 3, 1))
    out.add(expanded)
    return out


class SqueezeNet(Classifier):
    """SqueezeNet for images of 224 x 224; `version` is "1.0" or "1.1"."""

    def __init__(self, version: str, classes: int = 1000, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        assert version in _LAYERS, f"Unsupported SqueezeNet version {version}:1.0 or 1.1 expected"
        (channels, kernel), layers = _LAYERS[version]
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            self.features.add(nn.Conv2D(channels, kernel_size=kernel, strides=2), nn.Activation("relu"))
            for squeezed in layers:
                pooling = nn.MaxPool2D(pool_size=3, strides=2, ceil_mode=True) if not squeezed else None
                self.features.add(pooling or _make_fire(squeezed, 4 * squeezed, 4 * squeezed))
            self.features.add(nn.Dropout(0.5))
            self.output = nn.HybridSequential(prefix="")
            self.output.add(nn.Conv2D(classes, kernel_size=1), nn.Activation("relu"), nn.AvgPool2D(13), nn.Flatten())


def get_squeezenet(
    version: str, pretrained: bool = False, ctx: Context = CPU, root: str = MODELS_FOLDER, **kwargs: Any
) -> SqueezeNet:
    """The SqueezeNet of version "1.0" or "1.1"."""
    return load_pretrained(SqueezeNet(version, **kwargs), f"squeezenet{version}", pretrained, ctx, root)


def squeezenet1_0(**kwargs: Any) -> SqueezeNet:
    """`get_squeezenet("1.0", ...)`."""
    return get_squeezenet("1.0", **kwargs)


def squeezenet1_1(**kwargs: Any) -> SqueezeNet:
    """`get_squeezenet("1.1", ...)`."""
    return get_squeezenet("1.1", **kwargs)
