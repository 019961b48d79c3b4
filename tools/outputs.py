"""Writes a model's results to files, and describes them as text."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..frontend.artifacts import write_atomically
from ..ir.lazy_dataclass import dataclass
from .errors import ToolError, UsageError
from .schemas.record import real
from .schemas.run import Class, Output, Row

_CLASSES = 5  # the fewest columns of an output that looks like scores of classes
_ROWS = 8


@dataclass(frozen=True)
class Classes:
    """Which classes are shown: the `count` best of each row, by `labels` or numbers; probabilities with `softmax`."""

    count: int = 5
    labels: Sequence[str] = ()
    softmax: bool = False


def check_place(path: Path) -> None:
    """ToolError if outputs cannot be written to `path`, for any model. Called before the model is read."""
    if str(path) == "-":
        raise UsageError(
            "-: arrays are not written to stdout; --output is a .npz or .npy file or a folder, --json prints"
        )
    is_file = path.suffix in (".npz", ".npy")
    if path.suffix and not is_file and not path.is_dir():
        raise UsageError(f"{path}: outputs are written to a .npz or .npy file, or to a folder without a suffix")
    if path.exists():
        if path.is_dir() and is_file:
            raise ToolError(f"{path}: is a folder")
        if path.is_file() and not is_file:
            raise ToolError(f"{path}: is a file; outputs are written to a .npz or .npy file or to a folder")
        return
    check_folder(path)


def check_file(path: Path, suffix: str) -> None:
    """UsageError if the file has another suffix, ToolError if it cannot be written. Called before long work."""
    if path.suffix != suffix:
        raise UsageError(f"{path}: is not a {suffix} file")
    check_writable(path)


def check_writable(path: Path) -> None:
    """ToolError if a file cannot be written to `path`; the folder that contains it may not exist yet."""
    if path.is_dir():
        raise ToolError(f"{path}: is a folder")
    check_folder(path)


def check_folder(path: Path) -> None:
    """ToolError if nothing can be written to the folder of `path`, or the folder cannot be created."""
    folder = path.parent
    while not folder.exists():
        folder = folder.parent
    if not folder.is_dir():
        raise ToolError(f"{path}: there is no folder {folder}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ToolError(f"{path}: the folder {folder} cannot be written to")


def write_file(path: Path, data: bytes) -> None:
    """Write a file atomically, and create its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, data)


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
        counts = " or ".join(map(str, sorted(classes))) if classes else "no"
        raise UsageError(f"--labels: the file has {len(labels)} labels, but the outputs have {counts} classes")


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


def describe(outputs: Mapping[str, np.ndarray], show: Classes) -> tuple[Output, ...]:
    """The type and range of each output, and the best classes of its rows if it looks like scores of classes."""
    described: list[Output] = []
    for name, array in outputs.items():
        rows = tuple(_best(row, show) for row in array) if _looks_like_classes(array) else None
        output = Output(name=name, dtype=array.dtype.name, shape=array.shape, rows=rows)
        described.append(_with_range(output, array))
    return tuple(described)


def summary(outputs: Sequence[Output]) -> Iterator[str]:
    """The outputs as lines of text, with a line for each class of the first rows."""
    width = max((len(output.name) for output in outputs), default=0)
    for output in outputs:
        extents = ", ".join(map(str, output.shape))
        yield f"{output.name:{width}}  {output.dtype} ({extents}){_range_text(output)}"
        rows = output.rows or ()
        for number, row in enumerate(rows[:_ROWS]):
            yield f"  row {number}" + (f": {row.nan} of {output.shape[1]} values are NaN" if row.nan else "")
            yield from _class_lines(row.classes)
        if len(rows) > _ROWS:
            yield f"  ... and {len(rows) - _ROWS} more rows"


def _class_lines(classes: Sequence[Class]) -> Iterator[str]:
    width = max((len(str(row.label)) for row in classes), default=0)
    for row in classes:
        yield f"    {row.label!s:{width}}  {float(row.value):.4g}"


def _with_range(output: Output, array: np.ndarray) -> Output:
    if not array.size or array.dtype.kind not in "fiu":
        return output
    wide = array.astype(np.float64)
    if not np.isfinite(wide).all():
        return replace(output, not_finite=int((~np.isfinite(wide)).sum()))
    return replace(output, min=float(wide.min()), mean=real(float(wide.mean())), max=float(wide.max()))


def _range_text(output: Output) -> str:
    if output.not_finite:
        return f"  {output.not_finite} of {np.prod(output.shape)} values are not finite"
    if output.min is None or output.mean is None:
        return ""
    return f"  min {output.min:.6g}, mean {float(output.mean):.6g}, max {output.max:.6g}"


def _looks_like_classes(array: np.ndarray) -> bool:
    return array.ndim == 2 and array.dtype.kind == "f" and array.shape[1] >= _CLASSES and array.shape[0] > 0


def _best(row: np.ndarray, show: Classes) -> Row:
    """The best classes of a row; none if it contains NaN."""
    values = row.astype(np.float64)
    missing = int(np.isnan(values).sum())
    if missing:
        return Row(nan=missing, classes=())
    if show.softmax:
        values = np.exp(values - values.max())
        values /= values.sum()
    best: list[int] = np.argsort(-values, kind="stable")[: show.count].tolist()
    names: dict[int, str] = dict(enumerate(show.labels))
    return Row(nan=0, classes=tuple(Class(class_=i, label=names.get(i, i), value=real(float(values[i]))) for i in best))
