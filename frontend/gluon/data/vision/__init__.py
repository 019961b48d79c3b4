"""`mxforge.gluon.data.vision`: datasets of images, and transforms of images."""

from __future__ import annotations

from ....absent import refuse_absent
from . import datasets, transforms
from .datasets import ImageFolderDataset, ImageRecordDataset

__getattr__ = refuse_absent(__name__, "gluon.data.vision")
