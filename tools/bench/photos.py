"""The image files of the suite `loader`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...frontend.image_codec.codec import encode

COUNT = 1000
SIZE = 256
TOLERANCE = 0.03
"""The largest difference of batches: decoders of JPEG round in other ways."""


def write_photos(folder: Path, count: int = COUNT) -> None:
    """Write `count` JPEG files of 256 x 256 in ten subfolders: noise over smooth colours, of some 25 kB each."""
    generator = np.random.default_rng(0)
    for number in range(count):
        path = folder / f"class{number % 10}" / f"{number:04}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode(_photo(generator), ".jpg", quality=90))


def _photo(generator: np.random.Generator) -> np.ndarray:
    corners = generator.integers(0, 256, (2, 2, 3))
    along = np.linspace(0, 1, SIZE)
    weights = np.stack([1 - along, along])
    smooth = np.einsum("iy,jx,ijc->yxc", weights, weights, corners)
    return np.clip(smooth + generator.normal(0, 12, smooth.shape), 0, 255).astype(np.uint8)
