"""`mx.image.detection`: augmenters for images with bounding boxes, and the iterator over their batches."""

from __future__ import annotations

from .create_det_augmenter import CreateDetAugmenter, CreateMultiRandCropAugmenter
from .det_augmenters import (
    DetAugmenter,
    DetBorrowAug,
    DetHorizontalFlipAug,
    DetRandomSelectAug,
)
from .det_iter import ImageDetIter
from .det_windows import DetRandomCropAug, DetRandomPadAug

__all__ = [
    "CreateDetAugmenter",
    "CreateMultiRandCropAugmenter",
    "DetAugmenter",
    "DetBorrowAug",
    "DetHorizontalFlipAug",
    "DetRandomCropAug",
    "DetRandomPadAug",
    "DetRandomSelectAug",
    "ImageDetIter",
]
