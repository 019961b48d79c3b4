"""What the networks of this folder share: features first, then an output layer on them."""

from __future__ import annotations

from typing import Any

from ... import nn
from ...block import HybridBlock


class Classifier(HybridBlock):
    """Images (N, 3, H, W) to scores (N, classes): `output(features(x))`."""

    features: nn.HybridSequential
    output: HybridBlock

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return self.output(self.features(x))
