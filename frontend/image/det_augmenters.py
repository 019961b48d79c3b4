"""Augmenters for detection: objects that map an image and the labels of its objects to both.

Labels are a NumPy array with a row (class, xmin, ymin, xmax, ymax, ...) for each object, in fractions of the image.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from ..ndarray import NDArray
from .augmenters import Augmenter, Described, flip_columns

Labelled = tuple[NDArray, np.ndarray]
"""An image (H, W, C) and its labels."""


class DetAugmenter(Described):
    """Base class of augmenters for detection. A subclass defines `__call__(src, label)`; its parameters are given to
    `__init__`."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    def __call__(self, src: NDArray, label: np.ndarray) -> Labelled:
        raise NotImplementedError("Must override implementation.")


class DetBorrowAug(DetAugmenter):
    """Applies an augmenter for single images that does not move objects."""

    def __init__(self, augmenter: Augmenter) -> None:
        if not isinstance(augmenter, Augmenter):
            raise TypeError("Borrowing from invalid Augmenter")
        super().__init__(augmenter=augmenter.dumps())
        self.augmenter = augmenter

    def dumps(self) -> list[Any]:
        """The name of the class and what `dumps` of the augmenter returns."""
        return [self._name(), self.augmenter.dumps()]

    def __call__(self, src: NDArray, label: np.ndarray) -> Labelled:
        return self.augmenter(src), label


class DetRandomSelectAug(DetAugmenter):
    """Applies one of several augmenters, chosen at random, or none with probability `skip_prob`."""

    def __init__(self, aug_list: Any, skip_prob: float = 0) -> None:
        super().__init__(skip_prob=skip_prob)
        if not isinstance(aug_list, list | tuple):
            aug_list = [aug_list]
        if not all(isinstance(aug, DetAugmenter) for aug in aug_list):
            raise ValueError("Allow DetAugmenter in list only")
        self.aug_list: Any = aug_list
        self.skip_prob = skip_prob if aug_list else 1

    def dumps(self) -> list[Any]:
        """The name of the class and what `dumps` of each augmenter returns."""
        return [self._name(), [aug.dumps() for aug in self.aug_list]]

    def __call__(self, src: NDArray, label: np.ndarray) -> Labelled:
        if random.random() < self.skip_prob:
            return src, label
        random.shuffle(self.aug_list)
        return self.aug_list[0](src, label)


class DetHorizontalFlipAug(DetAugmenter):
    """Reverses the columns of the image and of its labels with probability `p`. The labels change in place."""

    def __init__(self, p: float) -> None:
        super().__init__(p=p)
        self.p = p

    def __call__(self, src: NDArray, label: np.ndarray) -> Labelled:
        if random.random() < self.p:
            src = flip_columns(src)
            self._flip_label(label)
        return src, label

    def _flip_label(self, label: np.ndarray) -> None:
        """Reverse the columns of labels in place."""
        label[:, 1], label[:, 3] = 1.0 - label[:, 3], 1.0 - label[:, 1]
