"""`mxforge.io`: data batches and iterators."""

from __future__ import annotations

from .io import DataBatch, DataDesc, DataIter, NDArrayIter, ResizeIter
from .prefetching import PrefetchingIter
