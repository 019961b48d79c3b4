"""What images need where OpenCV is not installed: Pillow decodes and encodes, NumPy does the rest.

The elements are OpenCV's, except that grey values that are made of colours may differ by 1.
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
"""By OpenCV's number of a kind of border: the mode of `np.pad`. 0 is a border of one colour."""
_GREY = np.array([4899, 9617, 1868])
"""What red, green and blue count for grey, as OpenCV has it, in parts of 2 ^ 14."""


def _pillow() -> Any:
    """The module PIL.Image; ImportError that says what needs it."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError("work on images needs Pillow or OpenCV: pip install pillow") from error
    return Image


def decode(data: bytes, color: bool, rgb: bool) -> np.ndarray:
    """An encoded image as uint8, turned as its EXIF data says: (H, W, 3) in RGB or BGR, or (H, W, 1) without `color`.

    MXNetError when it is none.
    """
    image = _open(data, "L" if not color else "RGB")
    from PIL import ImageOps

    pixels = _bytes_of(ImageOps.exif_transpose(image))
    if not color:
        return _grey(pixels)[:, :, None]
    pixels = _colors(pixels)
    return pixels if rgb else np.ascontiguousarray(pixels[:, :, ::-1])


def decode_unchanged(data: bytes) -> np.ndarray:
    """An encoded image with the channels it has: (H, W), (H, W, 3) in BGR or (H, W, 4) in BGRA; grey ones of 16 bits
    keep them."""
    image = _open(data, None)
    if image.mode.startswith("I"):
        return np.asarray(image).astype(np.uint16)
    pixels = _bytes_of(image)
    if pixels.ndim == 2:
        return pixels
    return np.ascontiguousarray(pixels[:, :, [2, 1, 0, *range(3, pixels.shape[2])]])


def encode(image: np.ndarray, img_fmt: str, quality: int) -> bytes:
    """An image (H, W), (H, W, 3) in BGR or (H, W, 4) in BGRA as the content of a file of the format that the suffix
    `img_fmt` names; `quality` is from 1 to 100 for .jpg and the compression from 1 to 9 for .png."""
    kind = _FORMATS.get(img_fmt.upper()) or _pillow().registered_extensions().get(img_fmt.lower())
    if kind is None:
        raise MXNetError(f"pack_img: Pillow knows no image format {img_fmt!r}")
    image = np.asarray(image)
    if image.ndim == 3:
        image = image[:, :, [2, 1, 0, *range(3, image.shape[2])]] if image.shape[2] > 1 else image[:, :, 0]
    options = {"JPEG": {"quality": quality}, "PNG": {"compress_level": quality}}.get(kind, {})
    made = io.BytesIO()
    _pillow().fromarray(np.ascontiguousarray(image)).save(made, kind, **options)
    return made.getvalue()


def add_border(image: np.ndarray, edges: tuple[int, int, int, int], kind: int, values: Sequence[float]) -> np.ndarray:
    """An image (H, W, C) with borders of these widths (top, bottom, left, right); `kind` is OpenCV's: 0 fills with
    `values` by channel. MXNetError for another number."""
    top, bottom, left, right = edges
    widths = ((top, bottom), (left, right), (0, 0))
    if kind in _BORDERS:
        return np.pad(image, widths, mode=_BORDERS[kind])  # type: ignore[call-overload]
    if kind != 0:
        raise MXNetError(f"copyMakeBorder: type={kind} is none of 0, {', '.join(map(str, _BORDERS))}")
    height, width, channels = image.shape
    made = np.empty((height + top + bottom, width + left + right, channels), image.dtype)
    made[:] = _saturated([*values, 0, 0, 0, 0][:channels], image.dtype)
    made[top : top + height, left : left + width] = image
    return made


def _saturated(values: Sequence[float], dtype: np.dtype) -> np.ndarray:
    """Numbers in a dtype: integers are rounded and bounded."""
    if dtype.kind == "f":
        return np.asarray(values, dtype)
    bounds = np.iinfo(dtype)
    return np.clip(np.rint(values), bounds.min, bounds.max).astype(dtype)


def _open(data: bytes, draft: str | None) -> Any:
    """The image in a file's content, with the decoder set to this mode if it can do so. MXNetError when it is none."""
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
    """The elements of an image in 8 bits: (H, W), (H, W, 3) in RGB or (H, W, 4) in RGBA."""
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
