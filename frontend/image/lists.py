"""Lists of images with their labels: list files (.lst), and lists of Python."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import ndarray as nd
from ..base import numeric_types
from ..ndarray import NDArray

Sample = tuple[NDArray, str]
"""The labels of an image, and its path."""


def read_list(path: str, dtype: str) -> tuple[list[int], dict[int, Sample]]:
    """The keys of a list file in their order, and its samples by key. A line has a key, labels and a path, separated by
    tabs. ValueError for other lines."""
    keys, samples = [], {}
    with open(path) as file:
        for number, line in enumerate(file, start=1):
            fields = line.strip().split("\t")
            try:
                key, labels = int(fields[0]), np.array(fields[1:-1], dtype)
            except ValueError as error:
                raise ValueError(f"invalid image list {path}, line {number}: {error}") from None
            samples[key] = nd.array(labels, dtype=dtype), fields[-1]
            keys.append(key)
    return keys, samples


def samples_of(images: list[Any], dtype: str) -> tuple[list[str], dict[str, Sample]]:
    """The keys "1", "2", ... of a list of [label, path], [label, label, ..., path] or [labels, path], and its samples
    by key."""
    samples = {str(key): (_label(item[:-1], dtype), item[-1]) for key, item in enumerate(images, start=1)}
    return list(samples), samples


def _label(values: Any, dtype: str) -> NDArray:
    """The labels of an image: several numbers, or one number or sequence."""
    if not values:
        raise TypeError("an item of imglist has labels and a path, not only a path")
    single = len(values) == 1 and not isinstance(values[0], numeric_types)
    return nd.array(values[0] if single else values, dtype=dtype)
