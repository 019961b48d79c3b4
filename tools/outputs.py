"""Writes a model's results to files, and describes them as text."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from ..frontend.artifacts import write_atomically
from .errors import ToolError, UsageError

_TOP = 5
_ROWS = 8


def check_place(path: Path) -> None:
    """ToolError if outputs cannot be written to `path`, for any model. Called before the model is read."""
    is_file = path.suffix in (".npz", ".npy")
    if path.suffix and not is_file and not path.is_dir():
        raise UsageError(f"{path}: outputs are written to a .npz or .npy file, or to a folder without a suffix")
    if path.exists():
        if path.is_dir() and is_file:
            raise ToolError(f"{path}: is a folder")
        if path.is_file() and not is_file:
            raise ToolError(f"{path}: is a file; outputs are written to a .npz or .npy file or to a folder")
        return
    folder = path.parent
    while not folder.exists():
        folder = folder.parent
    if not folder.is_dir():
        raise ToolError(f"{path}: there is no folder {folder}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ToolError(f"{path}: the folder {folder} cannot be written to")


def check_output(path: Path, names: Sequence[str]) -> None:
    """UsageError if these outputs cannot be written to `path`. Called before the model runs."""
    if path.suffix == ".npy" and len(names) != 1:
        raise UsageError(
            f"{path}: a .npy file contains one array, but the model has {len(names)} outputs: use .npz or a folder"
        )


def check_labels(outputs: Mapping[str, np.ndarray], labels: Sequence[str]) -> None:
    """UsageError if there are labels, and no output has as many classes."""
    classes = {array.shape[1] for array in outputs.values() if _looks_like_classes(array)}
    if labels and len(labels) not in classes:
        found = " or ".join(map(str, sorted(classes))) if classes else "no"
        raise UsageError(f"--labels: the file has {len(labels)} labels, but the outputs have {found} classes")


def write_outputs(path: Path, outputs: Mapping[str, np.ndarray]) -> None:
    """Write a .npz or .npy file, or a folder with a .npy file per output. Every file is written atomically, and the
    folder that contains it is created."""
    path.parent.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    if path.suffix == ".npz":
        np.savez(buffer, allow_pickle=False, **outputs)
        write_atomically(path, buffer.getvalue())
    elif path.suffix == ".npy":
        write_atomically(path, _npy(next(iter(outputs.values()))))
    else:
        path.mkdir(parents=True, exist_ok=True)
        for name, array in outputs.items():
            write_atomically(path / f"{_file_name(name)}.npy", _npy(array))


def _npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _file_name(name: str) -> str:
    return re.sub(r"[^\w.-]", "_", name).lstrip(".") or "output"


def summary(outputs: Mapping[str, np.ndarray], labels: Sequence[str] = ()) -> Iterator[str]:
    """Lines that describe the results: type and range of each, and the largest values if they look like classes."""
    width = max(map(len, outputs), default=0)
    for name, array in outputs.items():
        extents = ", ".join(map(str, array.shape))
        yield f"{name:{width}}  {array.dtype.name} ({extents}){_range(array)}"
        if _looks_like_classes(array):
            yield from _top_classes(array, labels)


def _range(array: np.ndarray) -> str:
    if not array.size or array.dtype.kind not in "fiu":
        return ""
    wide = array.astype(np.float64)
    if not np.isfinite(wide).all():
        return f"  {int((~np.isfinite(wide)).sum())} of {array.size} values are not finite"
    return f"  min {wide.min():.6g}, mean {wide.mean():.6g}, max {wide.max():.6g}"


def _looks_like_classes(array: np.ndarray) -> bool:
    return array.ndim == 2 and array.dtype.kind == "f" and array.shape[1] >= _TOP and array.shape[0] > 0


def _top_classes(array: np.ndarray, labels: Sequence[str]) -> Iterator[str]:
    for row, values in enumerate(array[:_ROWS]):
        if np.isnan(values).any():
            yield f"  row {row}: {int(np.isnan(values).sum())} of {len(values)} values are NaN"
            continue
        best = np.argsort(-values.astype(np.float64), kind="stable")[:_TOP]
        shown = ", ".join(f"{labels[i] if i < len(labels) else i} {values[i]:.4g}" for i in best)
        yield f"  row {row}, top {_TOP}: {shown}"
    if len(array) > _ROWS:
        yield f"  ... and {len(array) - _ROWS} more rows"
