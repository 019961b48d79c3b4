"""CreateAugmenter, and the part that it shares with CreateDetAugmenter."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.dialects.mx.image_colors import COLOR_COMPONENTS, COLOR_DEVIATIONS
from .. import ndarray as nd
from ..ndarray import NDArray
from .augmenters import (
    Augmenter,
    CastAug,
    CenterCropAug,
    HorizontalFlipAug,
    RandomCropAug,
    RandomSizedCropAug,
    ResizeAug,
)
from .color_augmenters import ColorJitterAug, ColorNormalizeAug, HueJitterAug, LightingAug, RandomGrayAug

IMAGENET_MEAN = (123.68, 116.28, 103.53)
IMAGENET_STD = (58.395, 57.12, 57.375)


def CreateAugmenter(
    data_shape: tuple[int, int, int],
    resize: int = 0,
    rand_crop: bool = False,
    rand_resize: bool = False,
    rand_mirror: bool = False,
    mean: Any = None,
    std: Any = None,
    brightness: float = 0,
    contrast: float = 0,
    saturation: float = 0,
    hue: float = 0,
    pca_noise: float = 0,
    rand_gray: float = 0,
    inter_method: int = 2,
) -> list[Augmenter]:
    """A list of augmenters for images of `data_shape` (C, H, W).

    `resize` is the shorter side at the start. `rand_resize` requires `rand_crop`. `mean` and `std` are arrays, None, or
    True for those of ImageNet. See the augmenters for the other arguments.
    """
    augmenters: list[Augmenter] = [ResizeAug(resize, inter_method)] if resize > 0 else []
    size = data_shape[2], data_shape[1]
    if rand_resize:
        assert rand_crop
        augmenters.append(RandomSizedCropAug(size, 0.08, (3.0 / 4.0, 4.0 / 3.0), inter_method))
    else:
        augmenters.append((RandomCropAug if rand_crop else CenterCropAug)(size, inter_method))
    if rand_mirror:
        augmenters.append(HorizontalFlipAug(0.5))
    augmenters.append(CastAug())
    augmenters += color_augmenters(brightness, contrast, saturation, hue, pca_noise, rand_gray)
    mean = nd.array(IMAGENET_MEAN) if mean is True else mean
    std = nd.array(IMAGENET_STD) if std is True else std
    return augmenters + normalizers(mean, std, (np.ndarray, NDArray))


def color_augmenters(
    brightness: float, contrast: float, saturation: float, hue: float, pca_noise: float, rand_gray: float
) -> list[Augmenter]:
    """The random changes of colours whose ranges are not 0."""
    augmenters: list[Augmenter] = []
    if brightness or contrast or saturation:
        augmenters.append(ColorJitterAug(brightness, contrast, saturation))
    if hue:
        augmenters.append(HueJitterAug(hue))
    if pca_noise > 0:
        augmenters.append(LightingAug(pca_noise, COLOR_DEVIATIONS, COLOR_COMPONENTS))
    if rand_gray > 0:
        augmenters.append(RandomGrayAug(rand_gray))
    return augmenters


def normalizers(mean: Any, std: Any, classes: tuple[type, ...]) -> list[Augmenter]:
    """ColorNormalizeAug if there is a mean or a deviation. AssertionError unless they are arrays of 1 or 3 numbers."""
    for values in (mean, std):
        assert values is None or (isinstance(values, classes) and values.shape[0] in (1, 3))
    return [] if mean is None and std is None else [ColorNormalizeAug(mean, std)]
