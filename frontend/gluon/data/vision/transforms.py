"""Image transforms as blocks. Images are (H, W, C); `ToTensor` returns (C, H, W)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from .... import image
from ....base import numeric_types
from ....ndarray import NDArray
from ...block import Block, HybridBlock
from ...nn import HybridSequential, Sequential

Size = int | tuple[int, int]
"""Width and height, or one number for both."""


_MANY_SHAPES = 3


def _pair(size: Size) -> tuple[int, int]:
    return (size, size) if isinstance(size, numeric_types) else size  # type: ignore[return-value]


class _Compiled(HybridBlock):
    """A transform that is hybridized when it meets the third shape: an operator that is called by itself builds a
    program for each shape, which takes longer than an image."""

    def __init__(self) -> None:
        super().__init__()
        self._shapes: set[tuple[int, ...]] = set()
        self._own = type(self).hybrid_forward.__module__ == __name__  # a class derived from it may need arrays

    def forward(self, x: Any, *args: Any) -> Any:
        if self._own and not self._active and isinstance(x, NDArray):
            self._shapes.add(x.shape)
            if len(self._shapes) == _MANY_SHAPES:
                self.hybridize()
        return super().forward(x, *args)


class Compose(Sequential):
    """A chain of transforms. Consecutive transforms that can be hybridized are compiled together, except `Resize`."""

    def __init__(self, transforms: Sequence[Any]) -> None:
        super().__init__()
        hybrid: list[Any] = []
        for transform in [*transforms, None]:
            if isinstance(transform, HybridBlock) and not isinstance(transform, Resize):
                hybrid.append(transform)
                continue
            self._add_hybrid(hybrid)
            hybrid = []
            if transform is not None:
                self.add(transform)

    def _add_hybrid(self, transforms: list[Any]) -> None:
        if len(transforms) == 1:
            self.add(transforms[0])
        elif transforms:
            block = HybridSequential()
            block.add(*transforms)
            block.hybridize()
            self.add(block)


class Cast(_Compiled):
    """Casts to `dtype`."""

    def __init__(self, dtype: Any = "float32") -> None:
        super().__init__()
        self._dtype = dtype

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.cast(x, self._dtype)


class RandomApply(Sequential):
    """Applies `transforms` with probability `p`, otherwise returns the input."""

    def __init__(self, transforms: Any, p: float = 0.5) -> None:
        super().__init__()
        self.transforms = transforms
        self.p = p

    def forward(self, x: Any, *args: Any) -> Any:
        return x if self.p < random.random() else self.transforms(x)


class ToTensor(_Compiled):
    """Converts uint8 (..., H, W, C) in [0, 255] to float32 (..., C, H, W) in [0, 1].

    Example:
        >>> image = mx.nd.full((4, 6, 3), 255, dtype="uint8")
        >>> tensor = mx.gluon.data.vision.transforms.ToTensor()(image)
        >>> tensor.shape, tensor.max().asscalar().tolist()
        ((3, 4, 6), 1.0)
    """

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.image.to_tensor(x)


class Normalize(_Compiled):
    """(x - mean) / std per channel, for (..., C, H, W)."""

    def __init__(self, mean: Any = 0.0, std: Any = 1.0) -> None:
        super().__init__()
        self._mean = mean
        self._std = std

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.image.normalize(x, self._mean, self._std)


class Rotate(Block):
    """Rotates float32 images (C, H, W) or (N, C, H, W) by an angle in degrees; see `image.imrotate`."""

    def __init__(self, rotation_degrees: float, zoom_in: bool = False, zoom_out: bool = False) -> None:
        super().__init__()
        self._args = (rotation_degrees, zoom_in, zoom_out)

    def forward(self, x: Any) -> Any:  # type: ignore[override]
        _require_floats(x)
        return image.imrotate(x, *self._args)


class RandomRotation(Block):
    """Rotates float32 images by a random angle between two limits, with a probability; see `image.random_rotate`."""

    def __init__(
        self,
        angle_limits: tuple[float, float],
        zoom_in: bool = False,
        zoom_out: bool = False,
        rotate_with_proba: float = 1.0,
    ) -> None:
        super().__init__()
        lower, upper = angle_limits
        if lower >= upper:
            raise ValueError("`angle_limits` must be an ordered tuple")
        if not 0 <= rotate_with_proba <= 1:
            raise ValueError("Probability of rotating the image should be between 0 and 1")
        self._args = (angle_limits, zoom_in, zoom_out)
        self._rotate_with_proba = rotate_with_proba

    def forward(self, x: Any) -> Any:  # type: ignore[override]
        if np.random.random() > self._rotate_with_proba:
            return x
        _require_floats(x)
        return image.random_rotate(x, *self._args)


def _require_floats(x: Any) -> None:
    """Raise TypeError for an array that is not float32."""
    if x.dtype != np.float32:
        raise TypeError("This transformation only supports float32. Consider calling it after ToTensor")


class RandomResizedCrop(Block):
    """A crop of random area, aspect ratio and position, resized to `size`."""

    def __init__(
        self,
        size: Size,
        scale: tuple[float, float] = (0.08, 1.0),
        ratio: tuple[float, float] = (3.0 / 4.0, 4.0 / 3.0),
        interpolation: int = 1,
    ) -> None:
        super().__init__()
        self._args = (_pair(size), scale, ratio, interpolation)

    def forward(self, x: Any) -> Any:  # type: ignore[override]
        return image.random_size_crop(x, *self._args)[0]


class CropResize(_Compiled):
    """The crop at (x, y) with `width` and `height`, resized to `size` unless it is None."""

    def __init__(
        self, x: int, y: int, width: int, height: int, size: Size | None = None, interpolation: int | None = None
    ) -> None:
        super().__init__()
        self._x = x
        self._y = y
        self._width = width
        self._height = height
        self._size = size
        self._interpolation = interpolation

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        out = F.image.crop(x, self._x, self._y, self._width, self._height)
        if not self._size:
            return out
        return F.image.resize(out, self._size, False, 1 if self._interpolation is None else self._interpolation)


class CenterCrop(Block):
    """The central crop of `size`; see `image.center_crop`."""

    def __init__(self, size: Size, interpolation: int = 1) -> None:
        super().__init__()
        self._args = (_pair(size), interpolation)

    def forward(self, x: Any) -> Any:  # type: ignore[override]
        return image.center_crop(x, *self._args)[0]


class Resize(HybridBlock):
    """Resizes to `size`. If `size` is one number and `keep_ratio` is set, it is the length of the shorter side.

    OpenCV resizes an image of bytes, if it is installed. A compiled program serves one size of images alone, because
    the weights of its pixels are constants.
    """

    def __init__(self, size: Size, keep_ratio: bool = False, interpolation: int = 1) -> None:
        super().__init__()
        self._size = size
        self._keep = keep_ratio
        self._interpolation = interpolation

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.image.resize(x, self._size, self._keep, self._interpolation)

    def forward(self, x: Any, *args: Any) -> Any:
        if not isinstance(x, NDArray) or x.ndim != 3 or x.dtype != np.uint8 or x.context.device_type == "gpu":
            return super().forward(x, *args)
        return image.imresize(x, *self._target(x.shape), self._interpolation)

    def _target(self, shape: tuple[int, ...]) -> tuple[int, int]:
        """The new width and height of an image."""
        height, width, _ = shape
        if not isinstance(self._size, numeric_types) or not self._keep:
            return _pair(self._size)
        size: Any = self._size
        return (size * width // height, size) if height < width else (size, size * height // width)


class RandomFlipLeftRight(_Compiled):
    """Flips left to right with probability 1/2."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.image.random_flip_left_right(x)


class RandomFlipTopBottom(_Compiled):
    """Flips top to bottom with probability 1/2."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.image.random_flip_top_bottom(x)


class RandomBrightness(_Compiled):
    """Scales brightness by a random factor in [max(0, 1 - brightness), 1 + brightness]."""

    def __init__(self, brightness: float) -> None:
        super().__init__()
        self._args = (max(0, 1 - brightness), 1 + brightness)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.image.random_brightness(x, *self._args)


class RandomContrast(_Compiled):
    """Scales contrast by a random factor in [max(0, 1 - contrast), 1 + contrast]."""

    def __init__(self, contrast: float) -> None:
        super().__init__()
        self._args = (max(0, 1 - contrast), 1 + contrast)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.image.random_contrast(x, *self._args)


class RandomSaturation(_Compiled):
    """Scales saturation by a random factor in [max(0, 1 - saturation), 1 + saturation]."""

    def __init__(self, saturation: float) -> None:
        super().__init__()
        self._args = (max(0, 1 - saturation), 1 + saturation)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.image.random_saturation(x, *self._args)


class RandomHue(_Compiled):
    """Changes the hue by a random factor in [max(0, 1 - hue), 1 + hue]."""

    def __init__(self, hue: float) -> None:
        super().__init__()
        self._args = (max(0, 1 - hue), 1 + hue)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.image.random_hue(x, *self._args)


class RandomColorJitter(_Compiled):
    """Changes brightness, contrast, saturation and hue at random."""

    def __init__(self, brightness: float = 0, contrast: float = 0, saturation: float = 0, hue: float = 0) -> None:
        super().__init__()
        self._args = (brightness, contrast, saturation, hue)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.image.random_color_jitter(x, *self._args)


class RandomLighting(_Compiled):
    """Adds noise of standard deviation `alpha` along the principal components of colour."""

    def __init__(self, alpha: float) -> None:
        super().__init__()
        self._alpha = alpha

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.image.random_lighting(x, self._alpha)
