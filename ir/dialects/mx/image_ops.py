"""Operators on images (height, width, channels); some also accept batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations

import numpy as np

from ...graph import Value
from ...types import DType, TensorType
from . import random_bits as draw
from .builder import MxBuilder
from .gradients import straight_through
from .image_colors import adjust_brightness, adjust_contrast, adjust_hue, adjust_lighting, adjust_saturation
from .image_resize import resize
from .operator import Elementwise, Operator, declare, operator
from .parameters import Bool, Float, Floats, Int, Ints

Adjust = Callable[["MxBuilder", Value, Value], Value]


def _aliases(name: str) -> tuple[str, ...]:
    return (f"_npx__image_{name}",)


def _require_image(op: Operator, type: TensorType, ranks: tuple[int, ...] = (3, 4)) -> None:
    if type.rank not in ranks:
        batch = " or (batch, height, width, channels)" if 4 in ranks else ""
        raise ValueError(f"{op.mx_name()} takes (height, width, channels){batch}, got {type.shape}")


@operator("_image_to_tensor", aliases=_aliases("to_tensor"))
class ImageToTensor(Operator):
    """Converts images of bytes to tensors: channels come first, and 0 to 255 become 0 to 1.

        output[c, y, x] = data[y, x, c] / 255

    Args:
        data: ([batch,] height, width, channels).
    Returns:
        ([batch,] channels, height, width), float32.
    """

    output_dtype = DType.F32

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        (x,) = inputs
        _require_image(self, x.type)
        order = (2, 0, 1) if x.type.rank == 3 else (0, 3, 1, 2)
        return b.div(b.cast(b.transpose(x, order), DType.F32), 255.0)


@operator("_image_normalize", aliases=_aliases("normalize"))
class ImageNormalize(Elementwise):
    """Normalizes each channel of images.

        output = (data - mean) / std

    Args:
        data: ([batch,] channels, height, width), with 1 or 3 channels.
        mean: Mean per channel, or one number.
        std: Standard deviation per channel, or one number.
    Returns:
        An array of data's shape.
    """

    mean: Floats = (0.0, 0.0, 0.0, 0.0)
    std: Floats = (1.0, 1.0, 1.0, 1.0)

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        (x,) = inputs
        if x.type.rank not in (3, 4) or x.type.shape[-3] not in (1, 3):
            raise ValueError(f"_image_normalize takes ([batch,] 1 or 3 channels, height, width), got {x.type.shape}")
        mean, std = (self._channels(b, x, name) for name in ("mean", "std"))
        return b.div(b.sub(x, mean), std)

    def _channels(self, b: MxBuilder, x: Value, name: str) -> Value:
        values: tuple[float, ...] = getattr(self, name)
        channels = x.type.shape[-3]
        if len(values) not in (1, channels):
            raise ValueError(f"{name} has {len(values)} numbers for {channels} channels")
        vector = b.constant(np.broadcast_to(np.array(values), (channels,)), x.type.dtype)
        return b.broadcast_along(vector, x.type.shape, x.type.rank - 3)


@operator("_image_crop", aliases=_aliases("crop"))
class ImageCrop(Operator):
    """A part of images.

    Args:
        data: ([batch,] height, width, channels).
        x: First column.
        y: First row.
        width: Number of columns.
        height: Number of rows.
    Returns:
        ([batch,] height, width, channels).
    """

    scalars = ("x", "y")
    x: Int
    y: Int
    width: Int
    height: Int

    def require_shapes(self, types: Sequence[TensorType]) -> None:
        _require_image(self, types[0])
        rows, columns = types[0].shape[-3:-1]
        inside = self.x >= 0 and 0 < self.width <= columns - self.x
        if not inside or not (self.y >= 0 and 0 < self.height <= rows - self.y):
            part = f"x={self.x}, y={self.y}, width={self.width}, height={self.height}"
            raise ValueError(f"_image_crop: {part} is out of range for an image of {columns} x {rows}")

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        (image,) = inputs
        for axis, name, extent in ((-3, "y", self.height), (-2, "x", self.width)):
            places = b.add(b.iota((extent,), DType.I64, 0), b.broadcast(b.number(self, name), (extent,), ()))
            image = b.take(image, places, image.type.rank + axis)
        return image


@operator("_image_resize", aliases=_aliases("resize"))
class ImageResize(Operator):
    """Resizes images.

    Args:
        data: ([batch,] height, width, channels).
        size: (width, height), or one number for both.
        keep_ratio: True if one number is the shorter edge, and the other keeps the ratio.
        interp: OpenCV's interpolation number: 0 nearest, 1 linear, 2 cubic, 3 area, 4 Lanczos.
    Returns:
        ([batch,] height, width, channels).
    """

    size: Ints = ()
    keep_ratio: Bool = False
    interp: Int = 1

    def new_size(self, rows: int, columns: int) -> tuple[int, int]:
        """Rows and columns of the result. ValueError for an invalid `size`."""
        if len(self.size) not in (1, 2) or min(self.size) < 1:
            raise ValueError(f"_image_resize: size={self.size} must be one or two positive numbers")
        if len(self.size) == 2:
            return self.size[1], self.size[0]
        edge = self.size[0]
        if not self.keep_ratio:
            return edge, edge
        return (rows * edge // columns, edge) if rows > columns else (edge, columns * edge // rows)

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        (x,) = inputs
        _require_image(self, x.type)
        rank = x.type.rank
        size = self.new_size(*x.type.shape[-3:-1])
        return resize(b, x, (rank - 3, rank - 2), size, self.interp)


class _Adjusted(Elementwise):
    """An adjustment of an image; MXNet's gradient is the identity's."""

    gradient = straight_through


def _declare_flips() -> None:
    for name, axis, doc in (
        ("flip_left_right", 1, "The image flipped from left to right."),
        ("flip_top_bottom", 0, "The image flipped upside down."),
    ):

        def always(self: Operator, b: MxBuilder, *inputs: Value, axis: int = axis) -> Value:
            _require_image(self, inputs[0].type, (3,))
            return b.reverse(inputs[0], (axis,))

        def sometimes(self: Operator, b: MxBuilder, *inputs: Value, axis: int = axis) -> Value:
            _require_image(self, inputs[0].type, (3,))
            shape = inputs[0].type.shape
            heads = b.broadcast(b.reshape(b.lt(draw.uniform(b, (1,)), 0.5), ()), shape, ())
            return b.select(heads, b.reverse(inputs[0], (axis,)), inputs[0])

        declare(f"_image_{name}", _Adjusted, {"__doc__": doc, "decompose": always}, _aliases(name))
        half = {"__doc__": f"{doc[:-1]}, with probability 0.5.", "decompose": sometimes}
        declare(f"_image_random_{name}", _Adjusted, half, _aliases(f"random_{name}"))


_declare_flips()


class _Factor(_Adjusted):
    """Shared arguments of several operators.

    Args:
        min_factor: Smallest factor.
        max_factor: Largest factor.
    """

    scalars = ("min_factor", "max_factor")
    min_factor: Float
    max_factor: Float

    def check(self) -> None:
        if not 0 <= self.min_factor <= self.max_factor:
            text = f"min_factor={self.min_factor} and max_factor={self.max_factor}"
            raise ValueError(f"{self.mx_name()}: {text} must be 0 <= min_factor <= max_factor")


def _between(b: MxBuilder, low: Value, high: Value) -> Value:
    """A uniform scalar between two scalars."""
    return b.add(low, b.mul(b.reshape(draw.uniform(b, (1,)), ()), b.sub(high, low)))


def _declare_adjustment(name: str, adjust: Adjust, doc: str) -> None:
    def decompose(self: _Factor, b: MxBuilder, *inputs: Value) -> Value:
        _require_image(self, inputs[0].type, (3,))
        factor = _between(b, b.number(self, "min_factor"), b.number(self, "max_factor"))
        return adjust(b, inputs[0], factor)

    members = {"decompose": decompose, "__doc__": f"{doc} by a factor drawn from [min_factor, max_factor]."}
    declare(f"_image_random_{name}", _Factor, members, _aliases(f"random_{name}"))


_ADJUSTMENTS: tuple[tuple[str, Adjust, str], ...] = (
    ("brightness", adjust_brightness, "Multiplies the image"),
    ("contrast", adjust_contrast, "Scales the difference from the mean of the image"),
    ("saturation", adjust_saturation, "Scales the difference of colours from gray"),
    ("hue", adjust_hue, "Rotates the hues of the image"),
)
for _name, _adjust, _doc in _ADJUSTMENTS:
    _declare_adjustment(_name, _adjust, _doc)


@operator("_image_random_color_jitter", aliases=_aliases("random_color_jitter"))
class ImageRandomColorJitter(_Adjusted):
    """Changes brightness, contrast, saturation and hue, in random order and by random factors.

    Args:
        brightness: Largest distance of the factor from 1; 0 for no change of brightness.
        contrast: Largest distance of the factor from 1; 0 for no change of contrast.
        saturation: Largest distance of the factor from 1; 0 for no change of saturation.
        hue: Largest rotation of the hues, in full circles; 0 for no rotation.
    Returns:
        An array of data's shape.
    """

    brightness: Float
    contrast: Float
    saturation: Float
    hue: Float

    def check(self) -> None:
        for name, _, _ in _ADJUSTMENTS:
            if not getattr(self, name) >= 0:
                raise ValueError(f"_image_random_color_jitter: {name}={getattr(self, name)} must not be negative")

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        (image,) = inputs
        _require_image(self, image.type, (3,))
        adjustments = [(self._factor(b, name), adjust) for name, adjust, _ in _ADJUSTMENTS if getattr(self, name)]
        if len(adjustments) < 2:
            return adjustments[0][1](b, image, adjustments[0][0]) if adjustments else image
        orders = np.array(list(permutations(range(len(adjustments)))), np.int32)
        chosen = b.cast(b.mul(draw.uniform(b, (1,)), float(len(orders))), DType.I32)
        order = b.reshape(b.take(b.constant(orders), chosen, 0), (len(adjustments),))
        for stage in range(len(adjustments)):
            which = b.reshape(b.slice_axis(order, 0, stage, stage + 1), ())
            image = self._stage(b, image, which, adjustments)
        return image

    def _factor(self, b: MxBuilder, name: str) -> Value:
        limit, middle = getattr(self, name), 0.0 if name == "hue" else 1.0
        low, high = (b.constant(np.float32(middle + sign * limit)) for sign in (-1, 1))
        return _between(b, low, high)

    def _stage(self, b: MxBuilder, image: Value, which: Value, adjustments: list[tuple[Value, Adjust]]) -> Value:
        """The image after adjustment number `which`; all adjustments are computed, and one is selected."""
        result = image
        for number, (factor, adjust) in enumerate(adjustments):
            here = b.broadcast(b.eq(which, number), image.type.shape, ())
            result = b.select(here, adjust(b, image, factor), result)
        return result


@operator("_image_adjust_lighting", aliases=_aliases("adjust_lighting"))
class ImageAdjustLighting(_Adjusted):
    """Adds multiples of the principal components of ImageNet's colours, as in AlexNet.

    Args:
        alpha: The three factors.
    Returns:
        An array of data's shape.
    """

    scalars = ("alpha",)
    alpha: Floats

    def check(self) -> None:
        if len(self.alpha) != 3:
            raise ValueError(f"_image_adjust_lighting: alpha={self.alpha} must be three numbers")

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        _require_image(self, inputs[0].type, (3,))
        alpha = b.concat([b.reshape(b.number(self, "alpha", i), (1,)) for i in range(3)], 0)
        return adjust_lighting(b, inputs[0], alpha)


@operator("_image_random_lighting", aliases=_aliases("random_lighting"))
class ImageRandomLighting(_Adjusted):
    """Adds random multiples of the principal components of ImageNet's colours, as in AlexNet.

    Args:
        alpha_std: Standard deviation of the three factors.
    Returns:
        An array of data's shape.
    """

    scalars = ("alpha_std",)
    alpha_std: Float = 0.0500000007

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        _require_image(self, inputs[0].type, (3,))
        noise = draw.normal(b, (3,))
        return adjust_lighting(b, inputs[0], b.mul(noise, b.number_like(self, "alpha_std", noise)))
