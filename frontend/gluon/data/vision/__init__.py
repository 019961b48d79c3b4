"""`mxforge.gluon.data.vision`: datasets of images, and transforms of images."""

from __future__ import annotations

from . import datasets, transforms
from .datasets import ImageFolderDataset, ImageRecordDataset
