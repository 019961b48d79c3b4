"""`mxforge.gluon.contrib.cnn`: deformable convolutions."""

from __future__ import annotations

from .conv_layers import DeformableConvolution, ModulatedDeformableConvolution

__all__ = ["DeformableConvolution", "ModulatedDeformableConvolution"]
