"""AlexNet in the one-tower form of Krizhevsky, "One weird trick for parallelizing convolutional neural networks"."""

from __future__ import annotations

from typing import Any

from ....context import Context
from ... import nn
from ..model_store import CPU, MODELS_FOLDER, load_pretrained
from .classifier import Classifier

__all__ = ["AlexNet", "alexnet"]


class AlexNet(Classifier):
    """Five convolutions and three dense layers, for images of 224 x 224."""

    def __init__(self, classes: int = 1000, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            with self.features.name_scope():
                self.features.add(
                    nn.Conv2D(64, kernel_size=11, strides=4, padding=2, activation="relu"),
                    nn.MaxPool2D(pool_size=3, strides=2),
                    nn.Conv2D(192, kernel_size=5, padding=2, activation="relu"),
                    nn.MaxPool2D(pool_size=3, strides=2),
                    nn.Conv2D(384, kernel_size=3, padding=1, activation="relu"),
                    nn.Conv2D(256, kernel_size=3, padding=1, activation="relu"),
                    nn.Conv2D(256, kernel_size=3, padding=1, activation="relu"),
                    nn.MaxPool2D(pool_size=3, strides=2),
                    nn.Flatten(),
                    nn.Dense(4096, activation="relu"),
                    nn.Dropout(0.5),
                    nn.Dense(4096, activation="relu"),
                    nn.Dropout(0.5),
                )
            self.output = nn.Dense(classes)


def alexnet(pretrained: bool = False, ctx: Context = CPU, root: str = MODELS_FOLDER, **kwargs: Any) -> AlexNet:
    """AlexNet. With `pretrained`, weights are loaded from `root` and downloaded if missing."""
    return load_pretrained(AlexNet(**kwargs), "alexnet", pretrained, ctx, root)
