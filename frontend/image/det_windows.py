"""DetRandomCropAug and DetRandomPadAug: move an image into a random window, and its labels with it."""

from __future__ import annotations

import logging
import random
import warnings
from collections.abc import Iterator
from math import sqrt
from typing import Any

import numpy as np

from ..base import numeric_types
from ..ndarray import NDArray
from .det_augmenters import DetAugmenter, Labelled
from .functions import copyMakeBorder, fixed_crop

Range = tuple[float, float]
Window = tuple[int, int, int, int]
"""(x, y, width, height) in pixels."""


def _range(value: Any, what: str, user: str) -> Any:
    """A range; a number is a range that contains only itself."""
    if isinstance(value, tuple | list):
        return value
    assert isinstance(value, numeric_types)
    logging.getLogger().info("Using fixed %s: %s in %s", what, value, user)
    return value, value


def _areas(boxes: np.ndarray) -> np.ndarray:
    """The areas of boxes (xmin, ymin, xmax, ymax, ...); 0 if an extent is negative."""
    return np.maximum(0, boxes[:, 3] - boxes[:, 1]) * np.maximum(0, boxes[:, 2] - boxes[:, 0])


def _vector(labels: np.ndarray, *values: float) -> np.ndarray:
    """Numbers in the dtype of labels, in which MXNet computes with them; float64 for labels of integers."""
    return np.array(values, labels.dtype if labels.dtype.kind == "f" else np.float64)


class _RandomWindowAug(DetAugmenter):
    """What both augmenters share: ranges for the aspect ratio and the area, and the number of attempts."""

    def __init__(self, aspect_ratio_range: Any, area_range: Any, max_attempts: int, parameters: str) -> None:
        """`parameters` are the names of the attributes that `dumps` shows."""
        name = type(self).__name__
        self.aspect_ratio_range: Range = _range(aspect_ratio_range, "aspect ratio", name)
        self.area_range: Range = _range(area_range, "area range", name)
        self.max_attempts = max_attempts
        super().__init__(**{key: getattr(self, key) for key in parameters.split()})

    def _is_enabled(self, least_area: float) -> bool:
        """False, with a warning, if a range is empty or the largest area is at most `least_area`."""
        for what, valid in (
            ("area_range", self.area_range[1] > least_area and self.area_range[0] <= self.area_range[1]),
            ("aspect_ratio_range", 0 < self.aspect_ratio_range[0] <= self.aspect_ratio_range[1]),
        ):
            if not valid:
                text = f"Skip {type(self).__name__} due to invalid {what}: {getattr(self, what)}"
                warnings.warn(text, stacklevel=3)
                return False
        return True

    def _ratios(self) -> Iterator[float]:
        """Random aspect ratios, one for each attempt."""
        for _ in range(self.max_attempts):
            ratio = random.uniform(*self.aspect_ratio_range)
            if ratio > 0:
                yield ratio

    def _areas_of(self, height: int, width: int) -> tuple[float, float]:
        """The least and the greatest area of a window for an image."""
        return self.area_range[0] * height * width, self.area_range[1] * height * width


class DetRandomCropAug(_RandomWindowAug):
    """Crops a random window that covers enough of the objects, and removes objects that are mostly outside of it.

    Args:
        min_object_covered: The window must cover more than this fraction of each object that it meets.
        aspect_ratio_range: The range of width / height, or one number.
        area_range: The range of the area as a fraction of the image, or one number.
        min_eject_coverage: An object stays if more than this fraction of it is in the window.
        max_attempts: If no random window is valid after so many, the image stays as it is.
    """

    def __init__(
        self,
        min_object_covered: float = 0.1,
        aspect_ratio_range: Any = (0.75, 1.33),
        area_range: Any = (0.05, 1.0),
        min_eject_coverage: float = 0.3,
        max_attempts: int = 50,
    ) -> None:
        self.min_object_covered, self.min_eject_coverage = min_object_covered, min_eject_coverage
        parameters = "min_object_covered aspect_ratio_range area_range min_eject_coverage max_attempts"
        super().__init__(aspect_ratio_range, area_range, max_attempts, parameters)
        self.enabled = self._is_enabled(0)

    def __call__(self, src: NDArray, label: np.ndarray) -> Labelled:
        crop = self._random_crop_proposal(label, src.shape[0], src.shape[1])
        if not crop:
            return src, label
        x, y, width, height, label = crop
        return fixed_crop(src, x, y, width, height, None), label

    def _random_crop_proposal(self, label: np.ndarray, height: int, width: int) -> Any:
        """A window and its labels, (x, y, width, height, labels), or () without a valid one."""
        if not self.enabled or height <= 0 or width <= 0:
            return ()
        for ratio in self._ratios():
            size = self._random_size(ratio, height, width)
            if size is None:
                continue
            w, h = size
            y, x = random.randint(0, max(0, height - h)), random.randint(0, max(0, width - w))
            if self._check_satisfy_constraints(label, x, y, x + w, y + h, width, height):
                moved = self._update_labels(label, (x, y, w, h), height, width)
                if moved is not None:
                    return x, y, w, h, moved
        return ()

    def _random_size(self, ratio: float, height: int, width: int) -> tuple[int, int] | None:
        """A random width and height with an aspect ratio, or None if rounded ones are out of range."""
        least, greatest = self._areas_of(height, width)
        h, max_h = round(sqrt(least / ratio)), round(sqrt(greatest / ratio))
        if round(max_h * ratio) > width:
            max_h = int((width + 0.4999999) / ratio)  # the greatest that rounds to at most the width
        max_h = min(max_h, height)
        h = min(h, max_h)
        if h < max_h:
            h = random.randint(h, max_h)
        w = round(h * ratio)
        assert w <= width
        if w * h < least:
            h += 1
            w = round(h * ratio)
        if w * h > greatest:
            h -= 1
            w = round(h * ratio)
        return (w, h) if least <= w * h <= greatest and 0 <= w <= width and 0 <= h <= height else None

    def _calculate_areas(self, label: np.ndarray) -> np.ndarray:
        return _areas(label)

    def _intersect(self, label: np.ndarray, xmin: float, ymin: float, xmax: float, ymax: float) -> np.ndarray:
        """The parts of boxes that are in a window, all in fractions of the image; zeros for a box outside of it."""
        parts = label.copy()
        parts[:, :2] = np.maximum(label[:, :2], _vector(label, xmin, ymin))
        parts[:, 2:4] = np.minimum(label[:, 2:4], _vector(label, xmax, ymax))
        parts[(parts[:, :2] >= parts[:, 2:4]).any(1)] = 0
        return parts

    def _check_satisfy_constraints(
        self, label: np.ndarray, xmin: int, ymin: int, xmax: int, ymax: int, width: int, height: int
    ) -> bool:
        """True if a window, in pixels, covers enough of each object of more than two pixels that it meets."""
        if (xmax - xmin) * (ymax - ymin) < 2:
            return False
        areas = self._calculate_areas(label[:, 1:])
        large = areas * width * height > 2
        if not large.any():
            return False
        parts = self._intersect(label[large, 1:], xmin / width, ymin / height, xmax / width, ymax / height)
        covered = self._calculate_areas(parts) / areas[large]
        covered = covered[covered > 0]
        return bool(covered.size) and bool(covered.min() > self.min_object_covered)

    def _update_labels(self, label: np.ndarray, crop_box: Window, height: int, width: int) -> np.ndarray | None:
        """The labels of the objects that stay, in fractions of the window. None without any."""
        x, y, w, h = crop_box[0] / width, crop_box[1] / height, crop_box[2] / width, crop_box[3] / height
        moved = label.copy()
        moved[:, 1:5] -= _vector(label, x, y, x, y)
        moved[:, 1:5] /= _vector(label, w, h, w, h)
        moved[:, 1:5] = moved[:, 1:5].clip(0, 1)
        with np.errstate(invalid="ignore", divide="ignore"):  # a box without area does not stay
            coverage = self._calculate_areas(moved[:, 1:]) * w * h / self._calculate_areas(label[:, 1:])
        stays = (moved[:, 3] > moved[:, 1]) & (moved[:, 4] > moved[:, 2]) & (coverage > self.min_eject_coverage)
        return moved[stays] if stays.any() else None


class DetRandomPadAug(_RandomWindowAug):
    """Puts the image at a random position into a larger window that is filled with a colour.

    Args:
        aspect_ratio_range: The range of width / height, or one number.
        area_range: The range of the area as a multiple of the image, or one number.
        max_attempts: If no random window is valid after so many, the image stays as it is.
        pad_val: The colour. A number is that of the first channel, the others are 0.
    """

    def __init__(
        self,
        aspect_ratio_range: Any = (0.75, 1.33),
        area_range: Any = (1.0, 3.0),
        max_attempts: int = 50,
        pad_val: Any = (128, 128, 128),
    ) -> None:
        assert isinstance(pad_val, (list, tuple, *numeric_types))
        self.pad_val = pad_val
        super().__init__(
            aspect_ratio_range, area_range, max_attempts, "aspect_ratio_range area_range max_attempts pad_val"
        )
        self.enabled = self._is_enabled(1)

    def __call__(self, src: NDArray, label: np.ndarray) -> Labelled:
        height, width, _ = src.shape
        pad = self._random_pad_proposal(label, height, width)
        if not pad:
            return src, label
        x, y, w, h, label = pad
        return copyMakeBorder(src, y, h - y - height, x, w - x - width, 16, values=self.pad_val), label

    def _random_pad_proposal(self, label: np.ndarray, height: int, width: int) -> Any:
        """A window and its labels, (x, y, width, height, labels), or () without a valid one."""
        if not self.enabled or height <= 0 or width <= 0:
            return ()
        for ratio in self._ratios():
            w, h = self._random_size(ratio, height, width)
            if h - height < 2 or w - width < 2:
                continue
            y, x = random.randint(0, h - height), random.randint(0, w - width)
            return x, y, w, h, self._update_labels(label, (x, y, w, h), height, width)
        return ()

    def _random_size(self, ratio: float, height: int, width: int) -> tuple[int, int]:
        """A random width and height with an aspect ratio, which can be less than those of the image."""
        least, greatest = self._areas_of(height, width)
        h, max_h = round(sqrt(least / ratio)), round(sqrt(greatest / ratio))
        if round(h * ratio) < width:
            h = int((width + 0.499999) / ratio)
        h = min(max(h, height), max_h)
        if h < max_h:
            h = random.randint(h, max_h)
        return round(h * ratio), h

    def _update_labels(self, label: np.ndarray, pad_box: Window, height: int, width: int) -> np.ndarray:
        """The labels in fractions of the window."""
        x, y, w, h = pad_box
        moved = label.copy()
        scale, shift, size = _vector(label, width, height, width, height), _vector(label, x, y, x, y), (w, h, w, h)
        moved[:, 1:5] = (moved[:, 1:5] * scale + shift) / _vector(label, *size)
        return moved
