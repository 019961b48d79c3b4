"""Image functions if OpenCV is not installed: Pillow decodes and encodes, NumPy computes the rest.

Results equal OpenCV's, except that grayscale values computed from colours can differ by 1.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base import MXNetError
from ..tracebacks import cause_of

_FORMATS = {".JPG": "JPEG", ".JPEG": "JPEG", ".PNG": "PNG"}
_BORDERS = {1: "edge", 2: "symmetric", 3: "wrap", 4: "reflect"}
"""The mode of `np.pad` for OpenCV's border types. Type 0, a constant border, is handled separately."""
_ISOLATED = 16
"""A flag of OpenCV's border types that means nothing for an image that is no part of another."""
_GREY = np.array([4899, 9617, 1868])
"""OpenCV's weights of red, green and blue for grayscale, times 2^14."""


def _pillow() -> Any:
    """The module PIL.Image. If it is missing, raises ImportError with an instruction to install it."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError("image functions require Pillow or OpenCV: pip install pillow") from error
    return Image


def decode(data: bytes, color: bool, rgb: bool, upright: bool) -> np.ndarray:
    """Decode an image to uint8: (H, W, 3) in RGB or BGR, or (H, W, 1) without `color`. With `upright`, the EXIF
    orientation is applied.

    Raises MXNetError if `data` is not an image.
    """
    image = _open(data, "L" if not color else "RGB")
    if upright:
        from PIL import ImageOps

        image = ImageOps.exif_transpose(image)
    pixels = _bytes_of(image)
    if not color:
        return _grey(pixels)[:, :, None]
    pixels = _colors(pixels)
    return pixels if rgb else np.ascontiguousarray(pixels[:, :, ::-1])


def decode_unchanged(data: bytes) -> np.ndarray:
    """Decode an image with its channels unchanged: (H, W), (H, W, 3) in BGR or (H, W, 4) in BGRA.

    The result is uint8, or uint16 for 16-bit grayscale.
    """
    image = _open(data, None)
    if image.mode.startswith("I"):
        return np.asarray(image).astype(np.uint16)
    pixels = _bytes_of(image)
    if pixels.ndim == 2:
        return pixels
    return np.ascontiguousarray(pixels[:, :, [2, 1, 0, *range(3, pixels.shape[2])]])


def encode(image: np.ndarray, img_fmt: str, quality: int) -> bytes:
    """Encode an image (H, W), (H, W, 3) in BGR or (H, W, 4) in BGRA in the file format with suffix `img_fmt`.

    `quality` is 1 to 100 for .jpg, and the compression level 0 to 9 for .png. Raises MXNetError for an unknown format.
    """
    image_format = _FORMATS.get(img_fmt.upper()) or _pillow().registered_extensions().get(img_fmt.lower())
    if image_format is None:
        raise MXNetError(f"pack_img: Pillow does not support the image format {img_fmt!r}")
    pixels = _storable(np.asarray(image), image_format)
    options = {"JPEG": {"quality": quality}, "PNG": {"compress_level": quality}}.get(image_format, {})
    file = io.BytesIO()
    _pillow().fromarray(np.ascontiguousarray(pixels)).save(file, image_format, **options)
    return file.getvalue()


def _storable(image: np.ndarray, image_format: str) -> np.ndarray:
    """The pixels in RGB order as a file of this kind holds them: as in OpenCV, JPEG without alpha, and 8 bits except
    in PNG. MXNetError for 16-bit colours, which Pillow lacks."""
    if image.ndim == 3:
        alpha = range(3, 3 if image_format == "JPEG" else image.shape[2])
        image = image[:, :, [2, 1, 0, *alpha]] if image.shape[2] > 1 else image[:, :, 0]
    if image_format != "PNG" or image.dtype != np.uint16:
        return _saturate(image, np.dtype(np.uint8))
    if image.ndim == 3:
        raise MXNetError("PNG files with 16-bit colours require OpenCV: pip install opencv-python-headless")
    return image


def add_border(
    image: np.ndarray, edges: tuple[int, int, int, int], border_type: int, values: Sequence[float]
) -> np.ndarray:
    """Add borders of these widths (top, bottom, left, right) to an image (H, W, C).

    `border_type` is OpenCV's border type; 0 fills with `values` per channel. Raises MXNetError for an unknown type.
    """
    top, bottom, left, right = edges
    border_type &= ~_ISOLATED
    widths = ((top, bottom), (left, right), (0, 0))
    if border_type in _BORDERS:
        return np.pad(image, widths, mode=_BORDERS[border_type])  # type: ignore[call-overload]
    if border_type != 0:
        raise MXNetError(f"copyMakeBorder: type={border_type} is not one of 0, {', '.join(map(str, _BORDERS))}")
    height, width, channels = image.shape
    result = np.empty((height + top + bottom, width + left + right, channels), image.dtype)
    result[:] = _saturate([*values, 0, 0, 0, 0][:channels], image.dtype)
    result[top : top + height, left : left + width] = image
    return result


def _saturate(values: Sequence[float] | np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Convert numbers to a dtype. For an integer dtype, they are rounded and clipped to its range."""
    if dtype.kind == "f":
        return np.asarray(values, dtype)
    bounds = np.iinfo(dtype)
    return np.clip(np.rint(values), bounds.min, bounds.max).astype(dtype)


def _open(data: bytes, draft: str | None) -> Any:
    """Open an image with Pillow. With `draft` "L", the decoder returns grayscale if it supports that.

    Raises MXNetError if `data` is not an image.
    """
    pillow = _pillow()
    try:
        image = pillow.open(io.BytesIO(data))
        if draft == "L":
            image.draft(draft, image.size)
        image.load()
    except Exception as error:
        raise MXNetError(f"Decoding failed. Invalid image file: {error}") from cause_of(error)
    return image


def _bytes_of(image: Any) -> np.ndarray:
    """The pixels of an image as uint8: (H, W), (H, W, 3) in RGB or (H, W, 4) in RGBA."""
    if image.mode.startswith("I"):
        return (np.asarray(image) >> 8).astype(np.uint8)
    if image.mode not in ("L", "RGB", "RGBA"):
        image = image.convert("L" if image.mode == "1" else "RGBA" if "A" in image.mode else "RGB")
    return np.asarray(image)


def _grey(pixels: np.ndarray) -> np.ndarray:
    if pixels.ndim == 2:
        return pixels
    return ((pixels[:, :, :3] @ _GREY + (1 << 13)) >> 14).astype(np.uint8)


def _colors(pixels: np.ndarray) -> np.ndarray:
    if pixels.ndim == 2:
        return np.repeat(pixels[:, :, None], 3, axis=2)
    return np.ascontiguousarray(pixels[:, :, :3])
