"""`mxforge.gluon.nn`: neural network layers."""

from __future__ import annotations

from ..hybrid_block import HybridBlock
from ..plain_block import Block
from ..symbol_block import SymbolBlock
from .activations import ELU, GELU, SELU, Activation, LeakyReLU, PReLU, Swish
from .basic_layers import Dense, Dropout, Embedding, Flatten, Identity
from .containers import HybridLambda, HybridSequential, Lambda, Sequential
from .conv_layers import (
    AvgPool1D,
    AvgPool2D,
    AvgPool3D,
    Conv1D,
    Conv1DTranspose,
    Conv2D,
    Conv2DTranspose,
    Conv3D,
    Conv3DTranspose,
    GlobalAvgPool1D,
    GlobalAvgPool2D,
    GlobalAvgPool3D,
    GlobalMaxPool1D,
    GlobalMaxPool2D,
    GlobalMaxPool3D,
    MaxPool1D,
    MaxPool2D,
    MaxPool3D,
    ReflectionPad2D,
)
from .normalization import BatchNorm, BatchNormReLU, GroupNorm, InstanceNorm, LayerNorm
