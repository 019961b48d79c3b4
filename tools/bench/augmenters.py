"""The suites of augmenters: what each does with 32 photographs, and its arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...frontend.image_codec.codec import encode
from ...ir.lazy_dataclass import dataclass

Arrays = dict[str, np.ndarray]

_COUNT = 32
_CROP = {"rand_crop": True, "rand_mirror": True, "mean": True, "std": True}
_COLORS = {"brightness": 0.1, "contrast": 0.1, "saturation": 0.1, "hue": 0.1, "pca_noise": 0.1, "rand_gray": 0.1}
_JITTER = {**_CROP, **_COLORS, "rand_resize": True}
_BOXES = {"rand_crop": 0.5, "rand_pad": 0.5, "rand_mirror": True, "mean": True, "std": True, **_COLORS}


@dataclass(frozen=True)
class ImageWork:
    """Work on photographs of about 375 x 500 in JPEG, one by one or by an iterator that reads them from a record file.

    `augment` are the arguments of CreateAugmenter or CreateDetAugmenter, or None to decode alone.
    """

    words: str
    iterator: str = ""
    augment: dict[str, Any] | None = None
    tolerance: float = 1e-5

    def arrays(self) -> Arrays:
        """The encoded photographs, the same in every run."""
        g = np.random.default_rng(0)
        return {f"photograph{i}": np.frombuffer(_photograph(g), np.uint8) for i in range(_COUNT)}

    def spec(self) -> dict[str, Any]:
        return {"iterator": self.iterator, "augment": self.augment}


_ROUNDED = 0.02
"""The tolerance where images are resized: OpenCV's versions may round some of their 256 values otherwise."""

AUGMENTERS = {
    "augment-decode": ImageWork("decode"),
    "augment-crop": ImageWork("crop, mirror, normalize; decoded before", "", _CROP),
    "augment-jitter": ImageWork(
        "crop, resize, mirror, jitter colours, normalize; decoded before", "", _JITTER, _ROUNDED
    ),
    "augment-iter-crop": ImageWork("ImageIter: decode, crop, mirror, normalize", "ImageIter", _CROP),
    "augment-iter-jitter": ImageWork("ImageIter: decode, and what augment-jitter does", "ImageIter", _JITTER, _ROUNDED),
    "augment-iter-detection": ImageWork("ImageDetIter: crop, pad, resize, jitter", "ImageDetIter", _BOXES, _ROUNDED),
}


def _photograph(g: np.random.Generator) -> bytes:
    """A random picture with details of several sizes, which takes about as many bytes as a photograph."""
    height, width = int(g.integers(330, 420)), int(g.integers(440, 560))
    picture = g.normal(128, 6, (height, width, 3))
    for size in (4, 16, 64):
        coarse = g.normal(0, size**0.5 * 5, (height // size + 2, width // size + 2, 3))
        picture += _enlarged(_enlarged(coarse, 0, size, height), 1, size, width)
    return encode(np.clip(picture, 0, 255).astype(np.uint8), ".jpg", 90)


def _enlarged(x: np.ndarray, axis: int, factor: int, extent: int) -> np.ndarray:
    """x with linear interpolation between its elements along an axis."""
    whole, part = np.divmod(np.arange(extent), factor)
    part = np.expand_dims(part / factor, tuple(range(1, x.ndim - axis)))
    return x.take(whole, axis) * (1 - part) + x.take(whole + 1, axis) * part
