"""The base class of the networks in this folder: a feature extractor and an output layer."""

from __future__ import annotations

from typing import Any

from ... import nn
from ...block import HybridBlock


class Classifier(HybridBlock):
    """Maps images (N, 3, H, W) to scores (N, classes): `output(features(x))`."""

    features: nn.HybridSequential
    output: HybridBlock

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return self.output(self.features(x))
