"""Adjusts the colours of images (height, width, channels) by scalars, in core."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...graph import Value
from ...types import DType

if TYPE_CHECKING:
    from .builder import MxBuilder

_GRAY = np.array([0.299, 0.587, 0.114])
COLOR_DEVIATIONS = np.array([55.46, 4.794, 1.148])
"""The standard deviations of ImageNet's colours along their principal components."""
COLOR_COMPONENTS = np.array([[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]])
"""These components as columns; rows are R, G, B."""
_LIGHTING = COLOR_COMPONENTS * COLOR_DEVIATIONS


def _wide(b: MxBuilder, image: Value) -> Value:
    return image if image.type.dtype is DType.F64 else b.cast(image, DType.F32)


def _narrow(b: MxBuilder, values: Value, dtype: DType) -> Value:
    """The values in the image's dtype; integers are clipped to [0, 255]."""
    if dtype.is_float:
        return b.cast(values, dtype)
    return b.cast(b.minimum(b.maximum(values, 0), 255), dtype)


def _mixed(b: MxBuilder, x: Value, other: Value, factor: Value) -> Value:
    """x * factor + other * (1 - factor)."""
    share = b.spread(factor, x)
    return b.add(b.mul(x, share), b.mul(other, b.sub(1.0, share)))


def _gray(b: MxBuilder, x: Value) -> Value:
    """(height, width): the brightness of each pixel of an image with three channels."""
    weights = b.broadcast_along(b.constant(_GRAY, x.type.dtype), x.type.shape, 2)
    return b.sum(b.mul(x, weights), 2)


def adjust_brightness(b: MxBuilder, image: Value, factor: Value) -> Value:
    x = _wide(b, image)
    return _narrow(b, b.mul(x, b.spread(factor, x)), image.type.dtype)


def adjust_contrast(b: MxBuilder, image: Value, factor: Value) -> Value:
    x = _wide(b, image)
    gray = _gray(b, x) if x.type.shape[2] == 3 else b.reshape(x, x.type.shape[:2])
    return _narrow(b, _mixed(b, x, b.spread(b.mean(gray), x), factor), image.type.dtype)


def adjust_saturation(b: MxBuilder, image: Value, factor: Value) -> Value:
    x = _wide(b, image)
    if x.type.shape[2] == 1:
        return image
    blue = b.mul(b.slice_axis(x, 2, 2, 3), float(_GRAY[2]))  # MXNet sums only the blue channel
    gray = b.broadcast(b.reshape(blue, x.type.shape[:2]), x.type.shape, (0, 1))
    return _narrow(b, _mixed(b, x, gray, factor), image.type.dtype)


def adjust_hue(b: MxBuilder, image: Value, turn: Value) -> Value:
    """Rotates the hues by `turn` full circles, in HLS space."""
    if image.type.shape[2] == 1:
        return image
    x = b.div(_wide(b, image), 255.0)
    hue, low, high = _hue(b, x)
    hue = b.add(hue, b.mul(b.spread(turn, hue), 6.0))
    channels = [_channel(b, b.add(hue, shift), low, high) for shift in (2.0, 0.0, -2.0)]
    adjusted = b.concat([b.expand_dims(c, 2) for c in channels], 2)
    return _narrow(b, b.mul(adjusted, 255.0), image.type.dtype)


def _hue(b: MxBuilder, x: Value) -> tuple[Value, Value, Value]:
    """Hue in sixths of the circle, and the smallest and largest channel, each (height, width). The channels are
    computed through lightness and saturation, because their rounding affects 8-bit images."""
    red, green, blue = (b.reshape(b.slice_axis(x, 2, i, i + 1), x.type.shape[:2]) for i in range(3))
    high, low = b.max(x, 2), b.min(x, 2)
    spread, total = b.sub(high, low), b.add(high, low)
    colourless = b.le(spread, float(np.finfo(np.float32).eps))
    divisor = b.select(colourless, 1.0, spread)
    by_green = b.add(b.div(b.sub(blue, red), divisor), 2.0)
    by_blue = b.add(b.div(b.sub(red, green), divisor), 4.0)
    by_red = b.div(b.sub(green, blue), divisor)
    hue = b.select(b.eq(high, red), by_red, b.select(b.eq(high, green), by_green, by_blue))
    light, dark = b.mul(total, 0.5), b.lt(total, 1.0)
    saturation = b.div(spread, b.select(dark, total, b.sub(2.0, total)))
    saturation = b.select(colourless, 0.0, saturation)
    product = b.mul(light, saturation)
    top = b.select(b.le(light, 0.5), b.add(light, product), b.sub(b.add(light, saturation), product))
    return b.select(colourless, 0.0, hue), b.sub(b.mul(light, 2.0), top), top


def _channel(b: MxBuilder, hue: Value, low: Value, high: Value) -> Value:
    """A channel whose value increases over one sixth of the circle, is constant for two and decreases over one."""
    at = b.sub(hue, b.mul(b.floor(b.div(hue, 6.0)), 6.0))
    ramp = b.minimum(b.maximum(b.minimum(at, b.sub(4.0, at)), 0.0), 1.0)
    return b.add(low, b.mul(b.sub(high, low), ramp))


def adjust_lighting(b: MxBuilder, image: Value, alpha: Value) -> Value:
    """The image plus its principal colour components times `alpha` (3,); an image with one channel is unchanged."""
    if image.type.shape[2] == 1:
        return image
    x = _wide(b, image)
    shift = b.sum(b.mul(b.constant(_LIGHTING, alpha.type.dtype), b.broadcast_along(alpha, (3, 3), 1)), 1)
    return _narrow(b, b.add(x, b.broadcast_along(b.cast(shift, x.type.dtype), x.type.shape, 2)), image.type.dtype)
