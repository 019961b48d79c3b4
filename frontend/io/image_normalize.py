"""Normalizes images: uint8 images (H, W, C) in BGR order become planes (C, H, W) in RGB order of a batch's dtype."""

from __future__ import annotations

import os
from random import Random

import numpy as np

from ...ir.dialects.mx.parameters import Bool, Float, Text
from ..base import MXNetError
from ..image import codec
from ..ndarray import load
from .parameters import Parameters

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


class Normalizer:
    """Writes an image into its place in a batch: mirrored, and normalized as MXNet does for each dtype.

    A byte has only 256 values, so a normalized value is looked up in a table of each channel: the result is that of
    MXNet's arithmetic in float32. float32: (pixel - mean) * factor + offset; int8: the pixel minus the rounded mean,
    clipped; uint8: the pixel.
    """

    def __init__(self, given: NormalizeParameters, channels: int, dtype: np.dtype) -> None:
        self._given, self._dtype = given, dtype
        self._channels = _CHANNELS[channels]
        self._mean = np.array([given.mean_r, given.mean_g, given.mean_b, given.mean_a], np.float32)[:channels, None]
        self._std = np.array([given.std_r, given.std_g, given.std_b, given.std_a], np.float32)[:channels, None]
        self._varies = given.max_random_contrast != 0 or given.max_random_illumination != 0
        self._table = self._make_table(1.0, 0.0)
        self.mean_image: np.ndarray | None = None

    def write(self, image: np.ndarray, target: np.ndarray, random: Random) -> None:
        """Write an image (H, W, C) to `target` (C, H, W)."""
        given = self._given
        mirrored = given.mirror or (given.rand_mirror and random.random() < 0.5)
        contrast, illumination = self._draw(random)
        if self.mean_image is not None and self._dtype != np.uint8:
            self._subtract(self.mean_image, image, target, contrast, illumination)
            if mirrored:
                target[:] = target[:, :, ::-1].copy()
            return
        table = self._make_table(contrast, illumination) if self._varies else self._table
        _look_up(image, target, self._channels, table, mirrored)

    def _draw(self, random: Random) -> tuple[float, float]:
        if not self._varies:
            return 1.0, 0.0
        contrast, illumination = self._given.max_random_contrast, self._given.max_random_illumination
        return random.uniform(1 - contrast, 1 + contrast), random.uniform(-illumination, illumination)

    def _factors(self, contrast: float, illumination: float) -> tuple[np.ndarray, np.ndarray]:
        scale = self._given.scale
        return np.float32(contrast * scale) / self._std, np.float32(illumination * scale) / self._std

    def _make_table(self, contrast: float, illumination: float) -> np.ndarray:
        """The value of each byte, (C, 256)."""
        bytes_ = np.arange(256, dtype=np.float32)[None]
        if self._dtype == np.uint8:
            return np.broadcast_to(bytes_, (len(self._channels), 256)).astype(np.uint8)
        if self._dtype == np.int8:
            return np.clip(bytes_ - _rounded(self._mean), -128, 127).astype(np.int8)
        factor, offset = self._factors(contrast, illumination)
        return (bytes_ - self._mean) * factor + offset

    def _subtract(
        self, mean: np.ndarray, image: np.ndarray, target: np.ndarray, contrast: float, illumination: float
    ) -> None:
        planes = image[:, :, self._channels].transpose(2, 0, 1).astype(np.float32)
        if self._dtype == np.int8:
            np.clip(planes - _rounded(mean), -128, 127, out=target, casting="unsafe")
            return
        factor, offset = self._factors(contrast, illumination)
        target[:] = (planes - mean) * factor[:, :, None] + offset[:, :, None]


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


def load_mean_image(name: str, path: str, shape: tuple[int, ...]) -> np.ndarray | None:
    """The mean image in a file, or None if the file does not exist."""
    if not os.path.exists(path):
        return None
    arrays = load(path)
    found = list(arrays.values()) if isinstance(arrays, dict) else arrays
    if len(found) != 1 or found[0].shape != shape:
        shapes = ", ".join(str(a.shape) for a in found)
        raise MXNetError(f"{name}: mean_img={path!r} must hold one array of shape {shape}, not {shapes}")
    return found[0].asnumpy().astype(np.float32)
