"""`mxforge.io`: data batches and iterators."""

from __future__ import annotations

from .csv_reader import CSVIter
from .image_iterators import (
    ImageRecordInt8Iter,
    ImageRecordIter,
    ImageRecordIter_v1,
    ImageRecordUInt8Iter,
    ImageRecordUInt8Iter_v1,
)
from .io import DataBatch, DataDesc, DataIter, NDArrayIter, ResizeIter
from .prefetching import PrefetchingIter
from .streams import MXDataIter
