"""Normalizes images: uint8 images (H, W, C) in BGR order become planes (C, H, W) in RGB order of a batch's dtype."""

from __future__ import annotations

import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

from ...ir.dialects.mx.parameters import Bool, Float, Text
from ..base import MXNetError
from ..image_codec import codec
from ..ndarray import array, load, save
from .parameters import Parameters
from .streams import BatchStream

_LOGGER = logging.getLogger(__name__)

_CHANNELS = {1: (0,), 3: (2, 1, 0), 4: (2, 1, 0, 3)}
"""For each plane of a result, the channel of an image in OpenCV's order."""


class NormalizeParameters(Parameters):
    """
    Args:
        mirror: Whether all images are flipped from left to right.
        rand_mirror: Whether a random half of the images is flipped.
        mean_img: A .params file with the mean image, which is subtracted. If it does not exist it is computed from all
            images, and written.
        mean_r, mean_g, mean_b, mean_a: The means of red, green, blue and alpha, which are subtracted.
        std_r, std_g, std_b, std_a: The standard deviations, which divide.
        scale: The factor of all values.
        max_random_contrast: The values are multiplied by 1 plus and minus at most this.
        max_random_illumination: A random number of at most this is added to the values.
    """

    mirror: Bool = False
    rand_mirror: Bool = False
    mean_img: Text = ""
    mean_r: Float = 0.0
    mean_g: Float = 0.0
    mean_b: Float = 0.0
    mean_a: Float = 0.0
    std_r: Float = 1.0
    std_g: Float = 1.0
    std_b: Float = 1.0
    std_a: Float = 1.0
    scale: Float = 1.0
    max_random_contrast: Float = 0.0
    max_random_illumination: Float = 0.0


class DetectionNormalizeParameters(Parameters):
    """
    Args:
        mean_img: A .params file with the mean image, which is subtracted. If it does not exist it is computed from all
            images, and written.
        mean_r, mean_g, mean_b, mean_a: The means of red, green, blue and alpha: subtracted if one is positive.
        std_r, std_g, std_b, std_a: The standard deviations, which divide if they are positive.
        scale: The factor of all values.
    """

    mean_img: Text = ""
    mean_r: Float = 0.0
    mean_g: Float = 0.0
    mean_b: Float = 0.0
    mean_a: Float = 0.0
    std_r: Float = 0.0
    std_g: Float = 0.0
    std_b: Float = 0.0
    std_a: Float = 0.0
    scale: Float = 1.0


class Normalizer(ABC):
    """Writes an image into its place in a batch, mirrored and normalized.

    A byte has only 256 values, so a normalized value is looked up in a table of each channel: the results are those of
    MXNet's arithmetic in float32, and cost one pass.
    """

    def __init__(self, parameters: Any, channels: int) -> None:
        self._channels = _CHANNELS[channels]
        self._mean, self._std = (
            np.array([getattr(parameters, f"{statistic}_{channel}") for channel in "rgba"][:channels], np.float32)
            for statistic in ("mean", "std")
        )
        self._mean_image: np.ndarray | None = None
        self._table: np.ndarray | None = None

    @abstractmethod
    def mirrors(self, random: Random) -> bool:
        """Whether to mirror the next image."""

    @abstractmethod
    def draw(self, random: Random) -> tuple[float, float] | None:
        """The factor and offset of the next image's values, or None if they are the same for all images."""

    @abstractmethod
    def values(self, pixels: np.ndarray, mean: np.ndarray, drawn: tuple[float, float] | None) -> np.ndarray:
        """The normalized values of pixels (C, ...), in the dtype of the batch."""

    def write(self, image: np.ndarray, target: np.ndarray, random: Random) -> None:
        """Write an image (H, W, C) to `target` (C, H, W)."""
        mirrored, drawn = self.mirrors(random), self.draw(random)
        if self._mean_image is None:
            _look_up(image, target, self._channels, self._table_of(drawn), mirrored)
            return
        planes = image[:, :, self._channels].transpose(2, 0, 1).astype(np.float32)
        mean = self._mean_image[:, : image.shape[0], : image.shape[1]]
        values = self.values(planes, mean, drawn)
        target[:] = values[:, :, ::-1] if mirrored else values

    def _table_of(self, drawn: tuple[float, float] | None) -> np.ndarray:
        """The values of all bytes, (C, 256)."""
        if drawn is None and self._table is not None:
            return self._table
        bytes_ = np.broadcast_to(np.arange(256, dtype=np.float32), (len(self._channels), 256))
        table = self.values(bytes_, self._mean[:, None], drawn)
        if drawn is None:
            self._table = table
        return table

    def find_mean_image(
        self, name: str, path: str, shape: tuple[int, ...], images: Callable[[], BatchStream], verbose: bool
    ) -> None:
        """Subtract the mean image in a file. If the file does not exist it is computed from `images`, and written."""
        if not path:
            return
        if os.path.exists(path):
            self._mean_image = _load_mean_image(name, path, shape)
            return
        mean = _mean_image(images())
        save(path, {"mean_img": array(mean)})
        self._mean_image = mean
        if verbose:
            _LOGGER.info("%s wrote the mean of all images to %s", name, path)


class ImageNormalizer(Normalizer):
    """Normalizes images for ImageRecordIter.

    float32: (pixel - mean) * factor + offset; int8: the pixel minus the rounded mean, clipped; uint8: the pixel.
    """

    def __init__(self, parameters: NormalizeParameters, channels: int, dtype: str) -> None:
        super().__init__(parameters, channels)
        self._parameters, self._dtype = parameters, dtype
        self._varies = parameters.max_random_contrast != 0 or parameters.max_random_illumination != 0

    def mirrors(self, random: Random) -> bool:
        return self._parameters.mirror or (self._parameters.rand_mirror and random.random() < 0.5)

    def draw(self, random: Random) -> tuple[float, float] | None:
        if not self._varies:
            return None
        contrast, illumination = self._parameters.max_random_contrast, self._parameters.max_random_illumination
        return random.uniform(1 - contrast, 1 + contrast), random.uniform(-illumination, illumination)

    def values(self, pixels: np.ndarray, mean: np.ndarray, drawn: tuple[float, float] | None) -> np.ndarray:
        if self._dtype == "uint8":
            return pixels.astype(np.uint8)
        if self._dtype == "int8":
            return np.clip(pixels - _rounded(mean), -128, 127).astype(np.int8)
        contrast, illumination = drawn or (1.0, 0.0)
        std = self._std.reshape(-1, *[1] * (pixels.ndim - 1))
        scale = self._parameters.scale
        return (pixels - mean) * (np.float32(contrast * scale) / std) + np.float32(illumination * scale) / std


class DetectionNormalizer(Normalizer):
    """Normalizes images for ImageDetRecordIter: (pixel - mean) / std * scale."""

    def __init__(self, parameters: DetectionNormalizeParameters, channels: int) -> None:
        super().__init__(parameters, channels)
        self._scale = np.float32(parameters.scale)
        if (self._mean <= 0).all():
            self._mean = np.zeros_like(self._mean)
        self._std = np.where(self._std > 0, self._std, np.float32(1))

    def mirrors(self, random: Random) -> bool:
        return False  # the augmenter flips images with their boxes

    def draw(self, random: Random) -> tuple[float, float] | None:
        return None

    def values(self, pixels: np.ndarray, mean: np.ndarray, drawn: tuple[float, float] | None) -> np.ndarray:
        return (pixels - mean) / self._std.reshape(-1, *[1] * (pixels.ndim - 1)) * self._scale


def _rounded(values: np.ndarray) -> np.ndarray:
    """The nearest integers; halves away from zero, as C rounds."""
    return np.trunc(values + np.copysign(np.float32(0.5), values))


def _look_up(
    image: np.ndarray, target: np.ndarray, channels: tuple[int, ...], table: np.ndarray, mirrored: bool
) -> None:
    cv2 = codec.opencv()
    if cv2 is None:
        image = image[:, ::-1] if mirrored else image
        for k, channel in enumerate(channels):
            target[k] = table[k][image[:, :, channel]]
        return
    planes = cv2.split(cv2.flip(image, 1) if mirrored else image)
    for k, channel in enumerate(channels):
        cv2.LUT(planes[channel], table[k], target[k])


def _load_mean_image(name: str, path: str, shape: tuple[int, ...]) -> np.ndarray:
    arrays = load(path)
    means = list(arrays.values()) if isinstance(arrays, dict) else arrays
    if len(means) != 1 or means[0].shape != shape:
        shapes = ", ".join(str(a.shape) for a in means)
        raise MXNetError(f"{name}: mean_img={path!r} must hold one array of shape {shape}, not {shapes}")
    return means[0].asnumpy().astype(np.float32)


def _mean_image(images: BatchStream) -> np.ndarray:
    """The mean of the images of an epoch."""
    total, count = np.zeros((), np.float64), 0
    while (batch := images.next()) is not None:
        there = batch.data.asnumpy()[: batch.data.shape[0] - batch.pad]
        total = total + there.sum(0, dtype=np.float64)
        count += len(there)
    return (total / count).astype(np.float32)
