"""VGG of Simonyan and Zisserman, "Very deep convolutional networks for large-scale image recognition"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....context import Context
from ....initializer import Xavier
from ... import nn
from ..model_store import CPU, MODELS_FOLDER, load_pretrained
from .classifier import Classifier

__all__ = [
    "VGG",
    "get_vgg",
    "vgg11",
    "vgg13",
    "vgg16",
    "vgg19",
    "vgg11_bn",
    "vgg13_bn",
    "vgg16_bn",
    "vgg19_bn",
]

_FILTERS = [64, 128, 256, 512, 512]
vgg_spec: dict[int, tuple[list[int], list[int]]] = {
    11: ([1, 1, 2, 2, 2], _FILTERS),
    13: ([2, 2, 2, 2, 2], _FILTERS),
    16: ([2, 2, 3, 3, 3], _FILTERS),
    19: ([2, 2, 4, 4, 4], _FILTERS),
}
"""By number of layers: convolutions per stage, and their channels."""


class VGG(Classifier):
    """Stages of 3 x 3 convolutions, each followed by pooling, and three dense layers."""

    def __init__(
        self,
        layers: Sequence[int],
        filters: Sequence[int],
        classes: int = 1000,
        batch_norm: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        assert len(layers) == len(filters)
        dense: dict[str, Any] = {"weight_initializer": "normal", "bias_initializer": "zeros"}
        with self.name_scope():
            self.features = self._make_features(layers, filters, batch_norm)
            for _ in range(2):
                self.features.add(nn.Dense(4096, activation="relu", **dense), nn.Dropout(rate=0.5))
            self.output = nn.Dense(classes, **dense)

    def _make_features(self, layers: Sequence[int], filters: Sequence[int], batch_norm: bool) -> nn.HybridSequential:
        out = nn.HybridSequential(prefix="")
        for count, channels in zip(layers, filters, strict=True):
            for _ in range(count):
                initializer = Xavier(rnd_type="gaussian", factor_type="out", magnitude=2)
                out.add(nn.Conv2D(channels, 3, padding=1, weight_initializer=initializer, bias_initializer="zeros"))
                if batch_norm:
                    out.add(nn.BatchNorm())
                out.add(nn.Activation("relu"))
            out.add(nn.MaxPool2D(strides=2))
        return out


def get_vgg(
    num_layers: int, pretrained: bool = False, ctx: Context = CPU, root: str = MODELS_FOLDER, **kwargs: Any
) -> VGG:
    """The VGG of 11, 13, 16 or 19 layers, with batch normalization if `batch_norm`."""
    name = f"vgg{num_layers}" + "_bn" * bool(kwargs.get("batch_norm"))
    return load_pretrained(VGG(*vgg_spec[num_layers], **kwargs), name, pretrained, ctx, root)


def vgg11(**kwargs: Any) -> VGG:
    """`get_vgg(11, ...)`."""
    return get_vgg(11, **kwargs)


def vgg13(**kwargs: Any) -> VGG:
    """`get_vgg(13, ...)`."""
    return get_vgg(13, **kwargs)


def vgg16(**kwargs: Any) -> VGG:
    """`get_vgg(16, ...)`."""
    return get_vgg(16, **kwargs)


def vgg19(**kwargs: Any) -> VGG:
    """`get_vgg(19, ...)`."""
    return get_vgg(19, **kwargs)


def vgg11_bn(**kwargs: Any) -> VGG:
    """`get_vgg(11, ...)` with batch normalization."""
    return get_vgg(11, **{**kwargs, "batch_norm": True})


def vgg13_bn(**kwargs: Any) -> VGG:
    """`get_vgg(13, ...)` with batch normalization."""
    return get_vgg(13, **{**kwargs, "batch_norm": True})


def vgg16_bn(**kwargs: Any) -> VGG:
    """`get_vgg(16, ...)` with batch normalization."""
    return get_vgg(16, **{**kwargs, "batch_norm": True})


def vgg19_bn(**kwargs: Any) -> VGG:
    """`get_vgg(19, ...)` with batch normalization."""
    return get_vgg(19, **{**kwargs, "batch_norm": True})
