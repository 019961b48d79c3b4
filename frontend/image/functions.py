"""Functions on single images: arrays (H, W, C), uint8 or float32, by default RGB."""

from __future__ import annotations

import random
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import ndarray as nd
from ..base import MXNetError, numeric_types
from ..image_codec import codec
from ..image_codec.interpolation import method_between
from ..ndarray import NDArray
from ..tracebacks import cause_of
from .pixels import change_channels, colors_of, image_from, memory_of

Size = tuple[int, int]
"""Width and height."""
Crop = tuple[NDArray, tuple[int, int, int, int]]
"""(crop, (x, y, width, height))."""


def imread(filename: str, flag: int = 1, to_rgb: int = 1, out: NDArray | None = None) -> NDArray:
    """Read an image file; see `imdecode`. Raises MXNetError if the file cannot be read or is not an image."""
    try:
        with open(filename, "rb") as file:
            data = file.read()
    except OSError as error:
        raise MXNetError(f"cannot read the image {filename}: {error.strerror}") from cause_of(error)
    return imdecode(data, flag, to_rgb, out)


def imdecode(buf: Any, flag: int = 1, to_rgb: int = 1, out: NDArray | None = None) -> NDArray:
    """Decode an image to uint8 (H, W, C). `flag` 0 returns one grayscale channel, `to_rgb` 0 returns BGR.

    The EXIF orientation is not applied. `mx.io.ImageRecordIter` applies it.
    """
    if isinstance(buf, NDArray | np.ndarray):
        buf = (buf.asnumpy() if isinstance(buf, NDArray) else buf).astype(np.uint8).tobytes()
    if not isinstance(buf, bytes | bytearray):
        raise ValueError(
            "buf must be of type bytes, bytearray or numpy.ndarray,if you would like to input type str, please convert "
            "to bytes"
        )
    if flag < 0:
        raise MXNetError(f"value {flag} for Parameter flag should be greater equal to 0")
    return _array(codec.decode(bytes(buf), bool(flag), bool(to_rgb), upright=False), out)


def imresize(src: NDArray, w: int, h: int, interp: int = 1, out: NDArray | None = None) -> NDArray:
    """Resize to width `w` and height `h`. See `resize_short` for `interp`.

    Example:
        >>> mx.image.imresize(mx.nd.ones((8, 6, 3), dtype="uint8"), w=3, h=4).shape
        (4, 3, 3)
    """
    memory = memory_of(src)
    image = _resized(memory, w, h, interp) if memory is not None else None
    if image is not None:
        return _array(image, out)
    result = nd.image.resize(src, size=(w, h), interp=interp)
    return result if out is None else result.copyto(out)


def _resized(memory: np.ndarray, w: Any, h: Any, interp: Any) -> np.ndarray | None:
    """See `codec.resize`. None also for sizes that are not integers."""
    integers = all(isinstance(number, int | np.integer) for number in (w, h, interp))
    return codec.resize(memory, int(w), int(h), int(interp)) if integers else None


def copyMakeBorder(
    src: NDArray,
    top: int,
    bot: int,
    left: int,
    right: int,
    type: int = 0,
    value: float = 0.0,
    values: Any = None,
    out: NDArray | None = None,
) -> NDArray:
    """Add borders of these widths. `type` is OpenCV's border type; 0 fills with `value`, or `values`, of the first
    channels or, if it is a number, of the first channel; other channels are 0."""
    border = [value] * 4 if values is None or np.size(values) == 0 else np.ravel(values).tolist()
    return _array(codec.add_border(src.asnumpy(), (top, bot, left, right), type, border), out)


def _array(image: np.ndarray, out: NDArray | None) -> NDArray:
    result = image_from(image)
    return result if out is None else result.copyto(out)


def scale_down(src_size: Size, size: Size) -> Size:
    """Scale `size` down to fit into `src_size`, with the same aspect ratio. Sizes are (width, height)."""
    w, h = size
    sw, sh = src_size
    if sh < h:
        w, h = float(w * sh) / h, sh
    if sw < w:
        w, h = sw, float(h * sw) / w
    return int(w), int(h)


def _get_interp_method(interp: int, sizes: Sequence[int] = ()) -> int:
    """OpenCV's number of an interpolation method. 9 selects by (old height, old width, new height, new width), 10
    selects at random. Raises ValueError for an unknown method."""
    if interp == 9:
        if not sizes:
            return 2
        assert len(sizes) == 4
        old_h, old_w, new_h, new_w = sizes
        return method_between((old_h, old_w), (new_h, new_w))
    if interp == 10:
        return random.randint(0, 4)
    if interp not in (0, 1, 2, 3, 4):
        raise ValueError(f"Unknown interp method {interp}")
    return interp


def resize_short(src: NDArray, size: int, interp: int = 2) -> NDArray:
    """Resize to a shorter side of `size`, with the same aspect ratio.

    `interp`: 0 nearest, 1 bilinear, 2 bicubic, 3 area, 4 Lanczos, 9 area to shrink, bicubic to enlarge and bilinear
    otherwise, 10 random.
    """
    h, w, _ = src.shape
    new_h, new_w = (size * h // w, size) if h > w else (size, size * w // h)
    return imresize(src, new_w, new_h, interp=_get_interp_method(interp, (h, w, new_h, new_w)))


def fixed_crop(src: NDArray, x0: int, y0: int, w: int, h: int, size: Size | None = None, interp: int = 2) -> NDArray:
    """Crop width `w` and height `h` at (x0, y0), and resize to `size` (width, height) unless it is None."""
    if size is None or (w, h) == tuple(size):
        return src[y0 : y0 + h, x0 : x0 + w]
    method = _get_interp_method(interp, (h, w, size[1], size[0]))
    memory = memory_of(src)
    image = None if memory is None else _resized(memory[y0 : y0 + h, x0 : x0 + w], *size, method)
    return imresize(src[y0 : y0 + h, x0 : x0 + w], *size, interp=method) if image is None else image_from(image)


def random_crop(src: NDArray, size: Size, interp: int = 2) -> Crop:
    """Crop `size` (width, height) at a random position. A smaller image is cropped to the aspect ratio and resized."""
    h, w, _ = src.shape
    new_w, new_h = scale_down((w, h), size)
    x0, y0 = random.randint(0, w - new_w), random.randint(0, h - new_h)
    return fixed_crop(src, x0, y0, new_w, new_h, size, interp), (x0, y0, new_w, new_h)


def center_crop(src: NDArray, size: Size, interp: int = 2) -> Crop:
    """Crop `size` (width, height) at the centre. A smaller image is cropped to the aspect ratio and resized."""
    h, w, _ = src.shape
    new_w, new_h = scale_down((w, h), size)
    x0, y0 = int((w - new_w) / 2), int((h - new_h) / 2)
    return fixed_crop(src, x0, y0, new_w, new_h, size, interp), (x0, y0, new_w, new_h)


def color_normalize(src: NDArray, mean: Any, std: Any = None) -> NDArray:
    """`(src - mean) / std`, in place. `mean` and `std` can be None."""
    colors = colors_of(src)
    if colors is None or not _per_channel(mean) or not _per_channel(std):
        if mean is not None:
            src -= mean
        if std is not None:
            src /= std
        return src
    with np.errstate(divide="ignore", invalid="ignore"):  # as operators do
        if mean is not None:
            change_channels(np.subtract, colors, mean.asnumpy())
        if std is not None:
            change_channels(np.divide, colors, std.asnumpy())
    return src


def _per_channel(values: Any) -> bool:
    """True for None, and for one float32 number or one for each of three channels."""
    return values is None or (
        isinstance(values, NDArray)
        and values.dtype == np.float32
        and values.shape in ((1,), (3,), (1, 1, 1), (1, 1, 3))
    )


def random_size_crop(
    src: NDArray, size: Size, area: Any, ratio: tuple[float, float], interp: int = 2, **kwargs: Any
) -> Crop:
    """Crop a random fraction of the area with a random aspect ratio (width / height), and resize to `size`.

    `area` is the range of the fraction, or its lower bound. After ten draws that do not fit, the result is
    `center_crop`.
    """
    if "min_area" in kwargs:
        warnings.warn("`min_area` is deprecated. Please use `area` instead.", DeprecationWarning, stacklevel=2)
        area = kwargs.pop("min_area")
    assert not kwargs, "unexpected keyword arguments for `random_size_crop`."
    h, w, _ = src.shape
    low, high = (float(area), 1.0) if isinstance(area, numeric_types) else area
    for _ in range(10):
        target = random.uniform(low, high) * h * w
        new_ratio = np.exp(random.uniform(np.log(ratio[0]), np.log(ratio[1])))
        new_w, new_h = round(np.sqrt(target * new_ratio)), round(np.sqrt(target / new_ratio))
        if new_w <= w and new_h <= h:
            x0, y0 = random.randint(0, w - new_w), random.randint(0, h - new_h)
            return fixed_crop(src, x0, y0, new_w, new_h, size, interp), (x0, y0, new_w, new_h)
    return center_crop(src, size, interp)
