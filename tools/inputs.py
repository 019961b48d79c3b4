"""Reads a model's inputs from files: arrays, archives of arrays, and images."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..frontend.artifacts.numpy_files import read_npy, read_npz
from .errors import ToolError, UsageError

_IMAGE_OPTIONS = ("size", "mean", "std")
IMAGES = frozenset((".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif", ".ppm"))


@dataclass(frozen=True)
class ImageOptions:
    """The conversion of images to arrays: `size` is (height, width); `mean` and `std` are one number, or one per
    channel.
    """

    size: tuple[int, int] | None = None
    mean: Sequence[float] = (0.0,)
    std: Sequence[float] = (1.0,)


def image_options(options: argparse.Namespace) -> ImageOptions:
    """The options of images on the command line. UsageError if there are some, and no input is an image."""
    given = {name: value for name in _IMAGE_OPTIONS if (value := getattr(options, name)) is not None}
    if given and not any(Path(text).suffix.lower() in IMAGES for text in options.inputs):
        raise UsageError(f"--{next(iter(given))} is for images, and no --input is an image")
    return ImageOptions(**given)


def read_inputs(arguments: Sequence[str], names: Sequence[str], images: ImageOptions) -> dict[str, np.ndarray]:
    """The arrays in the files of `--input`, by the names of the model's inputs.

    `NAME=FILE` is an array or an image for input NAME. A file without a name is for the next input that has none, and
    an .npz file for all inputs that it names (`x0`, `x1`, ... are positions). Several images of one input are a batch.
    UsageError for a name that is not an input of the model, ToolError for a file that cannot be read.
    """
    found: dict[str, list[np.ndarray]] = {}
    for argument in arguments:
        name, path = _split(argument, names)
        if path.suffix.lower() == ".npz" and name is None:
            for key, array in _read_npz(path, names).items():
                _add(found, key, array, path)
            continue
        target = name or _next_input(found, names, path)
        _add(found, target, _read_array(path, images), path)
    return {name: arrays[0] if len(arrays) == 1 else np.concatenate(arrays) for name, arrays in found.items()}


def _split(argument: str, names: Sequence[str]) -> tuple[str | None, Path]:
    """(name of the input or None, path). Text before an equals sign is a name only if the model has such an input,
    because a file's name can contain one."""
    name, equals, rest = argument.partition("=")
    if equals and name in names:
        return name, Path(rest)
    if equals and not Path(argument).exists():
        raise UsageError(f"the model has no input {name!r}; it has {', '.join(names) or 'none'}")
    return None, Path(argument)


def _next_input(found: Mapping[str, object], names: Sequence[str], path: Path) -> str:
    missing = [name for name in names if name not in found]
    if missing:
        return missing[0]
    if len(names) == 1 and path.suffix.lower() in IMAGES:
        return names[0]
    raise UsageError(f"{path}: all {len(names)} inputs of the model already have a file")


def _add(found: dict[str, list[np.ndarray]], name: str, array: np.ndarray, path: Path) -> None:
    if name in found and path.suffix.lower() not in IMAGES:
        raise UsageError(f"{path}: input {name!r} already has a file")
    before = found.setdefault(name, [])
    if before and before[0].shape[1:] != array.shape[1:]:
        sizes = f"{array.shape[1:]} differs from {before[0].shape[1:]}, the shape of the image before it"
        raise UsageError(f"{path}: {sizes} (use --size)")
    before.append(array)


def _read_array(path: Path, images: ImageOptions) -> np.ndarray:
    suffix = path.suffix.lower()
    if suffix in IMAGES:
        return read_image(path, images)
    if suffix != ".npy":
        raise UsageError(f"{path}: an input must be a .npy or .npz file or an image ({', '.join(sorted(IMAGES))})")
    return _numbers(read_npy(path), path)


def _numbers(array: np.ndarray, path: Path) -> np.ndarray:
    if array.dtype.kind not in "biufc":
        raise ToolError(f"{path}: an input must contain numbers, not dtype {array.dtype}")
    return array


def _read_npz(path: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """The arrays of the archive for inputs of the model, by name or else by position."""
    archive = read_npz(path)
    keys = {key: key for key in names if key in archive}
    keys = keys or {name: f"x{i}" for i, name in enumerate(names) if f"x{i}" in archive}
    if not keys:
        raise ToolError(f"{path}: contains {', '.join(archive)}, but no input of the model ({', '.join(names)})")
    return {name: _numbers(archive[key], path) for name, key in keys.items()}


def read_image(path: Path, options: ImageOptions) -> np.ndarray:
    """An image as (1, 3, H, W) float32: (RGB / 255 - mean) / std. Resizing is bilinear and can change proportions."""
    try:
        from PIL import Image
    except ImportError:
        raise ToolError(f"{path}: images require Pillow: pip install pillow") from None
    try:
        with Image.open(path) as opened:
            image = opened.convert("RGB")
    except FileNotFoundError:
        raise
    except Exception as error:  # Pillow's parsers raise various errors for damaged files
        raise ToolError(f"{path}: is not an image that Pillow can read ({type(error).__name__})") from error
    if options.size is not None:
        height, width = options.size
        image = image.resize((width, height), Image.Resampling.BILINEAR)
    pixels = np.asarray(image, np.float32).transpose(2, 0, 1) / np.float32(255)
    mean, std = (_per_channel(v, n) for v, n in ((options.mean, "--mean"), (options.std, "--std")))
    return np.ascontiguousarray(((pixels - mean) / std)[None], np.float32)


def _per_channel(values: Sequence[float], option: str) -> np.ndarray:
    if len(values) not in (1, 3):
        raise UsageError(f"{option}: expects one number or three, not {len(values)}")
    if option == "--std" and 0 in values:
        raise UsageError("--std: must not be 0")
    return np.asarray(values, np.float32).reshape(-1, 1, 1)


def random_inputs(shapes: Mapping[str, tuple[Sequence[int], np.dtype]], seed: int = 0) -> dict[str, np.ndarray]:
    """Normal values for floats and zeros for other dtypes, because 0 is always a valid index."""
    generator = np.random.default_rng(seed)

    def make(shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
        normal = dtype.kind == "f"
        return generator.standard_normal(tuple(shape)).astype(dtype) if normal else np.zeros(tuple(shape), dtype)

    return {name: make(shape, dtype) for name, (shape, dtype) in shapes.items()}
