"""`mxforge.io`: batches of data and iterators over them."""

from __future__ import annotations

from .io import DataBatch, DataDesc, DataIter, NDArrayIter, ResizeIter
from .prefetching import PrefetchingIter
