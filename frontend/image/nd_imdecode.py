"""`mx.nd.imdecode`, which MXNet had before `mx.image`."""

from __future__ import annotations

import numpy as np

from ..ndarray import NDArray, array
from .image import imdecode as decode


def imdecode(
    str_img: bytes,
    clip_rect: tuple[int, int, int, int] = (0, 0, 0, 0),
    out: NDArray | None = None,
    index: int = 0,
    channels: int = 3,
    mean: NDArray | None = None,
) -> NDArray:
    """Decode an image to float32 (channels, height, width). Deprecated: use `mx.image.imdecode`.

    The image is cropped to `clip_rect` (x0, y0, x1, y1; zeros: not cropped), and `mean` is subtracted. With `out`, the
    result is written to out[index] if `out` has 4 axes, otherwise to `out`.
    """
    x0, y0, x1, y1 = clip_rect
    image = decode(str_img, flag=int(channels == 3)).asnumpy().astype(np.float32)
    if x1 > x0 and y1 > y0:
        image = image[y0:y1, x0:x1]
    result = array(image.transpose(2, 0, 1))
    if mean is not None:
        result -= mean
    if out is None:
        return result
    target = out[index] if out.ndim == 4 else out
    target[:] = result
    return out
