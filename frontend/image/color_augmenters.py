"""Augmenters that change colours. An image is float32 (H, W, 3) in RGB; most change it in place and return it.

They work on the memory of the image, so that a new size of image compiles nothing. Other images (one channel, another
device) take operators, with MXNet's result or error.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from .. import ndarray as nd
from ..image_codec import codec
from ..ndarray import NDArray
from .augmenters import Augmenter, RandomOrderAug
from .functions import color_normalize
from .pixels import change_channels, colors_of, empty_like

_LUMA = np.array([0.299, 0.587, 0.114])


class BrightnessJitterAug(Augmenter):
    """Multiplies by a factor in [1 - brightness, 1 + brightness]."""

    def __init__(self, brightness: float) -> None:
        super().__init__(brightness=brightness)
        self.brightness = brightness

    def __call__(self, src: NDArray) -> NDArray:
        alpha = 1.0 + random.uniform(-self.brightness, self.brightness)
        colors = colors_of(src)
        if colors is None:
            src *= alpha
        else:
            colors *= np.float32(alpha)
        return src


class ContrastJitterAug(Augmenter):
    """Blends the image and the mean of its luma by a factor in [1 - contrast, 1 + contrast]."""

    def __init__(self, contrast: float) -> None:
        super().__init__(contrast=contrast)
        self.contrast = contrast
        self.coef = nd.array(_LUMA[None, None])

    def __call__(self, src: NDArray) -> NDArray:
        alpha = 1.0 + random.uniform(-self.contrast, self.contrast)
        colors = colors_of(src)
        if colors is None:
            luma = src * self.coef
            luma = (3.0 * (1.0 - alpha) / luma.size) * nd.sum(luma)
            src *= alpha
            src += luma
        else:
            mean = float(codec.mean_color(colors) @ _LUMA)
            colors *= np.float32(alpha)
            colors += np.float32((1.0 - alpha) * mean)
        return src


class SaturationJitterAug(Augmenter):
    """Blends each pixel and its luma by a factor in [1 - saturation, 1 + saturation]."""

    def __init__(self, saturation: float) -> None:
        super().__init__(saturation=saturation)
        self.saturation = saturation
        self.coef = nd.array(_LUMA[None, None])

    def __call__(self, src: NDArray) -> NDArray:
        alpha = 1.0 + random.uniform(-self.saturation, self.saturation)
        colors = colors_of(src)
        if colors is None:
            luma = nd.sum(src * self.coef, axis=2, keepdims=True)
            luma *= 1.0 - alpha
            src *= alpha
            src += luma
        else:
            mapped = empty_like(colors)._memory()
            codec.map_colors(colors, alpha * np.eye(3) + (1.0 - alpha) * _LUMA, mapped)
            colors[:] = mapped
        return src


class HueJitterAug(Augmenter):
    """Rotates colours in the YIQ space by an angle in [-hue, hue] * pi. The result is a new image."""

    def __init__(self, hue: float) -> None:
        super().__init__(hue=hue)
        self.hue = hue
        self.tyiq = np.array([_LUMA, [0.596, -0.274, -0.321], [0.211, -0.523, 0.311]])
        self.ityiq = np.array([[1.0, 0.956, 0.621], [1.0, -0.272, -0.647], [1.0, -1.107, 1.705]])

    def __call__(self, src: NDArray) -> NDArray:
        angle = random.uniform(-self.hue, self.hue) * np.pi
        u, w = np.cos(angle), np.sin(angle)
        rotation = np.array([[1.0, 0.0, 0.0], [0.0, u, -w], [0.0, w, u]])
        return _mapped(src, self.ityiq @ rotation @ self.tyiq)


class RandomGrayAug(Augmenter):
    """Replaces the three channels by a weighted mean of them with probability `p`. The result is a new image."""

    def __init__(self, p: float) -> None:
        super().__init__(p=p)
        self.p = p
        self.mat = nd.array([[0.21] * 3, [0.72] * 3, [0.07] * 3])

    def __call__(self, src: NDArray) -> NDArray:
        return _mapped(src, self.mat.asnumpy().T) if random.random() < self.p else src


class ColorJitterAug(RandomOrderAug):
    """Jitters brightness, contrast and saturation in random order. A range of 0 disables one of them."""

    def __init__(self, brightness: float, contrast: float, saturation: float) -> None:
        ranges = (
            (BrightnessJitterAug, brightness),
            (ContrastJitterAug, contrast),
            (SaturationJitterAug, saturation),
        )
        super().__init__([augmenter(size) for augmenter, size in ranges if size > 0])


class LightingAug(Augmenter):
    """Adds to all pixels a random multiple of each principal component of colours.

    The multiples are drawn from NumPy's normal distribution with deviation `alphastd`, times `eigval` (3 numbers).
    `eigvec` (3, 3) has the components as columns.
    """

    def __init__(self, alphastd: float, eigval: np.ndarray, eigvec: np.ndarray) -> None:
        super().__init__(alphastd=alphastd, eigval=eigval, eigvec=eigvec)
        self.alphastd, self.eigval, self.eigvec = alphastd, eigval, eigvec

    def __call__(self, src: NDArray) -> NDArray:
        alpha = np.random.normal(0, self.alphastd, size=(3,))
        shift = np.dot(self.eigvec * alpha, self.eigval)
        colors = colors_of(src)
        if colors is None:
            src += nd.array(shift)
        else:
            change_channels(np.add, colors, shift)
        return src


class ColorNormalizeAug(Augmenter):
    """Computes `(src - mean) / std`; see `color_normalize`."""

    def __init__(self, mean: Any, std: Any) -> None:
        super().__init__(mean=mean, std=std)
        self.mean = mean if mean is None or isinstance(mean, NDArray) else nd.array(mean)
        self.std = std if std is None or isinstance(std, NDArray) else nd.array(std)

    def __call__(self, src: NDArray) -> NDArray:
        return color_normalize(src, self.mean, self.std)


def _mapped(src: NDArray, matrix: np.ndarray) -> NDArray:
    """A new image with `matrix @ color` for each color."""
    colors = colors_of(src)
    if colors is None:
        return nd.dot(src, nd.array(matrix.T))
    mapped = empty_like(colors)
    codec.map_colors(colors, matrix, mapped._memory())
    return mapped
