"""`mxforge.gluon.contrib.data`: texts for language models, and an experimental sampler."""

from __future__ import annotations

from . import sampler, text
from .sampler import IntervalSampler
