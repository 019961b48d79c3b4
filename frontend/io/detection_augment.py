"""MXNet's default augmenter for detection: changes images together with the boxes of their objects."""

from __future__ import annotations

import math
from random import Random
from typing import Any, Literal, NamedTuple

import numpy as np

from ...ir.dialects.mx.parameters import Float, Floats, Int, Ints, NonNegative
from ..base import MXNetError
from ..image_codec import codec
from . import image_pixels as pixels
from .image_augment import require_method, resized, resized_shorter_edge
from .parameters import Parameters, require

_SAMPLERS = (
    *("min_crop_scales", "max_crop_scales", "min_crop_aspect_ratios", "max_crop_aspect_ratios"),
    *("min_crop_overlaps", "max_crop_overlaps", "min_crop_sample_coverages", "max_crop_sample_coverages"),
    *("min_crop_object_coverages", "max_crop_object_coverages", "max_crop_trials"),
)
_SMALLEST_PADDING = 1.05  # MXNet does not pad by less
_SMALLEST_CONTRAST = 1e-3


class DetectionAugmentParameters(Parameters):
    """
    Args:
        resize: The new length of the shorter edge, before other changes; -1: unchanged.
        rand_crop_prob: The probability of a random crop.
        min_crop_scales, max_crop_scales: Bounds of a crop's size, a share of the image's; one number per sampler.
        min_crop_aspect_ratios, max_crop_aspect_ratios: Bounds of a crop's width divided by its height.
        min_crop_overlaps, max_crop_overlaps: Bounds of the intersection of a crop and an object, by their union.
        min_crop_sample_coverages, max_crop_sample_coverages: Bounds of the share of a crop that an object covers.
        min_crop_object_coverages, max_crop_object_coverages: Bounds of the share of an object that a crop covers.
        num_crop_sampler: The number of samplers of crops. They are tried in random order.
        crop_emit_mode: The objects that a crop keeps: "center", those with their centre in it; "overlap", those
            of which it covers more than emit_overlap_thresh.
        emit_overlap_thresh: See crop_emit_mode.
        max_crop_trials: The number of crops that each sampler draws until one fits.
        rand_pad_prob: The probability of random padding.
        max_pad_scale: The largest size of a padded image, by the size before.
        max_random_hue, max_random_saturation, max_random_illumination: Random numbers of at most this are added to hue,
            saturation and lightness.
        random_hue_prob, random_saturation_prob, random_illumination_prob, random_contrast_prob: Their probabilities.
        max_random_contrast: Values are multiplied by 1 plus and minus at most this.
        rand_mirror_prob: The probability of a flip from left to right.
        fill_value: The value of pixels of the padding.
        inter_method: 0 nearest, 1 bilinear, 2 cubic, 3 area, 4 Lanczos, 9 by the sizes, 10 random.
        resize_mode: "force" resizes to the shape; "shrink" only makes an image smaller, and "fit" also larger, with
            the same proportions.
    """

    data_shape: Ints
    resize: Int = -1
    rand_crop_prob: Float = 0.0
    min_crop_scales: Floats = (0.0,)
    max_crop_scales: Floats = (1.0,)
    min_crop_aspect_ratios: Floats = (1.0,)
    max_crop_aspect_ratios: Floats = (1.0,)
    min_crop_overlaps: Floats = (0.0,)
    max_crop_overlaps: Floats = (1.0,)
    min_crop_sample_coverages: Floats = (0.0,)
    max_crop_sample_coverages: Floats = (1.0,)
    min_crop_object_coverages: Floats = (0.0,)
    max_crop_object_coverages: Floats = (1.0,)
    num_crop_sampler: Int = 1
    crop_emit_mode: Literal["center", "overlap"] = "center"
    emit_overlap_thresh: NonNegative = 0.3
    max_crop_trials: Ints = (25,)
    rand_pad_prob: Float = 0.0
    max_pad_scale: Float = 1.0
    max_random_hue: Int = 0
    random_hue_prob: Float = 0.0
    max_random_saturation: Int = 0
    random_saturation_prob: Float = 0.0
    max_random_illumination: Int = 0
    random_illumination_prob: Float = 0.0
    max_random_contrast: Float = 0.0
    random_contrast_prob: Float = 0.0
    rand_mirror_prob: Float = 0.0
    fill_value: Int = 127
    inter_method: Int = 1
    resize_mode: Literal["fit", "force", "shrink"] = "force"


class Box(NamedTuple):
    """A rectangle, in shares of the image's width and height."""

    x: float
    y: float
    width: float
    height: float


class Sampler(NamedTuple):
    """The bounds of the crops of one sampler."""

    scales: tuple[float, float]
    ratios: tuple[float, float]
    limits: tuple[tuple[float, float], ...]
    trials: int


class Objects:
    """The objects of an image: rows of class, left, top, right, bottom and other numbers, after a header."""

    def __init__(self, label: np.ndarray, where: str) -> None:
        header = int(label[0]) if len(label) >= 7 else 0
        width = int(label[1]) if header >= 2 else 0
        if width < 5 or header > len(label) or (len(label) - header) % width:
            raise MXNetError(
                f"{where}: its {len(label)} labels are not a header, which begins with its length (at least 2) and the "
                f"length of an object (at least 5), and objects"
            )
        self._header = label[:header]
        rows = label[header:].reshape(-1, width)
        self.rows = rows[(rows[:, 3] > rows[:, 1]) & (rows[:, 4] > rows[:, 2])].astype(np.float32)

    def label(self) -> np.ndarray:
        return np.concatenate([self._header, self.rows.reshape(-1)])

    def flip(self) -> None:
        left, right = self.rows[:, 1].copy(), self.rows[:, 3].copy()
        self.rows[:, 1], self.rows[:, 3] = 1 - right, 1 - left

    def project(self, box: Box, kept: np.ndarray | slice = slice(None)) -> None:
        """Keep some rows, with coordinates in the box, and clip them."""
        rows = self.rows[kept].copy()
        origin, size = np.array(box[:2] * 2, np.float32), np.array(box[2:] * 2, np.float32)
        moved = (rows[:, 1:5] - origin) / size
        rows[:, 1:3], rows[:, 3:5] = np.maximum(moved[:, :2], 0), np.minimum(moved[:, 2:], 1)
        self.rows = rows

    def intersections(self, box: Box) -> tuple[np.ndarray, np.ndarray]:
        """For each row the area that it shares with the box, and its own area."""
        left, top, right, bottom = self.rows[:, 1:5].T
        width = np.minimum(right, box.x + box.width) - np.maximum(left, box.x)
        height = np.minimum(bottom, box.y + box.height) - np.maximum(top, box.y)
        return np.maximum(width, 0) * np.maximum(height, 0), (right - left) * (bottom - top)

    def has_centre_in(self, box: Box) -> np.ndarray:
        x, y = (self.rows[:, 1] + self.rows[:, 3]) / 2, (self.rows[:, 2] + self.rows[:, 4]) / 2
        return (box.x <= x) & (x < box.x + box.width) & (box.y <= y) & (y < box.y + box.height)


class DetectionAugmenter:
    """Changes an image and its labels with MXNet's parameters. `random` is the source of an image's random numbers."""

    def __init__(self, name: str, parameters: DetectionAugmentParameters) -> None:
        self._parameters = parameters
        self._size = parameters.data_shape[1], parameters.data_shape[2]
        require_method(name, parameters.inter_method)
        self._samplers = [_sampler(name, parameters, i) for i in range(parameters.num_crop_sampler)]

    def __call__(
        self, image: np.ndarray, label: np.ndarray, random: Random, where: str
    ) -> tuple[np.ndarray, np.ndarray]:
        parameters = self._parameters
        if parameters.resize != -1:
            image = resized_shorter_edge(image, parameters.resize, parameters.inter_method, random)
        objects = Objects(label, where)
        image = self._recolour(image, random)
        if random.random() < parameters.rand_mirror_prob:
            objects.flip()
            image = image[:, ::-1]
        if parameters.max_pad_scale > 1 and random.random() < parameters.rand_pad_prob:
            image = self._pad(image, objects, random)
        if random.random() < parameters.rand_crop_prob:
            image = self._crop(image, objects, random)
        return self._fit(image, random), objects.label()

    def _recolour(self, image: np.ndarray, random: Random) -> np.ndarray:
        parameters = self._parameters
        hue, saturation, lightness, contrast = (
            random.uniform(-bound, bound) if random.random() < probability else 0
            for bound, probability in (
                (parameters.max_random_hue, parameters.random_hue_prob),
                (parameters.max_random_saturation, parameters.random_saturation_prob),
                (parameters.max_random_illumination, parameters.random_illumination_prob),
                (parameters.max_random_contrast, parameters.random_contrast_prob),
            )
        )
        if int(hue) or int(saturation) or int(lightness):
            image = pixels.shift_hls(image, int(hue), int(lightness), int(saturation))
        return pixels.scale_values(image, contrast + 1) if abs(contrast) > _SMALLEST_CONTRAST else image

    def _pad(self, image: np.ndarray, objects: Objects, random: Random) -> np.ndarray:
        scale = random.uniform(1, self._parameters.max_pad_scale)
        if scale < _SMALLEST_PADDING:
            return image
        box = Box(-random.uniform(0, scale - 1), -random.uniform(0, scale - 1), scale, scale)
        objects.project(box)
        height, width = image.shape[:2]
        left, top = int(-box.x * width), int(-box.y * height)
        right, bottom = int((scale + box.x - 1) * width), int((scale + box.y - 1) * height)
        return codec.add_border(
            np.ascontiguousarray(image), (top, bottom, left, right), 0, [self._parameters.fill_value] * 3
        )

    def _crop(self, image: np.ndarray, objects: Objects, random: Random) -> np.ndarray:
        """A crop by the first sampler, in random order, that finds one; the image if none does."""
        height, width = image.shape[:2]
        for sampler in random.sample(self._samplers, len(self._samplers)):
            for _ in range(sampler.trials):
                box = _draw_box(sampler, width / height, random)
                x, y, columns, rows = (
                    int(v) for v in (box.x * width, box.y * height, box.width * width, box.height * height)
                )
                if rows and columns and self._keeps_objects(objects, box, sampler):
                    return image[y : y + rows, x : x + columns]
        return image

    def _keeps_objects(self, objects: Objects, box: Box, sampler: Sampler) -> bool:
        """Project the objects into the box if it satisfies the sampler and keeps an object."""
        if not len(objects.rows):
            return True
        shared, areas = objects.intersections(box)
        area = box.width * box.height
        if not _fits(sampler, (shared / (area + areas - shared), shared / area, shared / areas)):
            return False
        by_centre = self._parameters.crop_emit_mode == "center"
        kept = objects.has_centre_in(box) if by_centre else shared / areas > self._parameters.emit_overlap_thresh
        if not kept.any():
            return False
        objects.project(box, kept)
        return True

    def _fit(self, image: np.ndarray, random: Random) -> np.ndarray:
        parameters, (height, width) = self._parameters, self._size
        image = np.ascontiguousarray(image)
        if parameters.resize_mode == "force":
            return resized(image, self._size, parameters.inter_method, random)
        ratio = np.float32(min(height / image.shape[0], width / image.shape[1]))
        if parameters.resize_mode == "shrink" and ratio >= 1:
            return image
        size = int(ratio * np.float32(image.shape[0])), int(ratio * np.float32(image.shape[1]))
        return resized(image, size, parameters.inter_method, random)


def _fits(sampler: Sampler, measures: tuple[np.ndarray, ...]) -> bool:
    """True if some object satisfies all bounds."""
    fits = np.ones(len(measures[0]), bool)
    for (low, high), measure in zip(sampler.limits, measures, strict=True):
        if low > 0 or high < 1:
            fits &= (low <= measure) & (measure <= high)
    return bool(fits.any())


def _draw_box(sampler: Sampler, proportions: float, random: Random) -> Box:
    scale = random.uniform(*sampler.scales) + 1e-12
    low = max(sampler.ratios[0] / proportions, scale * scale)
    high = min(sampler.ratios[1] / proportions, 1 / (scale * scale))
    ratio = math.sqrt(random.uniform(low, high))
    width, height = min(1.0, scale * ratio), min(1.0, scale / ratio)
    return Box(random.uniform(0, 1 - width), random.uniform(0, 1 - height), width, height)


def _sampler(name: str, parameters: DetectionAugmentParameters, i: int) -> Sampler:
    def of(parameter: str) -> Any:
        values = getattr(parameters, parameter)
        count = parameters.num_crop_sampler
        require(
            name, len(values) in (1, count), f"{parameter}={values} must have 1 or num_crop_sampler={count} numbers"
        )
        return values[0] if len(values) == 1 else values[i]

    (scales, ratios, *limits), trials = _pairs([of(parameter) for parameter in _SAMPLERS[:-1]]), of(_SAMPLERS[-1])
    require(name, 0 <= scales[0] < scales[1] <= 1, f"crop scales must satisfy 0 <= {scales[0]} < {scales[1]} <= 1")
    for low, high in (ratios, *limits):
        require(name, low <= high, f"the bounds of a sampler of crops must be ascending, not {low} and {high}")
    require(name, ratios[0] >= 0, f"min_crop_aspect_ratios must not be negative, as {ratios[0]} is")
    return Sampler(scales, ratios, tuple(limits), trials)


def _pairs(values: list[float]) -> list[tuple[float, float]]:
    return list(zip(values[::2], values[1::2], strict=True))
