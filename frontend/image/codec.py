"""Decodes and resizes images with OpenCV, as MXNet does; Pillow decodes too where OpenCV is not installed."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from ..base import MXNetError
from ..whole_imports import import_whole


def opencv() -> Any:
    """The module cv2; ImportError that says what needs it."""
    try:
        return import_whole("cv2")
    except ImportError as error:
        raise ImportError("this work on images needs OpenCV: pip install opencv-python-headless") from error


def decode(data: bytes, color: bool, rgb: bool) -> np.ndarray:
    """An encoded image as uint8: (H, W, 3) in RGB or BGR, or (H, W, 1) without `color`. MXNetError when it is none."""
    try:
        cv2 = opencv()
    except ImportError:
        return _decode_with_pillow(data, color, rgb)
    image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR if color else cv2.IMREAD_GRAYSCALE)
    if image is None:
        raise MXNetError(f"Decoding failed. Invalid image file: {len(data)} bytes are no image that OpenCV knows")
    if not color:
        return image[:, :, None]
    return np.ascontiguousarray(image[:, :, ::-1]) if rgb else image


def _decode_with_pillow(data: bytes, color: bool, rgb: bool) -> np.ndarray:
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError("decoding images needs OpenCV or Pillow: pip install pillow") from error
    try:
        image = np.asarray(Image.open(io.BytesIO(data)).convert("RGB" if color else "L"))
    except Exception as error:
        raise MXNetError(f"Decoding failed. Invalid image file: {error}") from error
    if not color:
        return image[:, :, None]
    return image if rgb else np.ascontiguousarray(image[:, :, ::-1])


def resize(image: np.ndarray, width: int, height: int, interp: int) -> np.ndarray:
    """An image (H, W, C) at another size; `interp` is OpenCV's: 0 nearest, 1 linear, 2 cubic, 3 area, 4 Lanczos."""
    out = opencv().resize(image, (width, height), interpolation=interp)
    return out.reshape(height, width, image.shape[2])
