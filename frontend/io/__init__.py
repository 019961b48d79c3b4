"""`mxforge.io`: batches of data and iterators over them."""

from __future__ import annotations

from ..absent import refuse_absent
from .io import DataBatch, DataDesc, DataIter, NDArrayIter, ResizeIter
from .prefetching import PrefetchingIter

__getattr__ = refuse_absent(__name__, "io")
