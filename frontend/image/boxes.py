"""Labels of objects in an image, as ImageDetIter reads them, and what it needs to draw them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ndarray import NDArray
from .create_augmenter import IMAGENET_MEAN, IMAGENET_STD


def parse_label(label: Any) -> np.ndarray:
    """The objects of a raw label, (objects, width), without those whose box is empty; see ImageDetIter for the format.

    RuntimeError if the label is too short, is not made of whole objects, or has no valid one.
    """
    raw = np.ravel(label.asnumpy() if isinstance(label, NDArray) else label)
    if raw.size < 7:
        raise RuntimeError(f"Label shape is invalid: {raw.shape}")
    header_width, object_width = int(raw[0]), int(raw[1])
    if object_width < 5 or (raw.size - header_width) % object_width:
        raise RuntimeError(f"Label shape {raw.shape} inconsistent with annotation width {object_width}.")
    objects = raw[header_width:].reshape(-1, object_width)
    valid = (objects[:, 3] > objects[:, 1]) & (objects[:, 4] > objects[:, 2])
    if not valid.any():
        raise RuntimeError("Encounter sample with no valid label.")
    return objects[valid]


def require_valid(label: np.ndarray) -> None:
    """Raise RuntimeError unless the shape is (objects, 5 or more), and some object has a class and a box."""
    if label.ndim != 2 or label.shape[1] < 5:
        raise RuntimeError(f"Label with shape (1+, 5+) required, {label} received.")
    if not ((label[:, 0] >= 0) & (label[:, 3] > label[:, 1]) & (label[:, 4] > label[:, 2])).any():
        raise RuntimeError("Invalid label occurs.")


def revert_normalization(image: np.ndarray, mean: Any, std: Any) -> np.ndarray:
    """`image * std + mean`. None leaves a factor out, True is that of ImageNet; otherwise they are NumPy arrays."""
    for values, known, change in ((std, IMAGENET_STD, np.multiply), (mean, IMAGENET_MEAN, np.add)):
        if values is None:
            continue
        values = np.array(known) if values is True else values
        assert isinstance(values, np.ndarray) and values.shape[0] in (1, 3)
        image = change(image, values)
    return image
