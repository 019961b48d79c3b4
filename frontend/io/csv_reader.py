"""`CSVIter`: rows of numbers in text files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...ir.dialects.mx.parameters import Ints, Text
from ..base import MXNetError
from ..ndarray import array
from ..tracebacks import cause_of
from .parameters import BatchParameters, iterator_function, require
from .streams import Batch, MXDataIter, Rounds, RowStream
from .text_files import data_files, read_lines


class CSVParameters(BatchParameters):
    """
    Args:
        data_csv: A file with one example per line, several files separated by ";", or a folder of files.
        data_shape: The shape of one example.
        label_csv: The file, files or folder with the labels; "NULL": all labels are 0.
        label_shape: The shape of one label.
        dtype: "float32", "int32" or "int64"; None is "float32".
    """

    data_csv: Text
    data_shape: Ints
    label_csv: Text = "NULL"
    label_shape: Ints = (1,)


class Row(NamedTuple):
    """One example; `label` is None if all labels are 0."""

    number: int
    data: np.ndarray
    label: np.ndarray | None


class CSVRows:
    """The examples of the files of a CSVIter, in order."""

    def __init__(self, name: str, parameters: CSVParameters, dtype: np.dtype[Any]) -> None:
        self._name, self._dtype = name, dtype
        self._data = data_files(name, parameters.data_csv), prod(parameters.data_shape)
        has_labels = parameters.label_csv != "NULL"
        self._labels = (data_files(name, parameters.label_csv), prod(parameters.label_shape)) if has_labels else None
        self.rewind()

    def rewind(self) -> None:
        self._rows = self._read()

    def take(self, count: int) -> list[Row]:
        return list(islice(self._rows, count))

    def _read(self) -> Iterator[Row]:
        labels = None if self._labels is None else rows_of_files(self._name, *self._labels, self._dtype)
        for index, data in enumerate(rows_of_files(self._name, *self._data, self._dtype)):
            label = None if labels is None else next(labels, None)
            if labels is not None and label is None:
                raise MXNetError(f"{self._name}: the label files have {index} rows, and the data files have more")
            yield Row(index, data, label)


def rows_of_files(name: str, paths: list[str], width: int, dtype: np.dtype[Any]) -> Iterator[np.ndarray]:
    """The rows of `width` numbers in text files. MXNetError names a line with text or other fields."""
    for block in read_lines(paths):
        lines = [line.rstrip().removesuffix(",") for line in block.lines]
        numbers = _numbers(lines, width, dtype)
        if numbers is None:
            numbers = (_row(name, block.where(i), line, width, dtype) for i, line in enumerate(lines))
        yield from numbers


def _numbers(lines: list[str], width: int, dtype: np.dtype[Any]) -> np.ndarray | None:
    """The numbers of lines, (lines, width), or None if a line is invalid or has floats where integers are expected."""
    if not all(line.count(",") == width - 1 for line in lines):
        return None
    try:
        return np.loadtxt(lines, dtype, delimiter=",", comments=None, ndmin=2).reshape(-1, width)
    except (ValueError, OverflowError):
        return None


def _row(name: str, where: str, line: str, width: int, dtype: np.dtype[Any]) -> np.ndarray:
    fields = line.split(",")
    if len(fields) != width:
        reason = f"{len(fields)} fields, but the shape has {width} elements"
        raise MXNetError(f"{name}: {where}: {reason}: {line[:80]!r}")
    try:
        return np.array([_number(field, dtype) for field in fields], dtype)
    except ValueError as error:
        raise MXNetError(f"{name}: {where}: {error}: {line[:80]!r}") from cause_of(error)


def _number(field: str, dtype: np.dtype[Any]) -> Any:
    """A number; where an integer is expected, the digits before the point, with the low bits that fit."""
    try:
        if dtype.kind == "f":
            return float(field)
        value = int(field if field.strip().lstrip("+-").isdecimal() else float(field))
    except (ValueError, OverflowError):
        raise ValueError(f"{field.strip()!r} is not a number") from None
    return np.array(value & (1 << 64) - 1, np.uint64).astype(dtype)


class CSVStream(RowStream[Row]):
    """The batches of a CSVIter. Rows that are missing in the last batch are those of the batch before, as in MXNet, or
    zeros.
    """

    def __init__(self, name: str, parameters: CSVParameters) -> None:
        dtype = np.dtype(parameters.dtype or "float32")
        require(name, dtype.name in ("float32", "int32", "int64"), f"dtype={dtype.name!r} is not supported")
        rows = CSVRows(name, parameters, dtype)
        super().__init__(
            name, parameters.prefetch_buffer, Rounds(name, rows, parameters.batch_size, parameters.round_batch)
        )
        labels = () if parameters.label_shape == (1,) else parameters.label_shape
        self._data = np.zeros((parameters.batch_size, *parameters.data_shape), dtype)
        self._label = np.zeros((parameters.batch_size, *labels), dtype)
        self._index = np.zeros(parameters.batch_size, np.uint64)

    def assemble(self, examples: list[Row], missing: int) -> Batch:
        n = len(examples)
        self._index[:n] = [row.number for row in examples]
        self._data[:n] = np.stack([row.data for row in examples]).reshape(n, *self._data.shape[1:])
        labels = [row.label for row in examples if row.label is not None]
        if labels:
            self._label[:n] = np.stack(labels).reshape(n, *self._label.shape[1:])
        dtype = self._data.dtype
        return Batch(array(self._data, dtype=dtype), array(self._label, dtype=dtype), missing, self._index.copy())


def _make(name: str, parameters: CSVParameters, arguments: Mapping[str, Any]) -> MXDataIter:
    return MXDataIter(CSVStream(name, parameters), **arguments)


CSVIter = iterator_function(
    "CSVIter", CSVParameters, "An iterator over the rows of text files of numbers separated by commas.", _make
)
