"""`nd.image`: operators on images, such as `nd.image.to_tensor`. Written by tools/make_stubs.py: not to be changed by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..context import Context
from .ndarray import NDArray


def adjust_lighting(data: NDArray | None = ..., alpha: Sequence[float] = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """Adds multiples of the principal components of ImageNet's colours, as in AlexNet."""
def crop(data: NDArray | None = ..., x: int = ..., y: int = ..., width: int = ..., height: int = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """A part of images."""
def flip_left_right(data: NDArray | None = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The image flipped from left to right."""
def flip_top_bottom(data: NDArray | None = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The image flipped upside down."""
def normalize(data: NDArray | None = ..., mean: Sequence[float] = ..., std: Sequence[float] = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """Normalizes each channel of images."""
def random_brightness(data: NDArray | None = ..., min_factor: float = ..., max_factor: float = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """Multiplies the image by a factor drawn from [min_factor, max_factor]."""
def random_color_jitter(data: NDArray | None = ..., brightness: float = ..., contrast: float = ..., saturation: float = ..., hue: float = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """Changes brightness, contrast, saturation and hue, in random order and by random factors."""
def random_contrast(data: NDArray | None = ..., min_factor: float = ..., max_factor: float = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """Scales the difference from the mean of the image by a factor drawn from [min_factor, max_factor]."""
def random_flip_left_right(data: NDArray | None = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The image flipped from left to right, with probability 0.5."""
def random_flip_top_bottom(data: NDArray | None = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The image flipped upside down, with probability 0.5."""
def random_hue(data: NDArray | None = ..., min_factor: float = ..., max_factor: float = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """Rotates the hues of the image by a factor drawn from [min_factor, max_factor]."""
def random_lighting(data: NDArray | None = ..., alpha_std: float = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """Adds random multiples of the principal components of ImageNet's colours, as in AlexNet."""
def random_saturation(data: NDArray | None = ..., min_factor: float = ..., max_factor: float = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """Scales the difference of colours from gray by a factor drawn from [min_factor, max_factor]."""
def resize(data: NDArray | None = ..., size: int | Sequence[int | None] = ..., keep_ratio: bool = ..., interp: int = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """Resizes images."""
def to_tensor(data: NDArray | None = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """Converts images of bytes to tensors: channels come first, and 0 to 255 become 0 to 1."""
