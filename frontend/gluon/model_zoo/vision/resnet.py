"""ResNet of He et al.: version 1 of "Deep residual learning", version 2 of "Identity mappings in residual networks"."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from ....context import Context
from ... import nn
from ...block import HybridBlock
from ..model_store import CPU, MODELS_FOLDER, load_pretrained
from .classifier import Classifier

__all__ = [
    "ResNetV1",
    "ResNetV2",
    "BasicBlockV1",
    "BasicBlockV2",
    "BottleneckV1",
    "BottleneckV2",
    "get_resnet",
    "resnet18_v1",
    "resnet34_v1",
    "resnet50_v1",
    "resnet101_v1",
    "resnet152_v1",
    "resnet18_v2",
    "resnet34_v2",
    "resnet50_v2",
    "resnet101_v2",
    "resnet152_v2",
]


def _conv3x3(channels: int, stride: int, in_channels: int) -> nn.Conv2D:
    return nn.Conv2D(channels, 3, stride, padding=1, use_bias=False, in_channels=in_channels)


def _relu(F: Any, x: Any) -> Any:
    return F.Activation(x, act_type="relu")


class _BlockV1(HybridBlock):
    """The base class of the blocks of version 1: relu(shortcut(x) + body(x)). The shortcut can change the shape."""

    body: nn.HybridSequential
    downsample: nn.HybridSequential | None

    def _make_shortcut(self, channels: int, stride: int, in_channels: int) -> nn.HybridSequential:
        shortcut = nn.HybridSequential(prefix="")
        shortcut.add(nn.Conv2D(channels, 1, stride, use_bias=False, in_channels=in_channels), nn.BatchNorm())
        return shortcut


class BasicBlockV1(_BlockV1):
    """Two 3 x 3 convolutions, for ResNet V1 of 18 and 34 layers."""

    def __init__(
        self, channels: int, stride: int, downsample: bool = False, in_channels: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.body = nn.HybridSequential(prefix="")
        self.body.add(_conv3x3(channels, stride, in_channels), nn.BatchNorm(), nn.Activation("relu"))
        self.body.add(_conv3x3(channels, 1, channels), nn.BatchNorm())
        self.downsample = self._make_shortcut(channels, stride, in_channels) if downsample else None

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        out = self.body(x)
        return _relu(F, (self.downsample(x) if self.downsample else x) + out)


class BottleneckV1(_BlockV1):
    """A 3 x 3 convolution on a quarter of the channels, for ResNet V1 of 50 and more layers."""

    def __init__(
        self, channels: int, stride: int, downsample: bool = False, in_channels: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        narrow = channels // 4
        self.body = nn.HybridSequential(prefix="")
        self.body.add(nn.Conv2D(narrow, kernel_size=1, strides=stride), nn.BatchNorm(), nn.Activation("relu"))
        self.body.add(_conv3x3(narrow, 1, narrow), nn.BatchNorm(), nn.Activation("relu"))
        self.body.add(nn.Conv2D(channels, kernel_size=1, strides=1), nn.BatchNorm())
        self.downsample = self._make_shortcut(channels, stride, in_channels) if downsample else None

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        out = self.body(x)
        return _relu(F, out + (self.downsample(x) if self.downsample else x))


class BasicBlockV2(HybridBlock):
    """Two 3 x 3 convolutions, each preceded by its activation, for ResNet V2 of 18 and 34 layers."""

    def __init__(
        self, channels: int, stride: int, downsample: bool = False, in_channels: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.bn1 = nn.BatchNorm()
        self.conv1 = _conv3x3(channels, stride, in_channels)
        self.bn2 = nn.BatchNorm()
        self.conv2 = _conv3x3(channels, 1, channels)
        self.downsample = _shortcut_v2(channels, stride, in_channels) if downsample else None

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        residual = x
        x = _relu(F, self.bn1(x))
        if self.downsample:
            residual = self.downsample(x)
        x = self.conv1(x)
        x = self.conv2(_relu(F, self.bn2(x)))
        return x + residual


class BottleneckV2(HybridBlock):
    """A 3 x 3 convolution on a quarter of the channels, with preceding activations, for ResNet V2 of 50 and more
    layers."""

    def __init__(
        self, channels: int, stride: int, downsample: bool = False, in_channels: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        narrow = channels // 4
        self.bn1 = nn.BatchNorm()
        self.conv1 = nn.Conv2D(narrow, kernel_size=1, strides=1, use_bias=False)
        self.bn2 = nn.BatchNorm()
        self.conv2 = _conv3x3(narrow, stride, narrow)
        self.bn3 = nn.BatchNorm()
        self.conv3 = nn.Conv2D(channels, kernel_size=1, strides=1, use_bias=False)
        self.downsample = _shortcut_v2(channels, stride, in_channels) if downsample else None

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        residual = x
        x = _relu(F, self.bn1(x))
        if self.downsample:
            residual = self.downsample(x)
        x = self.conv1(x)
        x = self.conv2(_relu(F, self.bn2(x)))
        x = self.conv3(_relu(F, self.bn3(x)))
        return x + residual


def _shortcut_v2(channels: int, stride: int, in_channels: int) -> nn.Conv2D:
    return nn.Conv2D(channels, 1, stride, use_bias=False, in_channels=in_channels)


class _ResNet(Classifier):
    """The base class of both versions: a stem and stages of blocks.

    `channels` has one more entry than `layers`. With `thumbnail`, for small images, the stem is one 3 x 3 convolution.
    """

    def _add_stem(self, channels: int, thumbnail: bool) -> None:
        if thumbnail:
            self.features.add(_conv3x3(channels, 1, 0))
        else:
            self.features.add(nn.Conv2D(channels, 7, 2, 3, use_bias=False), nn.BatchNorm())
            self.features.add(nn.Activation("relu"), nn.MaxPool2D(3, 2, 1))

    def _add_stages(self, block: Any, layers: Sequence[int], channels: Sequence[int]) -> None:
        for stage, (count, (before, after)) in enumerate(zip(layers, pairwise(channels), strict=True), start=1):
            stride = 1 if stage == 1 else 2
            self.features.add(self._make_layer(block, count, after, stride, stage, in_channels=before))

    def _make_layer(
        self, block: Any, layers: int, channels: int, stride: int, stage_index: int, in_channels: int = 0
    ) -> nn.HybridSequential:
        layer = nn.HybridSequential(prefix=f"stage{stage_index}_")
        with layer.name_scope():
            layer.add(block(channels, stride, channels != in_channels, in_channels=in_channels, prefix=""))
            for _ in range(layers - 1):
                layer.add(block(channels, 1, False, in_channels=channels, prefix=""))
        return layer


class ResNetV1(_ResNet):
    """Residual blocks with an activation after each sum. `block` is BasicBlockV1 or BottleneckV1."""

    def __init__(
        self,
        block: Any,
        layers: Sequence[int],
        channels: Sequence[int],
        classes: int = 1000,
        thumbnail: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        assert len(layers) == len(channels) - 1
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            self._add_stem(channels[0], thumbnail)
            self._add_stages(block, layers, channels)
            self.features.add(nn.GlobalAvgPool2D())
            self.output = nn.Dense(classes, in_units=channels[-1])


class ResNetV2(_ResNet):
    """Residual blocks with an activation before each convolution. `block` is BasicBlockV2 or BottleneckV2."""

    def __init__(
        self,
        block: Any,
        layers: Sequence[int],
        channels: Sequence[int],
        classes: int = 1000,
        thumbnail: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        assert len(layers) == len(channels) - 1
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            self.features.add(nn.BatchNorm(scale=False, center=False))
            self._add_stem(channels[0], thumbnail)
            self._add_stages(block, layers, channels)
            self.features.add(nn.BatchNorm(), nn.Activation("relu"), nn.GlobalAvgPool2D(), nn.Flatten())
            self.output = nn.Dense(classes, in_units=channels[-1])


resnet_spec: dict[int, tuple[str, list[int], list[int]]] = {
    18: ("basic_block", [2, 2, 2, 2], [64, 64, 128, 256, 512]),
    34: ("basic_block", [3, 4, 6, 3], [64, 64, 128, 256, 512]),
    50: ("bottle_neck", [3, 4, 6, 3], [64, 256, 512, 1024, 2048]),
    101: ("bottle_neck", [3, 4, 23, 3], [64, 256, 512, 1024, 2048]),
    152: ("bottle_neck", [3, 8, 36, 3], [64, 256, 512, 1024, 2048]),
}
"""By number of layers: kind of block, blocks per stage, channels of the stem and of each stage."""
resnet_net_versions = [ResNetV1, ResNetV2]
resnet_block_versions = [
    {"basic_block": BasicBlockV1, "bottle_neck": BottleneckV1},
    {"basic_block": BasicBlockV2, "bottle_neck": BottleneckV2},
]


def get_resnet(
    version: int,
    num_layers: int,
    pretrained: bool = False,
    ctx: Context = CPU,
    root: str = MODELS_FOLDER,
    **kwargs: Any,
) -> ResNetV1 | ResNetV2:
    """The ResNet of version 1 or 2 with 18, 34, 50, 101 or 152 layers. Other numbers raise AssertionError."""
    assert num_layers in resnet_spec, f"Invalid number of layers: {num_layers}. Options are {resnet_spec.keys()}"
    assert version in (1, 2), f"Invalid resnet version: {version}. Options are 1 and 2."
    kind, layers, channels = resnet_spec[num_layers]
    net = resnet_net_versions[version - 1](resnet_block_versions[version - 1][kind], layers, channels, **kwargs)
    return load_pretrained(net, f"resnet{num_layers}_v{version}", pretrained, ctx, root)


def resnet18_v1(**kwargs: Any) -> Any:
    """`get_resnet(1, 18, ...)`."""
    return get_resnet(1, 18, **kwargs)


def resnet34_v1(**kwargs: Any) -> Any:
    """`get_resnet(1, 34, ...)`."""
    return get_resnet(1, 34, **kwargs)


def resnet50_v1(**kwargs: Any) -> Any:
    """`get_resnet(1, 50, ...)`."""
    return get_resnet(1, 50, **kwargs)


def resnet101_v1(**kwargs: Any) -> Any:
    """`get_resnet(1, 101, ...)`."""
    return get_resnet(1, 101, **kwargs)


def resnet152_v1(**kwargs: Any) -> Any:
    """`get_resnet(1, 152, ...)`."""
    return get_resnet(1, 152, **kwargs)


def resnet18_v2(**kwargs: Any) -> Any:
    """`get_resnet(2, 18, ...)`."""
    return get_resnet(2, 18, **kwargs)


def resnet34_v2(**kwargs: Any) -> Any:
    """`get_resnet(2, 34, ...)`."""
    return get_resnet(2, 34, **kwargs)


def resnet50_v2(**kwargs: Any) -> Any:
    """`get_resnet(2, 50, ...)`."""
    return get_resnet(2, 50, **kwargs)


def resnet101_v2(**kwargs: Any) -> Any:
    """`get_resnet(2, 101, ...)`."""
    return get_resnet(2, 101, **kwargs)


def resnet152_v2(**kwargs: Any) -> Any:
    """`get_resnet(2, 152, ...)`."""
    return get_resnet(2, 152, **kwargs)
