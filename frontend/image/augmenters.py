"""Augmenters: objects that map an image (H, W, C) to an image. Those here resize, crop, flip and cast.

Random augmenters draw from Python's `random`, in MXNet's order: a seed gives the crops that it gives in MXNet.
"""

from __future__ import annotations

import json
import random
import warnings
from typing import Any

import numpy as np

from .. import ndarray as nd
from ..image_codec import codec
from ..ndarray import NDArray
from .functions import (
    Size,
    _get_interp_method,
    center_crop,
    imresize,
    random_crop,
    random_size_crop,
    resize_short,
)
from .pixels import image_from, memory_of


class Described:
    """The parameters of an augmenter, in a form that JSON can store."""

    def __init__(self, **kwargs: Any) -> None:
        arrays = {key: value for key, value in kwargs.items() if isinstance(value, NDArray | np.ndarray)}
        values = {key: np.asarray(value).tolist() for key, value in arrays.items()}
        self._kwargs: dict[str, Any] = kwargs | values

    def _name(self) -> str:
        return type(self).__name__.lower()

    def dumps(self) -> Any:
        """The name of the class in lower case and the parameters, as JSON."""
        return json.dumps([self._name(), self._kwargs])


class Augmenter(Described):
    """Base class of augmenters. A subclass defines `__call__(src)`; its parameters are given to `__init__`."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    def __call__(self, src: NDArray) -> NDArray:
        raise NotImplementedError("Must override implementation.")


class SequentialAug(Augmenter):
    """Applies the augmenters `ts` in order."""

    def __init__(self, ts: list[Augmenter]) -> None:
        super().__init__()
        self.ts = ts

    def dumps(self) -> list[Any]:
        """The name of the class and what `dumps` of each augmenter returns."""
        return [self._name(), [aug.dumps() for aug in self.ts]]

    def __call__(self, src: NDArray) -> NDArray:
        for aug in self.ts:
            src = aug(src)
        return src


class RandomOrderAug(Augmenter):
    """Applies the augmenters `ts` in random order. The list is shuffled in place."""

    def __init__(self, ts: list[Any]) -> None:
        super().__init__()
        self.ts = ts

    def dumps(self) -> list[Any]:
        """The name of the class and what `dumps` of each augmenter returns."""
        return [self._name(), [aug.dumps() for aug in self.ts]]

    def __call__(self, src: NDArray) -> NDArray:
        random.shuffle(self.ts)
        for aug in self.ts:
            src = aug(src)
        return src


class ResizeAug(Augmenter):
    """Resizes to a shorter side of `size`; see `resize_short`."""

    def __init__(self, size: int, interp: int = 2) -> None:
        super().__init__(size=size, interp=interp)
        self.size, self.interp = size, interp

    def __call__(self, src: NDArray) -> NDArray:
        return resize_short(src, self.size, self.interp)


class ForceResizeAug(Augmenter):
    """Resizes to `size` (width, height) without keeping the aspect ratio."""

    def __init__(self, size: Size, interp: int = 2) -> None:
        super().__init__(size=size, interp=interp)
        self.size, self.interp = size, interp

    def __call__(self, src: NDArray) -> NDArray:
        width, height = self.size
        method = _get_interp_method(self.interp, (src.shape[0], src.shape[1], height, width))
        return imresize(src, width, height, interp=method)


class RandomCropAug(Augmenter):
    """Crops `size` (width, height) at a random position; see `random_crop`."""

    def __init__(self, size: Size, interp: int = 2) -> None:
        super().__init__(size=size, interp=interp)
        self.size, self.interp = size, interp

    def __call__(self, src: NDArray) -> NDArray:
        return random_crop(src, self.size, self.interp)[0]


class RandomSizedCropAug(Augmenter):
    """Crops a random part with a random aspect ratio, and resizes it to `size`; see `random_size_crop`."""

    def __init__(self, size: Size, area: Any, ratio: tuple[float, float], interp: int = 2, **kwargs: Any) -> None:
        super().__init__(size=size, area=area, ratio=ratio, interp=interp)
        if "min_area" in kwargs:
            warnings.warn("`min_area` is deprecated. Please use `area` instead.", DeprecationWarning, stacklevel=2)
            area = kwargs.pop("min_area")
        assert not kwargs, "unexpected keyword arguments for `RandomSizedCropAug`."
        self.size, self.area, self.ratio, self.interp = size, area, ratio, interp

    def __call__(self, src: NDArray) -> NDArray:
        return random_size_crop(src, self.size, self.area, self.ratio, self.interp)[0]


class CenterCropAug(Augmenter):
    """Crops `size` (width, height) at the centre; see `center_crop`."""

    def __init__(self, size: Size, interp: int = 2) -> None:
        super().__init__(size=size, interp=interp)
        self.size, self.interp = size, interp

    def __call__(self, src: NDArray) -> NDArray:
        return center_crop(src, self.size, self.interp)[0]


class HorizontalFlipAug(Augmenter):
    """Reverses the columns with probability `p`."""

    def __init__(self, p: float) -> None:
        super().__init__(p=p)
        self.p = p

    def __call__(self, src: NDArray) -> NDArray:
        return flip_columns(src) if random.random() < self.p else src


class CastAug(Augmenter):
    """Casts to the dtype `typ`."""

    def __init__(self, typ: Any = "float32") -> None:
        super().__init__(type=typ)
        self.typ = typ

    def __call__(self, src: NDArray) -> NDArray:
        memory = memory_of(src) if src.dtype == np.uint8 and self.typ in ("float32", np.float32) else None
        return src.astype(self.typ) if memory is None else image_from(memory, np.float32)


def flip_columns(src: NDArray) -> NDArray:
    """A copy of an image with its columns in reverse order."""
    memory = memory_of(src)
    return nd.flip(src, axis=1) if memory is None else image_from(codec.flip(memory))
