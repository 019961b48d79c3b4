"""`mxforge.io`: data batches and iterators."""

from __future__ import annotations

from .csv_reader import CSVIter
from .detection_iterator import ImageDetRecordIter
from .image_iterators import (
    ImageRecordInt8Iter,
    ImageRecordIter,
    ImageRecordIter_v1,
    ImageRecordUInt8Iter,
    ImageRecordUInt8Iter_v1,
)
from .io import DataBatch, DataDesc, DataIter, NDArrayIter, ResizeIter
from .libsvm_reader import LibSVMIter
from .mnist_reader import MNISTIter
from .prefetching import PrefetchingIter
from .streams import MXDataIter
