"""`mxforge.gluon.data`: datasets, samplers and batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import batchify, dataloader, dataset, sampler
from .dataloader import DataLoader
from .dataset import ArrayDataset, Dataset, RecordFileDataset, SimpleDataset
from .sampler import BatchSampler, FilterSampler, RandomSampler, Sampler, SequentialSampler

if TYPE_CHECKING:
    from . import vision
