"""Converts images to arrays for a model: size, range of values, order of channels and axes, in parts or as presets."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..ir.lazy_dataclass import dataclass
from .errors import ToolError, UsageError

if TYPE_CHECKING:
    from PIL.Image import Image

SUFFIXES = frozenset((".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif", ".ppm"))


@dataclass(frozen=True)
class ImageOptions:
    """The conversion of an image. Pixels are in [0, `range`], RGB; then `mean` is subtracted and the result divided by
    `std`, each one number or one per channel; then `bgr` reverses channels and `nhwc` puts them last.

    `resize` is the length of the shorter side, with proportions kept, and `size` the (height, width) of the centre that
    is cut out then. Without `resize` the image is resized just to cover `size`; with `squash` it is stretched to it.
    """

    size: tuple[int, int] | None = None
    resize: int | None = None
    squash: bool = False
    range: float = 1.0
    mean: Sequence[float] = (0.0,)
    std: Sequence[float] = (1.0,)
    bgr: bool = False
    nhwc: bool = False


PRESETS = {
    "imagenet": ImageOptions(size=(224, 224), resize=256, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)),
    "insightface": ImageOptions(size=(112, 112), range=255),
    "ssd": ImageOptions(size=(512, 512), squash=True, range=255, mean=(123, 117, 104)),
}
"""What the models of gluon.model_zoo, of InsightFace's recognition and of MXNet's SSD example were trained with."""


def image_options(options: argparse.Namespace, inputs: Sequence[Path]) -> ImageOptions:
    """The options of images on the command line: those of the preset, replaced by those that were given.

    UsageError if some were given and none of the files `inputs` is an image.
    """
    named = {f.name: v for f in fields(ImageOptions) if (v := getattr(options, f.name)) not in (None, False)}
    if (named or options.preset) and not any(path.suffix.lower() in SUFFIXES for path in inputs):
        raise UsageError(f"--{next(iter(named), 'preset')} is for images, and no --input is an image")
    if "squash" in named and "resize" in named:
        raise UsageError("--squash stretches images to --size; --resize keeps their proportions: pass one of them")
    preset = PRESETS[options.preset] if options.preset else ImageOptions()
    if "squash" in named or "resize" in named:
        preset = replace(preset, squash=False, resize=None)
    combined = replace(preset, **named)
    if combined.squash and combined.size is None:
        raise UsageError("--squash stretches images to --size H,W: pass --size")
    return combined


def read_image(path: Path, options: ImageOptions) -> np.ndarray:
    """An image as float32 (1, 3, H, W), or (1, H, W, 3) with `nhwc`. Resizing is bilinear."""
    image = _resized(_opened(path), path, options)
    mean, std = (_per_channel(v, n) for v, n in ((options.mean, "--mean"), (options.std, "--std")))
    pixels = np.asarray(image, np.float32) * np.float32(options.range / 255)
    pixels = (pixels - mean) / std
    if options.bgr:
        pixels = pixels[:, :, ::-1]
    return np.ascontiguousarray((pixels if options.nhwc else pixels.transpose(2, 0, 1))[None], np.float32)


def _opened(path: Path) -> Image:
    try:
        from PIL import Image
    except ImportError:
        raise ToolError(f"{path}: images require Pillow: pip install pillow") from None
    try:
        with Image.open(path) as opened:
            return opened.convert("RGB")
    except FileNotFoundError:
        raise
    except Exception as error:  # Pillow's parsers raise various errors for damaged files
        raise ToolError(f"{path}: is not an image that Pillow can read ({type(error).__name__})") from error


def _resized(image: Image, path: Path, options: ImageOptions) -> Image:
    from PIL.Image import Resampling

    width, height = image.size
    size = options.size
    if options.squash and size is not None:
        return image.resize((size[1], size[0]), Resampling.BILINEAR)
    if options.resize is not None:
        scale = options.resize / min(width, height)
    else:
        scale = max(size[0] / height, size[1] / width) if size is not None else 1.0
    if scale != 1.0:
        image = image.resize((max(1, round(width * scale)), max(1, round(height * scale))), Resampling.BILINEAR)
    if size is None:
        return image
    left, top = (image.width - size[1]) // 2, (image.height - size[0]) // 2
    if left < 0 or top < 0:
        raise UsageError(f"{path}: is {image.height} x {image.width} after --resize, smaller than --size {size}")
    return image.crop((left, top, left + size[1], top + size[0]))


def _per_channel(values: Sequence[float], option: str) -> np.ndarray:
    if len(values) not in (1, 3):
        raise UsageError(f"{option}: expects one number or three, not {len(values)}")
    if option == "--std" and 0 in values:
        raise UsageError("--std: must not be 0")
    return np.asarray(values, np.float32)
