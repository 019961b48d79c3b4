"""`mxforge.init`: initializers of parameters, selected by the suffix of the name or its `__init__` attribute."""

from __future__ import annotations

from typing import Any

from .. import registry
from ..base import string_types
from ..util import is_np_array
from .base import InitDesc, Initializer, _register, alias, create, register
from .fillers import (
    Bilinear,
    Constant,
    LSTMBias,
    MSRAPrelu,
    Normal,
    One,
    Orthogonal,
    Uniform,
    Xavier,
    Zero,
)
from .fused_rnn import FusedRNN
from .mixtures import Load, Mixed
