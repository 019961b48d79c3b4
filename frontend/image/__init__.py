"""`mxforge.image`: reads, resizes and crops images. Images are arrays (H, W, C)."""

from __future__ import annotations

from . import image
from .image import (
    center_crop,
    color_normalize,
    copyMakeBorder,
    fixed_crop,
    imdecode,
    imread,
    imresize,
    random_crop,
    random_size_crop,
    resize_short,
    scale_down,
)
