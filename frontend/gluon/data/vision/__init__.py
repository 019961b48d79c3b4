"""`mxforge.gluon.data.vision`: image datasets and image transforms."""

from __future__ import annotations

from . import datasets, transforms
from .datasets import CIFAR10, CIFAR100, MNIST, FashionMNIST, ImageFolderDataset, ImageListDataset, ImageRecordDataset
