"""MobileNet of Howard et al. and MobileNetV2 of Sandler et al., "Inverted residuals and linear bottlenecks"."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from ....context import Context
from ... import nn
from ...block import HybridBlock
from ..model_store import CPU, MODELS_FOLDER, load_pretrained
from .classifier import Classifier

__all__ = [
    "MobileNet",
    "MobileNetV2",
    "get_mobilenet",
    "get_mobilenet_v2",
    "mobilenet1_0",
    "mobilenet0_75",
    "mobilenet0_5",
    "mobilenet0_25",
    "mobilenet_v2_1_0",
    "mobilenet_v2_0_75",
    "mobilenet_v2_0_5",
    "mobilenet_v2_0_25",
]

_V1_WIDTHS = [32, 64] + [128] * 2 + [256] * 2 + [512] * 6 + [1024] * 2
_V1_STRIDES = [1, 2] * 3 + [1] * 5 + [2, 1]
_V2_WIDTHS = [32, 16] + [24] * 2 + [32] * 3 + [64] * 4 + [96] * 3 + [160] * 3 + [320]
_V2_EXPANSIONS = [1] + [6] * 16
_V2_STRIDES = [1, 2] * 2 + [1, 1, 2] + [1] * 6 + [2] + [1] * 3


class RELU6(HybridBlock):
    """min(max(x, 0), 6)."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.clip(x, 0, 6, name="relu6")


def _add_conv(
    out: nn.HybridSequential,
    channels: int = 1,
    kernel: int = 1,
    stride: int = 1,
    pad: int = 0,
    num_group: int = 1,
    active: bool = True,
    relu6: bool = False,
) -> None:
    out.add(nn.Conv2D(channels, kernel, stride, pad, groups=num_group, use_bias=False))
    out.add(nn.BatchNorm(scale=True))
    if active:
        out.add(RELU6() if relu6 else nn.Activation("relu"))


class LinearBottleneck(HybridBlock):
    """Expands the channels by the factor `t`, applies a depthwise convolution, and projects without an activation."""

    def __init__(self, in_channels: int, channels: int, t: int, stride: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.use_shortcut = stride == 1 and in_channels == channels
        wide = in_channels * t
        with self.name_scope():
            self.out = nn.HybridSequential()
            _add_conv(self.out, wide, relu6=True)
            _add_conv(self.out, wide, kernel=3, stride=stride, pad=1, num_group=wide, relu6=True)
            _add_conv(self.out, channels, active=False, relu6=True)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        out = self.out(x)
        return F.elemwise_add(out, x) if self.use_shortcut else out


class MobileNet(Classifier):
    """Depthwise separable convolutions. `multiplier`, at least 0.25, scales the channels of all layers."""

    def __init__(self, multiplier: float = 1.0, classes: int = 1000, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        widths = [int(width * multiplier) for width in _V1_WIDTHS]
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            with self.features.name_scope():
                _add_conv(self.features, channels=widths[0], kernel=3, pad=1, stride=2)
                for (before, after), stride in zip(pairwise(widths), _V1_STRIDES, strict=True):
                    _add_conv(self.features, before, kernel=3, stride=stride, pad=1, num_group=before)
                    _add_conv(self.features, after)
                self.features.add(nn.GlobalAvgPool2D(), nn.Flatten())
            self.output = nn.Dense(classes)


class MobileNetV2(Classifier):
    """Linear bottlenecks with shortcuts. `multiplier` scales the channels of all layers."""

    def __init__(self, multiplier: float = 1.0, classes: int = 1000, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        widths = [int(width * multiplier) for width in _V2_WIDTHS]
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="features_")
            with self.features.name_scope():
                _add_conv(self.features, widths[0], kernel=3, stride=2, pad=1, relu6=True)
                for (before, after), t, stride in zip(pairwise(widths), _V2_EXPANSIONS, _V2_STRIDES, strict=True):
                    self.features.add(LinearBottleneck(in_channels=before, channels=after, t=t, stride=stride))
                _add_conv(self.features, int(1280 * multiplier) if multiplier > 1.0 else 1280, relu6=True)
                self.features.add(nn.GlobalAvgPool2D())
            self.output = nn.HybridSequential(prefix="output_")
            with self.output.name_scope():
                self.output.add(nn.Conv2D(classes, 1, use_bias=False, prefix="pred_"), nn.Flatten())


def _version(multiplier: float) -> str:
    """The multiplier as written in the names of weight files: 1.0, 0.75, 0.5, 0.25."""
    text = f"{multiplier:.2f}"
    return text[:-1] if text in ("1.00", "0.50") else text


def get_mobilenet(
    multiplier: float, pretrained: bool = False, ctx: Context = CPU, root: str = MODELS_FOLDER, **kwargs: Any
) -> MobileNet:
    """The MobileNet with this width multiplier."""
    name = f"mobilenet{_version(multiplier)}"
    return load_pretrained(MobileNet(multiplier, **kwargs), name, pretrained, ctx, root)


def get_mobilenet_v2(
    multiplier: float, pretrained: bool = False, ctx: Context = CPU, root: str = MODELS_FOLDER, **kwargs: Any
) -> MobileNetV2:
    """The MobileNetV2 with this width multiplier."""
    name = f"mobilenetv2_{_version(multiplier)}"
    return load_pretrained(MobileNetV2(multiplier, **kwargs), name, pretrained, ctx, root)


def mobilenet1_0(**kwargs: Any) -> MobileNet:
    """`get_mobilenet(1.0, ...)`."""
    return get_mobilenet(1.0, **kwargs)


def mobilenet0_75(**kwargs: Any) -> MobileNet:
    """`get_mobilenet(0.75, ...)`."""
    return get_mobilenet(0.75, **kwargs)


def mobilenet0_5(**kwargs: Any) -> MobileNet:
    """`get_mobilenet(0.5, ...)`."""
    return get_mobilenet(0.5, **kwargs)


def mobilenet0_25(**kwargs: Any) -> MobileNet:
    """`get_mobilenet(0.25, ...)`."""
    return get_mobilenet(0.25, **kwargs)


def mobilenet_v2_1_0(**kwargs: Any) -> MobileNetV2:
    """`get_mobilenet_v2(1.0, ...)`."""
    return get_mobilenet_v2(1.0, **kwargs)


def mobilenet_v2_0_75(**kwargs: Any) -> MobileNetV2:
    """`get_mobilenet_v2(0.75, ...)`."""
    return get_mobilenet_v2(0.75, **kwargs)


def mobilenet_v2_0_5(**kwargs: Any) -> MobileNetV2:
    """`get_mobilenet_v2(0.5, ...)`."""
    return get_mobilenet_v2(0.5, **kwargs)


def mobilenet_v2_0_25(**kwargs: Any) -> MobileNetV2:
    """`get_mobilenet_v2(0.25, ...)`."""
    return get_mobilenet_v2(0.25, **kwargs)
