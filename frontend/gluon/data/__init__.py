"""`mxforge.gluon.data`: datasets, samplers and batches."""

from __future__ import annotations

from . import batchify, dataloader, dataset, sampler, vision
from .dataloader import DataLoader
from .dataset import ArrayDataset, Dataset, RecordFileDataset, SimpleDataset
from .sampler import BatchSampler, FilterSampler, RandomSampler, Sampler, SequentialSampler
