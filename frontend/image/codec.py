"""Decodes, encodes, resizes and borders images with OpenCV, as MXNet does, or without it where it is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..base import MXNetError
from ..namespace.whole_imports import import_whole
from ..tracebacks import cause_of
from . import without_opencv


def opencv() -> Any:
    """The module cv2, or None where it is not installed."""
    try:
        return import_whole("cv2")
    except ImportError:
        return None


@contextmanager
def refusing(work: str) -> Iterator[None]:
    """MXNetError in place of whatever a library for images raises during `work`."""
    try:
        yield
    except (ImportError, MXNetError):
        raise
    except Exception as error:
        raise MXNetError(f"{work}: {type(error).__name__}: {error}") from cause_of(error)


def require_image(image: np.ndarray) -> None:
    """MXNetError unless the array is an image (H, W, C)."""
    if image.ndim != 3:
        raise MXNetError(f"an image has 3 axes (H, W, C), this has the shape {image.shape}")


def decode(data: bytes, color: bool, rgb: bool) -> np.ndarray:
    """An encoded image as uint8: (H, W, 3) in RGB or BGR, or (H, W, 1) without `color`. MXNetError when it is none."""
    cv2 = opencv()
    if cv2 is None:
        return without_opencv.decode(data, color, rgb)
    with refusing(f"Decoding {len(data)} bytes failed"):
        image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR if color else cv2.IMREAD_GRAYSCALE)
    if image is None:
        raise MXNetError(f"Decoding failed. Invalid image file: {len(data)} bytes are no image that OpenCV knows")
    if not color:
        return image[:, :, None]
    return np.ascontiguousarray(image[:, :, ::-1]) if rgb else image


def resize_bytes(image: np.ndarray, width: int, height: int, interp: int) -> np.ndarray | None:
    """An 8-bit image (H, W, C) at another size, as the operator `image.resize` gives it; None where OpenCV is not
    installed, or would round otherwise: floats and cubic interpolation differ among its versions.

    Images of many sizes are resized here, for each of which the operator would need a program of its own.
    """
    cv2 = opencv()
    if cv2 is None or image.dtype != np.uint8 or interp not in (0, 1, 3, 4) or min(width, height, *image.shape) < 1:
        return None
    with refusing(f"imresize of {image.shape} to w={width}, h={height} with interp={interp}"):
        out = cv2.resize(image, (width, height), interpolation=interp)
    return out.reshape(height, width, image.shape[2])


def add_border(image: np.ndarray, edges: tuple[int, int, int, int], kind: int, values: list[float]) -> np.ndarray:
    """An image (H, W, C) with borders of these widths (top, bottom, left, right); `kind` is OpenCV's: 0 fills with
    `values` by channel. MXNetError for what is no image or no border."""
    require_image(image)
    cv2 = opencv()
    with refusing(f"copyMakeBorder of {image.shape} by {edges} with type={kind}"):
        if cv2 is None:
            return without_opencv.add_border(image, edges, kind, values)
        made = cv2.copyMakeBorder(image, *edges, kind, value=values)
    return made.reshape(*made.shape[:2], image.shape[2])


def decode_packed(data: bytes, iscolor: int) -> np.ndarray | None:
    """An encoded image in BGR as OpenCV gives it for the flag `iscolor` (-1 as it is, 0 grey, 1 colour), or None.

    Without OpenCV MXNetError when it is no image, and for other flags.
    """
    cv2 = opencv()
    if cv2 is not None:
        return cv2.imdecode(np.frombuffer(data, np.uint8), iscolor)
    if iscolor not in (-1, 0, 1):
        raise MXNetError(f"unpack_img: iscolor={iscolor} needs OpenCV: pip install opencv-python-headless")
    if iscolor < 0:
        return without_opencv.decode_unchanged(data)
    image = without_opencv.decode(data, bool(iscolor), rgb=False)
    return image if iscolor else image[:, :, 0]


def encode(image: np.ndarray, img_fmt: str, quality: int) -> bytes:
    """An image in BGR as the content of a file: .jpg of `quality` 1 to 100, .png of compression 1 to 9, others."""
    cv2 = opencv()
    if cv2 is None:
        return without_opencv.encode(image, img_fmt, quality)
    flags = {".JPG": cv2.IMWRITE_JPEG_QUALITY, ".JPEG": cv2.IMWRITE_JPEG_QUALITY, ".PNG": cv2.IMWRITE_PNG_COMPRESSION}
    flag = flags.get(img_fmt.upper())
    done, buffer = cv2.imencode(img_fmt, image, None if flag is None else [flag, quality])
    assert done, "failed to encode image"
    return buffer.tobytes()
