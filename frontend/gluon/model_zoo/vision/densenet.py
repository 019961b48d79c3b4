"""DenseNet-BC of Huang et al., "Densely connected convolutional networks"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....context import Context
from ... import nn
from ...contrib.nn import HybridConcurrent, Identity
from ..model_store import CPU, MODELS_FOLDER, load_pretrained
from .classifier import Classifier

__all__ = ["DenseNet", "densenet121", "densenet161", "densenet169", "densenet201"]

densenet_spec: dict[int, tuple[int, int, list[int]]] = {
    121: (64, 32, [6, 12, 24, 16]),
    161: (96, 48, [6, 12, 36, 24]),
    169: (64, 32, [6, 12, 32, 32]),
    201: (64, 32, [6, 12, 48, 32]),
}
"""By number of layers: channels of the first convolution, channels added per layer, layers per block."""


def _normalized(*layers: Any) -> tuple[Any, ...]:
    return (nn.BatchNorm(), nn.Activation("relu"), *layers)


def _make_dense_layer(growth_rate: int, bn_size: int, dropout: float) -> HybridConcurrent:
    """A layer that concatenates its input with `growth_rate` new channels computed from it."""
    new = nn.HybridSequential(prefix="")
    new.add(*_normalized(nn.Conv2D(bn_size * growth_rate, kernel_size=1, use_bias=False)))
    new.add(*_normalized(nn.Conv2D(growth_rate, kernel_size=3, padding=1, use_bias=False)))
    if dropout:
        new.add(nn.Dropout(dropout))
    layer = HybridConcurrent(axis=1, prefix="")
    layer.add(Identity(), new)
    return layer


def _make_dense_block(layers: int, bn_size: int, growth_rate: int, dropout: float, stage: int) -> nn.HybridSequential:
    block = nn.HybridSequential(prefix=f"stage{stage}_")
    with block.name_scope():
        for _ in range(layers):
            block.add(_make_dense_layer(growth_rate, bn_size, dropout))
    return block


def _make_transition(channels: int) -> nn.HybridSequential:
    """A transition to `channels` channels at half the resolution."""
    block = nn.HybridSequential(prefix="")
    block.add(*_normalized(nn.Conv2D(channels, kernel_size=1, use_bias=False), nn.AvgPool2D(pool_size=2, strides=2)))
    return block


class DenseNet(Classifier):
    """Dense blocks with transitions between them. A layer reads the outputs of all earlier layers of its block."""

    def __init__(
        self,
        num_init_features: int,
        growth_rate: int,
        block_config: Sequence[int],
        bn_size: int = 4,
        dropout: float = 0,
        classes: int = 1000,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            self.features.add(nn.Conv2D(num_init_features, kernel_size=7, strides=2, padding=3, use_bias=False))
            self.features.add(*_normalized(nn.MaxPool2D(pool_size=3, strides=2, padding=1)))
            channels = num_init_features
            for stage, layers in enumerate(block_config, start=1):
                self.features.add(_make_dense_block(layers, bn_size, growth_rate, dropout, stage))
                channels += layers * growth_rate
                if stage < len(block_config):
                    channels //= 2
                    self.features.add(_make_transition(channels))
            self.features.add(*_normalized(nn.AvgPool2D(pool_size=7), nn.Flatten()))
            self.output = nn.Dense(classes)


def get_densenet(
    num_layers: int, pretrained: bool = False, ctx: Context = CPU, root: str = MODELS_FOLDER, **kwargs: Any
) -> DenseNet:
    """The DenseNet of 121, 161, 169 or 201 layers."""
    net = DenseNet(*densenet_spec[num_layers], **kwargs)
    return load_pretrained(net, f"densenet{num_layers}", pretrained, ctx, root)


def densenet121(**kwargs: Any) -> DenseNet:
    """`get_densenet(121, ...)`."""
    return get_densenet(121, **kwargs)


def densenet161(**kwargs: Any) -> DenseNet:
    """`get_densenet(161, ...)`."""
    return get_densenet(161, **kwargs)


def densenet169(**kwargs: Any) -> DenseNet:
    """`get_densenet(169, ...)`."""
    return get_densenet(169, **kwargs)


def densenet201(**kwargs: Any) -> DenseNet:
    """`get_densenet(201, ...)`."""
    return get_densenet(201, **kwargs)
