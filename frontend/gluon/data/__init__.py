"""`mxforge.gluon.data`: datasets, the order in which samples are taken, and batches of them."""

from __future__ import annotations

from . import dataloader, dataset, sampler, vision
from .dataloader import DataLoader
from .dataset import ArrayDataset, Dataset, RecordFileDataset, SimpleDataset
from .sampler import BatchSampler, FilterSampler, RandomSampler, Sampler, SequentialSampler
