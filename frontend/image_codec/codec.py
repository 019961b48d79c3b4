"""Decodes, encodes, resizes and pads images with OpenCV, as MXNet does, or without it if it is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..base import MXNetError
from ..namespace.atomic_imports import import_atomically
from ..tracebacks import cause_of
from . import without_opencv
from .headers import require_moderate_size

_END_OF_JPEG = b"\xff\xd9"
_loaded: dict[str, Any] = {}


def opencv() -> Any:
    """The module cv2, or None if it is not installed."""
    if "cv2" not in _loaded:
        try:
            _loaded["cv2"] = import_atomically("cv2")
        except ImportError:
            return None
    return _loaded["cv2"]


@contextmanager
def library_errors(work: str) -> Iterator[None]:
    """Convert exceptions of an image library to MXNetError. `work` describes the operation."""
    try:
        yield
    except (ImportError, MXNetError):
        raise
    except Exception as error:
        raise MXNetError(f"{work}: {type(error).__name__}: {error}") from cause_of(error)


def require_image(image: np.ndarray) -> None:
    """Raise MXNetError if the array is not an image (H, W, C)."""
    if image.ndim != 3:
        raise MXNetError(f"an image must have 3 axes (H, W, C), not shape {image.shape}")


def decode(data: bytes, color: bool, rgb: bool, upright: bool) -> np.ndarray:
    """Decode an image to uint8: (H, W, 3) in RGB or BGR, or (H, W, 1) without `color`. With `upright`, the EXIF
    orientation of a JPEG image is applied, as in MXNet's record iterators; they read no other orientation. The missing
    part of a truncated JPEG image is grey.

    Raises MXNetError if `data` is not an image, or if its header claims too many pixels.
    """
    require_moderate_size(data)
    is_jpeg = data.startswith(b"\xff\xd8")
    upright = upright and is_jpeg
    decode_whole = without_opencv.decode if opencv() is None else _decode
    try:
        return decode_whole(data, color, rgb, upright)
    except MXNetError:
        if not is_jpeg or data.endswith(_END_OF_JPEG):
            raise
        return decode_whole(data + _END_OF_JPEG, color, rgb, upright)


def _decode(data: bytes, color: bool, rgb: bool, upright: bool) -> np.ndarray:
    """Decode an image with OpenCV."""
    cv2 = opencv()
    flag = cv2.IMREAD_GRAYSCALE if not color else cv2.IMREAD_COLOR
    swap = color and rgb
    if swap and hasattr(cv2, "IMREAD_COLOR_RGB"):  # since OpenCV 4.11
        flag, swap = cv2.IMREAD_COLOR_RGB, False
    if not upright:
        flag |= cv2.IMREAD_IGNORE_ORIENTATION
    with library_errors(f"Decoding {len(data)} bytes failed"):
        image = cv2.imdecode(np.frombuffer(data, np.uint8), flag) if data else None
    if image is None:
        raise MXNetError(f"Decoding failed. Invalid image file: OpenCV cannot decode the {len(data)} bytes")
    if not color:
        return image[:, :, None]
    return cv2.cvtColor(image, cv2.COLOR_BGR2RGB) if swap else image


def resize(image: np.ndarray, width: int, height: int, interp: int) -> np.ndarray | None:
    """Resize an image (H, W, C), uint8 or float32, with OpenCV: unlike the operator `image.resize`, without a program
    for each size. 8-bit results are the operator's; a few of cubic interpolation differ by 1.

    Returns None if OpenCV is not installed or does not accept the image.
    """
    cv2 = opencv()
    accepted = image.dtype in (np.uint8, np.float32) and interp in range(5) and image.shape[2] <= 4
    if cv2 is None or not accepted or min(width, height, *image.shape) < 1:
        return None
    with library_errors(f"imresize of {image.shape} to w={width}, h={height} with interp={interp}"), _portable(cv2):
        out = cv2.resize(image, (width, height), interpolation=interp)
    return out.reshape(height, width, image.shape[2])


@contextmanager
def _portable(cv2: Any) -> Iterator[None]:
    """Disable Intel's IPP in this thread, whose cubic interpolation rounds otherwise than OpenCV's own."""
    used = cv2.ipp.useIPP()
    cv2.ipp.setUseIPP(False)
    try:
        yield
    finally:
        cv2.ipp.setUseIPP(used)


def flip(image: np.ndarray) -> np.ndarray:
    """A copy of an image (H, W, C) with its columns in reverse order."""
    cv2 = opencv()
    if cv2 is None or image.dtype not in (np.uint8, np.float32) or image.shape[2] > 4 or not image.size:
        return np.ascontiguousarray(image[:, ::-1])
    return cv2.flip(image, 1).reshape(image.shape)


def mean_color(image: np.ndarray) -> np.ndarray:
    """The mean over the pixels of a float32 image (H, W, 3), in float64."""
    cv2 = opencv()
    return image.mean((0, 1), np.float64) if cv2 is None else np.array(cv2.mean(image)[:3])


def map_colors(image: np.ndarray, matrix: np.ndarray, out: np.ndarray) -> None:
    """Write `matrix @ color` for each pixel of a float32 image (H, W, 3) to `out`, another memory."""
    cv2 = opencv()
    if cv2 is None:
        np.matmul(image.reshape(-1, 3), matrix.astype(np.float32).T, out=out.reshape(-1, 3))
    else:
        cv2.transform(image, matrix, dst=out)


def add_border(
    image: np.ndarray, edges: tuple[int, int, int, int], border_type: int, values: list[float]
) -> np.ndarray:
    """Add borders of these widths (top, bottom, left, right) to an image (H, W, C).

    `border_type` is OpenCV's; 0 fills with `values` per channel. Raises MXNetError for an invalid image or border.
    """
    require_image(image)
    cv2 = opencv()
    with library_errors(f"copyMakeBorder of {image.shape} by {edges} with type={border_type}"):
        if cv2 is None:
            return without_opencv.add_border(image, edges, border_type, values)
        result = cv2.copyMakeBorder(image, *edges, border_type, value=values)
    return result.reshape(*result.shape[:2], image.shape[2])


def decode_packed(data: bytes, iscolor: int) -> np.ndarray | None:
    """Decode an image to BGR. `iscolor` is OpenCV's flag: -1 unchanged, 0 grayscale, 1 colour.

    Returns None if `data` is not an image. Without OpenCV, MXNetError is raised instead, and also for other flags and
    for a header that claims too many pixels.
    """
    require_moderate_size(data)
    cv2 = opencv()
    if cv2 is not None:
        with library_errors(f"decoding {len(data)} bytes failed"):
            return cv2.imdecode(np.frombuffer(data, np.uint8), iscolor)
    if iscolor not in (-1, 0, 1):
        raise MXNetError(f"unpack_img: iscolor={iscolor} requires OpenCV: pip install opencv-python-headless")
    if iscolor < 0:
        return without_opencv.decode_unchanged(data)
    image = without_opencv.decode(data, bool(iscolor), rgb=False, upright=True)
    return image if iscolor else image[:, :, 0]


def encode(image: np.ndarray, img_fmt: str, quality: int) -> bytes:
    """Encode an image, BGR if it has colours, in the file format with suffix `img_fmt`.

    `quality` is 1 to 100 for .jpg, and the compression level 0 to 9 for .png; beyond these it is the nearest one. As in
    OpenCV, .jpg has 8 bits and no alpha: larger numbers become 255. MXNetError for an image that no file can hold.
    """
    cv2 = opencv()
    if img_fmt.upper() == ".PNG":
        quality = min(max(quality, 0), 9)
    with library_errors(f"encoding {image.dtype} {image.shape} as {img_fmt}"):
        if cv2 is None:
            return without_opencv.encode(image, img_fmt, quality)
        jpeg, png = cv2.IMWRITE_JPEG_QUALITY, cv2.IMWRITE_PNG_COMPRESSION
        flag = {".JPG": jpeg, ".JPEG": jpeg, ".PNG": png}.get(img_fmt.upper())
        done, buffer = cv2.imencode(img_fmt, image, None if flag is None else [flag, quality])
    assert done, "failed to encode image"
    return buffer.tobytes()
