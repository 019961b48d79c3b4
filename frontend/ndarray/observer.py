"""A builder of core graphs that detects whether an operator depends on training mode."""

from __future__ import annotations

from typing import Any

from ...ir.dialects.mx.builder import MxBuilder


class ObservingBuilder(MxBuilder):
    """`asked` is True if `training` was read."""

    def __init__(self, name: str, *, training: bool, own_gradients: bool = False) -> None:
        self._training = training
        super().__init__(name, training=training, own_gradients=own_gradients)
        self.asked = False

    @property
    def training(self) -> Any:
        """MXNet's train mode."""
        self.asked = True
        return self._training

    @training.setter
    def training(self, value: bool) -> None:
        self._training = value
