"""What programs on images share: the files of images/, seeds, and sketches of images and of batches."""

import random
from pathlib import Path

import numpy as np
from program import numbers, sketch

FOLDER = Path(__file__).resolve().parent / "images"


def seed(number):
    random.seed(number)
    np.random.seed(number)


def photo(mx, number=0, dtype="uint8"):
    return mx.image.imread(str(FOLDER / f"{number}.jpg")).astype(dtype)


def shown(image):
    """A sketch of an image with its dtype."""
    return [np.dtype(image.dtype).name, sketch(image)]


def epoch(batches):
    """Labels, data and padding of the batches up to the end."""
    return [[numbers(b.label[0]), shown(b.data[0]), b.pad] for b in batches]


def files(name):
    return {key: str(FOLDER / f"{name}.{suffix}") for key, suffix in (("path_imgrec", "rec"), ("path_imgidx", "idx"))}
