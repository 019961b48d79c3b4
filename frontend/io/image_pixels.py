"""Changes of sizes and colours of images of 8 bits (H, W, C) in BGR order, by OpenCV where it is installed."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.dialects.mx.image_colors import COLOR_COMPONENTS, COLOR_DEVIATIONS
from ..base import MXNetError
from ..image_codec import codec
from ..ndarray import array

_DEVIATIONS, _COMPONENTS = COLOR_DEVIATIONS.astype(np.float32), COLOR_COMPONENTS.astype(np.float32)
_HLS_LIMITS = (180, 255, 255)
_HALF_STEP = 16  # half of 1/32, in units of 1/1024


def require_opencv(what: str) -> Any:
    """The module cv2. MXNetError if it is not installed."""
    cv2 = codec.opencv()
    if cv2 is None:
        raise MXNetError(f"{what} requires OpenCV: pip install opencv-python-headless")
    return cv2


def resize(image: np.ndarray, height: int, width: int, method: int) -> np.ndarray:
    """Resize an image of 8 or 16 bits by OpenCV's interpolation `method`."""
    if min(height, width, *image.shape) < 1:
        raise MXNetError(f"an image of {image.shape[0]} x {image.shape[1]} cannot be resized to {height} x {width}")
    if image.shape[:2] == (height, width):
        return image
    if image.dtype == np.uint16:
        resized = _resize(image.astype(np.float32), height, width, method)
        return np.clip(np.rint(resized), 0, np.iinfo(np.uint16).max).astype(np.uint16)
    return _resize(image, height, width, method)


def _resize(image: np.ndarray, height: int, width: int, method: int) -> np.ndarray:
    """Resize a uint8 or float32 image."""
    resized = codec.resize(image, width, height, method)
    if resized is not None:
        return resized
    from .. import ndarray as nd

    return nd.image.resize(array(image, dtype=image.dtype), size=(width, height), interp=method).asnumpy()


def warp(image: np.ndarray, matrix: np.ndarray, size: tuple[int, int], method: int, fill: int) -> np.ndarray:
    """An affine transformation (2, 3) to a height and width. Pixels outside of the image are `fill`, and 0 in a fourth
    channel, as in MXNet.

    The positions of pixels are rounded to 1/32 as in OpenCV 3, which MXNet has; later versions do not round them.
    """
    cv2 = require_opencv("an affine transformation of images")
    (x, y), fraction = _fixed_positions(matrix.astype(np.float64), size)
    method = cv2.INTER_LINEAR if method == cv2.INTER_AREA else method
    border = {"borderMode": cv2.BORDER_CONSTANT, "borderValue": (fill, fill, fill)}
    return _with_channels(cv2.remap(image, np.dstack((x, y)), fraction, method, **border), image)


def _fixed_positions(matrix: np.ndarray, size: tuple[int, int]) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
    """For each pixel of the result the pixel (x, y) of the image before it, and the distance in units of 1/32: 32 times
    that along y plus that along x."""
    inverse = np.linalg.inv(matrix[:, :2])
    offset = -inverse @ matrix[:, 2]
    rows, columns = np.arange(size[0])[:, None], np.arange(size[1])
    parts = [
        (_fixed(inverse[i, 1] * rows + offset[i]) + _HALF_STEP + _fixed(inverse[i, 0] * columns)) >> 5 for i in range(2)
    ]
    x, y = (np.clip(part >> 5, -(1 << 15), (1 << 15) - 1).astype(np.int16) for part in parts)
    return (x, y), ((parts[1] & 31) * 32 + (parts[0] & 31)).astype(np.uint16)


def _fixed(values: np.ndarray) -> np.ndarray:
    """Numbers in units of 1/1024."""
    return np.rint(np.clip(values * 1024, -(1 << 31), (1 << 31) - 1)).astype(np.int64)


def _with_channels(pixels: np.ndarray, image: np.ndarray) -> np.ndarray:
    """OpenCV omits the axis of a single channel."""
    return pixels.reshape(*pixels.shape[:2], image.shape[2])


def look_up(image: np.ndarray, table: np.ndarray) -> np.ndarray:
    """table[image] for a table of 256 bytes."""
    cv2 = codec.opencv()
    return table[image] if cv2 is None else _with_channels(cv2.LUT(image, table), image)


def scale_values(image: np.ndarray, factor: float, offset: float = 0.0) -> np.ndarray:
    """image * factor + offset, rounded, and clipped to bytes."""
    values = np.arange(256, dtype=np.float32) * np.float32(factor) + np.float32(offset)
    return look_up(image, np.clip(np.rint(values), 0, 255).astype(np.uint8))


def change_contrast(image: np.ndarray, factor: float) -> np.ndarray:
    """Scale the distance of the colours from the image's mean grey."""
    cv2 = require_opencv("a change of contrast")
    mean = cv2.mean(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY))[0]
    return scale_values(image, factor, (1 - factor) * mean)


def change_saturation(image: np.ndarray, factor: float) -> np.ndarray:
    """Scale the distance of each pixel's colours from its grey."""
    cv2 = require_opencv("a change of saturation")
    grey = cv2.cvtColor(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2BGR)
    return cv2.addWeighted(image, factor, grey, 1 - factor, 0)


def shift_hls(image: np.ndarray, hue: int, lightness: int, saturation: int) -> np.ndarray:
    """Add numbers to hue (of 180), lightness and saturation (of 255)."""
    cv2 = require_opencv("a change of hue, lightness and saturation")
    planes = cv2.split(cv2.cvtColor(image, cv2.COLOR_BGR2HLS))
    tables = (
        np.clip(np.arange(256) + shift, 0, limit).astype(np.uint8)
        for shift, limit in zip((hue, lightness, saturation), _HLS_LIMITS, strict=True)
    )
    shifted = [cv2.LUT(plane, table) for plane, table in zip(planes, tables, strict=True)]
    return cv2.cvtColor(cv2.merge(shifted), cv2.COLOR_HLS2BGR)


def add_pca_noise(image: np.ndarray, amounts: np.ndarray) -> np.ndarray:
    """Add the principal components of colours, by these amounts."""
    noise = (_COMPONENTS * (amounts * _DEVIATIONS)).sum(1, dtype=np.float32)
    planes = [
        look_up(
            image[:, :, k : k + 1], np.clip((np.arange(256) + noise[2 - k]).astype(np.int32), 0, 255).astype(np.uint8)
        )
        for k in range(3)
    ]
    return np.concatenate(planes, 2)
