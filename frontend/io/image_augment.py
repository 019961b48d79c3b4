"""MXNet's default augmenter: resizes, warps, pads, crops and recolours uint8 images (H, W, C) in BGR order."""

from __future__ import annotations

import math
from random import Random

import numpy as np

from ...ir.dialects.mx.parameters import Bool, Float, Int, Ints, OptionalFloat
from ..base import MXNetError
from ..image_codec import codec
from ..image_codec.interpolation import method_between
from . import image_pixels as pixels
from .parameters import Parameters

_FLOATS = np.float32
_METHODS = (0, 1, 2, 3, 4, 9, 10)
_TRIALS = 10


class AugmentParameters(Parameters):
    """
    Args:
        resize: The new length of the shorter edge, before other changes; -1: unchanged.
        rand_crop: Whether the crop has a random position; otherwise it is at the centre.
        random_resized_crop: Whether a crop of random area and proportions is resized to the shape.
        max_rotate_angle: The image is rotated by a random angle of at most so many degrees.
        max_aspect_ratio, min_aspect_ratio: Bounds of a random factor of the proportions. Without a minimum they are 1
            plus and minus the maximum.
        max_shear_ratio: The image is sheared by a random factor of at most this.
        max_crop_size, min_crop_size: Bounds of the random size of a square crop, which is resized to the shape.
        max_random_scale, min_random_scale: Bounds of a random factor of both sides.
        max_random_area, min_random_area: Bounds of the random share of the area that random_resized_crop crops.
        max_img_size, min_img_size: Bounds of both sides after the image was rotated and scaled.
        brightness, contrast, saturation: Random changes of the colours by factors of 1 plus and minus at most this.
        pca_noise: The standard deviation of noise along the principal components of the colours.
        random_h, random_s, random_l: Random numbers of at most this are added to hue, saturation and lightness.
        rotate: The angle of a fixed rotation in degrees, instead of a random one; -1: none.
        fill_value: The value of pixels outside of the image.
        inter_method: 0 nearest, 1 bilinear, 2 cubic, 3 area, 4 Lanczos, 9 by the sizes, 10 random.
        pad: The width of a border that is added on each side.
    """

    data_shape: Ints
    resize: Int = -1
    rand_crop: Bool = False
    random_resized_crop: Bool = False
    max_rotate_angle: Int = 0
    max_aspect_ratio: Float = 0.0
    min_aspect_ratio: OptionalFloat = None
    max_shear_ratio: Float = 0.0
    max_crop_size: Int = -1
    min_crop_size: Int = -1
    max_random_scale: Float = 1.0
    min_random_scale: Float = 1.0
    max_random_area: Float = 1.0
    min_random_area: Float = 1.0
    max_img_size: Float = 1e10
    min_img_size: Float = 0.0
    brightness: Float = 0.0
    contrast: Float = 0.0
    saturation: Float = 0.0
    pca_noise: Float = 0.0
    random_h: Int = 0
    random_s: Int = 0
    random_l: Int = 0
    rotate: Int = -1
    fill_value: Int = 255
    inter_method: Int = 1
    pad: Int = 0


def interpolation(method: int, old: tuple[int, int], new: tuple[int, int], random: Random) -> int:
    """OpenCV's number of an interpolation between sizes: 9 selects by the sizes, 10 at random."""
    if method == 9:
        return method_between(old, new)
    return random.randrange(5) if method == 10 else method


def require_method(name: str, method: int) -> None:
    if method not in _METHODS:
        raise MXNetError(f"{name}: inter_method={method}: valid values are {', '.join(map(str, _METHODS))}")


def resized(image: np.ndarray, size: tuple[int, int], method: int, random: Random) -> np.ndarray:
    """The image with this height and width."""
    method = interpolation(method, (image.shape[0], image.shape[1]), size, random)
    return pixels.resize(image, *size, method)


def resized_shorter_edge(image: np.ndarray, edge: int, method: int, random: Random) -> np.ndarray:
    height, width = image.shape[:2]
    size = (edge * height // width, edge) if height > width else (edge, edge * width // height)
    return resized(image, size, method, random)


class DefaultAugmenter:
    """Changes an image with MXNet's parameters. `random` is the source of an image's random numbers."""

    def __init__(self, name: str, parameters: AugmentParameters) -> None:
        self._name, self._parameters = name, parameters
        self._size = parameters.data_shape[1], parameters.data_shape[2]
        require_method(name, parameters.inter_method)
        low, high = parameters.min_aspect_ratio, parameters.max_aspect_ratio
        self._ratios = (1 - high, 1 + high) if low is None else (low, high)
        if low is not None and not 0 < low <= high:
            raise MXNetError(f"{name}: min_aspect_ratio={low} must be positive, and at most max_aspect_ratio={high}")
        self._check_resized_crop()
        self._warps = self._is_warped()
        self._jitters = max(parameters.brightness, parameters.contrast, parameters.saturation) > 0
        self._shifts = bool(parameters.random_h or parameters.random_s or parameters.random_l)
        if self._warps or self._jitters or self._shifts:
            pixels.require_opencv(f"{name} with these changes of images")

    def _check_resized_crop(self) -> None:
        parameters = self._parameters
        if not parameters.random_resized_crop:
            return
        if (
            parameters.min_random_scale,
            parameters.max_random_scale,
            parameters.min_crop_size,
            parameters.max_crop_size,
        ) != (1, 1, -1, -1):
            raise MXNetError(f"{self._name}: random_resized_crop conflicts with random scales and crop sizes")
        if parameters.rand_crop:
            raise MXNetError(f"{self._name}: random_resized_crop conflicts with rand_crop")
        if parameters.min_random_area > parameters.max_random_area:
            raise MXNetError(f"{self._name}: min_random_area is greater than max_random_area")

    def _is_warped(self) -> bool:
        parameters = self._parameters
        return (
            parameters.max_rotate_angle > 0
            or parameters.max_shear_ratio > 0
            or parameters.rotate > 0
            or (parameters.max_random_scale, parameters.min_random_scale) != (1, 1)
            or (not parameters.random_resized_crop and self._ratios != (1, 1))
            or (parameters.max_img_size, parameters.min_img_size) != (1e10, 0)
        )

    def __call__(self, image: np.ndarray, random: Random, where: str) -> np.ndarray:
        parameters = self._parameters
        if parameters.resize != -1:
            image = resized_shorter_edge(image, parameters.resize, parameters.inter_method, random)
        if self._warps:
            image = self._warp(image, random)
        if parameters.pad > 0:
            image = codec.add_border(
                image, (parameters.pad, parameters.pad, parameters.pad, parameters.pad), 0, [parameters.fill_value] * 3
            )
        image = self._crop(image, random, where)
        if self._jitters:
            image = self._jitter(image, random)
        if self._shifts:
            image = self._shift(image, random)
        if parameters.pca_noise > 0:
            image = pixels.add_pca_noise(
                image, np.array([random.gauss(0, parameters.pca_noise) for _ in range(3)], _FLOATS)
            )
        return image

    def _warp(self, image: np.ndarray, random: Random) -> np.ndarray:
        """Shear, rotate, scale and change the proportions by one affine transformation around the centre."""
        parameters = self._parameters
        height, width = image.shape[:2]
        shear = _FLOATS(_between(random, parameters.max_shear_ratio))
        angle = random.randint(-parameters.max_rotate_angle, parameters.max_rotate_angle)
        angle = parameters.rotate if parameters.rotate > 0 else angle
        a, b = _FLOATS(math.cos(math.radians(angle))), _FLOATS(math.sin(math.radians(angle)))
        scale = _FLOATS(random.uniform(parameters.min_random_scale, parameters.max_random_scale))
        ratio = _FLOATS(random.uniform(*self._ratios))
        hs = 2 * scale / (1 + ratio)
        ws = ratio * hs
        low, high = _FLOATS(parameters.min_img_size), _FLOATS(parameters.max_img_size)
        new_width, new_height = max(low, min(high, scale * width)), max(low, min(high, scale * height))
        matrix = np.zeros((2, 3), _FLOATS)
        matrix[:, :2] = (hs * a - shear * b * ws, hs * b + shear * a * ws), (-b * ws, a * ws)
        centre = matrix[:, :2] @ np.array([width, height], _FLOATS)
        matrix[:, 2] = (np.array([new_width, new_height], _FLOATS) - centre) / 2
        size = int(new_height), int(new_width)
        method = interpolation(parameters.inter_method, (height, width), size, random)
        return pixels.warp(image, matrix, size, method, parameters.fill_value)

    def _crop(self, image: np.ndarray, random: Random, where: str) -> np.ndarray:
        parameters = self._parameters
        if parameters.random_resized_crop:
            box = self._random_box(image, random)
            if box is not None:
                return resized(_cut(image, *box), self._size, parameters.inter_method, random)
        elif parameters.max_crop_size != -1 or parameters.min_crop_size != -1:
            low, high = parameters.min_crop_size, parameters.max_crop_size
            if not 0 < low <= high <= min(image.shape[:2]):
                size = f"{image.shape[0]} x {image.shape[1]}"
                raise MXNetError(f"{where}: crops of {low} to {high} pixels do not fit into an image of {size}")
            side = random.randint(low, high)
            return resized(self._place(image, (side, side), random), self._size, parameters.inter_method, random)
        return self._place(self._enlarged(image, random), self._size, random)

    def _enlarged(self, image: np.ndarray, random: Random) -> np.ndarray:
        """The image, enlarged with the same proportions until the crop fits."""
        height, width = self._size
        if image.shape[0] < height:
            new_width = int(_FLOATS(height) / _FLOATS(image.shape[0]) * _FLOATS(image.shape[1]))
            image = resized(image, (height, new_width), self._parameters.inter_method, random)
        if image.shape[1] < width:
            new_height = int(_FLOATS(width) / _FLOATS(image.shape[1]) * _FLOATS(image.shape[0]))
            image = resized(image, (new_height, width), self._parameters.inter_method, random)
        return image

    def _place(self, image: np.ndarray, size: tuple[int, int], random: Random) -> np.ndarray:
        """A crop of this height and width, at a random position or at the centre."""
        y, x = image.shape[0] - size[0], image.shape[1] - size[1]
        if self._parameters.rand_crop:
            return _cut(image, random.randint(0, y), random.randint(0, x), *size)
        return _cut(image, y // 2, x // 2, *size)

    def _random_box(self, image: np.ndarray, random: Random) -> tuple[int, int, int, int] | None:
        """A box (y, x, height, width) of random area and proportions; None if ten draws do not fit."""
        parameters = self._parameters
        rows, columns = image.shape[:2]
        if self._ratios == (1, 1) == (parameters.min_random_area, parameters.max_random_area):
            return None
        for _ in range(_TRIALS):
            area = random.uniform(parameters.min_random_area, parameters.max_random_area) * rows * columns
            ratio = random.uniform(*self._ratios)
            width, height = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if random.random() > 0.5:
                height, width = width, height
            if 0 < height <= rows and 0 < width <= columns:
                return random.randint(0, rows - height), random.randint(0, columns - width), height, width
        return None

    def _jitter(self, image: np.ndarray, random: Random) -> np.ndarray:
        """Change brightness, contrast and saturation in random order."""
        parameters = self._parameters
        changes = [
            (change, 1 + _between(random, amount))
            for change, amount in (
                (pixels.scale_values, parameters.brightness),
                (pixels.change_contrast, parameters.contrast),
                (pixels.change_saturation, parameters.saturation),
            )
        ]
        random.shuffle(changes)
        for change, factor in changes:
            image = change(image, factor)
        return image

    def _shift(self, image: np.ndarray, random: Random) -> np.ndarray:
        parameters = self._parameters
        hue, saturation, lightness = (
            int(_trapezoidal(random) * bound)
            for bound in (parameters.random_h, parameters.random_s, parameters.random_l)
        )
        return pixels.shift_hls(image, hue, lightness, saturation)


def _between(random: Random, bound: float) -> float:
    """A number between minus and plus `bound`."""
    return random.random() * bound * 2 - bound


def _trapezoidal(random: Random) -> float:
    """A number between -1 and 1 with MXNet's density: constant up to 0.6 from 0, and falling from there to 0 at 1."""
    return _between(random, 0.8) + _between(random, 0.2)


def _cut(image: np.ndarray, y: int, x: int, height: int, width: int) -> np.ndarray:
    return image[y : y + height, x : x + width]
