"""Reads a model's inputs from files: arrays, archives of arrays, and images."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ..frontend.artifacts.numpy_files import read_npy, read_npz
from ..ir.types import DType, TensorType
from .errors import ToolError, UsageError
from .images import SUFFIXES, ImageOptions, image_options, read_image
from .models import InputShapes, Model, data_types, no_such_input
from .parameters import require_parameters

_NPZ = ".npz"


def read_inputs(options: argparse.Namespace, names: Sequence[str]) -> dict[str, np.ndarray]:
    """The arrays in the files of `--input`, by the names of the model's inputs.

    `NAME=FILE` is an array or an image for input NAME. A file without a name is for the next input that has none, and
    an .npz file for all inputs that it names (`x0`, `x1`, ... are positions); with a name it is the array of that name,
    or the only one. Several images of one input are a batch; a folder is the images in it, in the order of their names.

    UsageError for a name that is not an input of the model and for options of images without images, ToolError for a
    file that cannot be read.
    """
    named_paths = [_split(argument, names) for argument in options.inputs]
    files = [(name, _files_of(path)) for name, path in named_paths]
    images = image_options(options, [path for _, paths in files for path in paths])
    arrays_of: dict[str, list[np.ndarray]] = {}
    for name, paths in files:
        if paths[0].suffix.lower() == _NPZ:
            read = _read_npz(paths[0], names) if name is None else {name: _from_npz(paths[0], name)}
            for key, array in read.items():
                _add(arrays_of, key, array, paths[0])
            continue
        target = name or _next_input(arrays_of, names, paths[0])
        for path in paths:
            _add(arrays_of, target, _read_array(path, images), path)
    return {name: arrays[0] if len(arrays) == 1 else np.concatenate(arrays) for name, arrays in arrays_of.items()}


def _files_of(path: Path) -> list[Path]:
    """The file, or the images in the folder. ToolError for a folder without any."""
    if not path.is_dir():
        return [path]
    images = sorted(p for p in path.iterdir() if p.suffix.lower() in SUFFIXES)
    if not images:
        raise ToolError(f"{path}: the folder contains no image ({', '.join(sorted(SUFFIXES))})")
    return images


def _split(argument: str, names: Sequence[str]) -> tuple[str | None, Path]:
    """(name of the input or None, path). Text before an equals sign is a name only if the model has such an input,
    because a file's name can contain one."""
    name, equals, rest = argument.partition("=")
    if equals and name in names:
        return name, Path(rest)
    if equals and not Path(argument).exists():
        raise no_such_input(name, names)
    return None, Path(argument)


def _next_input(used: Mapping[str, object], names: Sequence[str], path: Path) -> str:
    missing = [name for name in names if name not in used]
    if missing:
        return missing[0]
    if len(names) == 1 and path.suffix.lower() in SUFFIXES:
        return names[0]
    raise UsageError(f"{path}: all {len(names)} inputs of the model already have a file")


def _add(arrays_of: dict[str, list[np.ndarray]], name: str, array: np.ndarray, path: Path) -> None:
    if name in arrays_of and path.suffix.lower() not in SUFFIXES:
        raise UsageError(f"{path}: input {name!r} already has a file")
    before = arrays_of.setdefault(name, [])
    if before and before[0].shape[1:] != array.shape[1:]:
        sizes = f"{array.shape[1:]} differs from {before[0].shape[1:]}, the shape of the image before it"
        raise UsageError(f"{path}: {sizes} (use --size)")
    before.append(array)


def _read_array(path: Path, images: ImageOptions) -> np.ndarray:
    suffix = path.suffix.lower()
    if suffix in SUFFIXES:
        return read_image(path, images)
    if suffix != ".npy":
        raise UsageError(f"{path}: an input must be a .npy or .npz file or an image ({', '.join(sorted(SUFFIXES))})")
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
    unused = [key for key in archive if key not in keys.values()]
    if unused:
        print(
            f"mxforge: {path}: not read, because no input of the model has the name: {', '.join(unused)}",
            file=sys.stderr,
        )
    return {name: _numbers(archive[key], path) for name, key in keys.items()}


def _from_npz(path: Path, name: str) -> np.ndarray:
    """The array of the archive for one input: the one with its name, or the only one."""
    archive = read_npz(path)
    key = name if name in archive or len(archive) != 1 else next(iter(archive))
    if key not in archive:
        raise ToolError(f"{path}: contains {', '.join(archive) or 'no array'}, and none is {name!r}")
    return _numbers(archive[key], path)


def random_inputs(shapes: Mapping[str, tuple[Sequence[int], np.dtype]], seed: int = 0) -> dict[str, np.ndarray]:
    """Normal values for floats and zeros for other dtypes, because 0 is always a valid index."""
    generator = np.random.default_rng(seed)

    def make(shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
        normal = dtype.kind == "f"
        return generator.standard_normal(tuple(shape)).astype(dtype) if normal else np.zeros(tuple(shape), dtype)

    return {name: make(shape, dtype) for name, (shape, dtype) in shapes.items()}


# --- the inputs of a model --------------------------------------------------------------------------------------------


def types_and_arrays(model: Model, options: argparse.Namespace) -> tuple[dict[str, TensorType], dict[str, np.ndarray]]:
    """The types of the model's data, and the arrays in the files of `--input`, which determine shapes. Errors for
    parameters without values, and for data that is not a label and has no file if other data has."""
    arrays = read_inputs(options, model.data_names)
    require_parameters(model, {**arrays, **options.shapes}, options.allow_missing)
    shapes: InputShapes = {**options.shapes, **{name: (array.shape, None) for name, array in arrays.items()}}
    for name in model.data_names if arrays else ():
        if name not in arrays and not _is_label(name):
            raise model.missing(name)
    return data_types(model, shapes), arrays


def complete_inputs(types: Mapping[str, TensorType], arrays: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The arrays in the order of `types`, with zeros for labels: the outputs of a loss layer do not depend on them.
    Random arrays if none is given."""
    if not arrays:
        return random_arrays(types)
    return in_order({**labels_of(types), **arrays}, types)


def labels_of(types: Mapping[str, TensorType]) -> dict[str, np.ndarray]:
    """Zeros for the labels among these inputs."""
    return {n: np.zeros(t.shape, t.dtype.memory) for n, t in types.items() if _is_label(n)}


def random_arrays(types: Mapping[str, TensorType]) -> list[np.ndarray]:
    """Random arrays of these types; see `random_inputs`."""
    return list(random_inputs({name: (t.shape, t.dtype.memory) for name, t in types.items()}).values())


def in_order(arrays: Mapping[str, np.ndarray], types: Mapping[str, TensorType]) -> list[np.ndarray]:
    """The arrays in the order of `types`. ToolError for a dtype that cannot be converted."""
    return [_convertible(arrays[name], name, type) for name, type in types.items()]


def _is_label(name: str) -> bool:
    return name.endswith("_label")


def _convertible(array: np.ndarray, name: str, type: TensorType) -> np.ndarray:
    """The array. ToolError if the conversion to the model's dtype could lose more than precision."""
    expected = np.dtype(np.float32) if type.dtype is DType.BF16 else type.dtype.numpy
    if not np.can_cast(array.dtype, expected, "same_kind"):
        raise ToolError(
            f"input {name!r} is {array.dtype.name}, but the model requires {expected.name}: convert the file"
        )
    return array
