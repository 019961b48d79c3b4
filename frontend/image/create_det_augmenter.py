"""CreateDetAugmenter and CreateMultiRandCropAugmenter."""

from __future__ import annotations

from typing import Any

import numpy as np

from .augmenters import CastAug, ForceResizeAug, ResizeAug
from .create_augmenter import IMAGENET_MEAN, IMAGENET_STD, color_augmenters, normalizers
from .det_augmenters import DetAugmenter, DetBorrowAug, DetHorizontalFlipAug, DetRandomSelectAug
from .det_windows import DetRandomCropAug, DetRandomPadAug


def CreateMultiRandCropAugmenter(
    min_object_covered: Any = 0.1,
    aspect_ratio_range: Any = (0.75, 1.33),
    area_range: Any = (0.05, 1.0),
    min_eject_coverage: Any = 0.3,
    max_attempts: Any = 50,
    skip_prob: float = 0,
) -> DetRandomSelectAug:
    """Several DetRandomCropAug, of which each call applies one, or none with probability `skip_prob`.

    An argument is a value for all of them, or a list with a value for each.
    """
    parameters = (min_object_covered, aspect_ratio_range, area_range, min_eject_coverage, max_attempts)
    columns = [values if isinstance(values, list) else [values] for values in parameters]
    count = max(map(len, columns))
    assert all(len(column) in (1, count) for column in columns), "lists of different lengths"
    rows = zip(*(column * (count // len(column)) for column in columns), strict=True)
    return DetRandomSelectAug([DetRandomCropAug(*row) for row in rows], skip_prob=skip_prob)


def CreateDetAugmenter(
    data_shape: tuple[int, int, int],
    resize: int = 0,
    rand_crop: float = 0,
    rand_pad: float = 0,
    rand_gray: float = 0,
    rand_mirror: bool = False,
    mean: Any = None,
    std: Any = None,
    brightness: float = 0,
    contrast: float = 0,
    saturation: float = 0,
    pca_noise: float = 0,
    hue: float = 0,
    inter_method: int = 2,
    min_object_covered: Any = 0.1,
    aspect_ratio_range: Any = (0.75, 1.33),
    area_range: Any = (0.05, 3.0),
    min_eject_coverage: Any = 0.3,
    max_attempts: int = 50,
    pad_val: Any = (127, 127, 127),
) -> list[DetAugmenter]:
    """A list of augmenters for detection, for images of `data_shape` (C, H, W).

    `rand_crop` and `rand_pad` are probabilities. `mean` and `std` are NumPy arrays, None, or True for those of
    ImageNet. See `CreateMultiRandCropAugmenter`, DetRandomPadAug and `CreateAugmenter` for the other arguments.
    """
    augmenters: list[DetAugmenter] = [DetBorrowAug(ResizeAug(resize, inter_method))] if resize > 0 else []
    if rand_crop > 0:
        crops = (min_object_covered, aspect_ratio_range, area_range, min_eject_coverage, max_attempts)
        augmenters.append(CreateMultiRandCropAugmenter(*crops, skip_prob=1 - rand_crop))
    if rand_mirror > 0:
        augmenters.append(DetHorizontalFlipAug(0.5))
    if rand_pad > 0:
        pad = DetRandomPadAug(aspect_ratio_range, (1.0, area_range[1]), max_attempts, pad_val)
        augmenters.append(DetRandomSelectAug([pad], 1 - rand_pad))
    mean = np.array(IMAGENET_MEAN) if mean is True else mean
    std = np.array(IMAGENET_STD) if std is True else std
    borrowed = [
        ForceResizeAug((data_shape[2], data_shape[1]), inter_method),
        CastAug(),
        *color_augmenters(brightness, contrast, saturation, hue, pca_noise, rand_gray),
        *normalizers(mean, std, (np.ndarray,)),
    ]
    return augmenters + [DetBorrowAug(augmenter) for augmenter in borrowed]
