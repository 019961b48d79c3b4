"""`mxforge.gluon.contrib.data`: experimental samplers. Data sets of texts are absent."""

from __future__ import annotations

from . import sampler
from .sampler import IntervalSampler
