"""`LibSVMIter`: sparse rows in text files of lines "label index:value index:value ...", with indices from 0."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple, cast

import numpy as np

from ...ir.dialects.mx.parameters import Int, Ints, Text
from ..base import MXNetError
from ..ndarray import NDArray, array
from ..ndarray.sparse import csr_matrix
from .parameters import BatchParameters, iterator_function, require
from .streams import Batch, MXDataIter, Rounds, RowStream
from .text_files import data_files, read_lines


class LibSVMParameters(BatchParameters):
    """
    Args:
        data_libsvm: A file with one example per line, several files separated by ";", or a folder of files.
        data_shape: The shape of one example: its number of columns.
        label_libsvm: The file, files or folder with sparse labels; "NULL": the labels are those of the data files.
        label_shape: The shape of one label.
        num_parts, part_index: The number of parts of the data, and which of them is read.
        round_batch: Must be True: the last batch is filled with the first examples.
        dtype: "float32" or None.
    """

    data_libsvm: Text
    data_shape: Ints
    label_libsvm: Text = "NULL"
    label_shape: Ints = (1,)
    num_parts: Int = 1
    part_index: Int = 0


class SparseRow(NamedTuple):
    """The label of a line, and its stored elements."""

    label: float
    columns: list[int]
    values: list[float]


class Example(NamedTuple):
    """One example; `label` is None if its label is that of its data."""

    number: int
    data: SparseRow
    label: SparseRow | None


class LibSVMRows:
    """The examples of the files of a LibSVMIter, in order."""

    def __init__(self, name: str, parameters: LibSVMParameters) -> None:
        self._name = name
        self._part = parameters.part_index, parameters.num_parts
        self._data = data_files(name, parameters.data_libsvm), parameters.data_shape[0]
        sparse = parameters.label_libsvm != "NULL"
        self._labels = (data_files(name, parameters.label_libsvm), parameters.label_shape[0]) if sparse else None
        self.rewind()

    def rewind(self) -> None:
        self._rows = self._read()

    def take(self, count: int) -> list[Example]:
        return list(islice(self._rows, count))

    def _read(self) -> Iterator[Example]:
        labels = None if self._labels is None else self._sparse_rows(*self._labels)
        for number, data in enumerate(self._sparse_rows(*self._data)):
            label = None if labels is None else next(labels, None)
            if labels is not None and label is None:
                raise MXNetError(f"{self._name}: the label files have {number} rows, and the data files have more")
            yield Example(number, data, label)

    def _sparse_rows(self, paths: list[str], width: int) -> Iterator[SparseRow]:
        for block in read_lines(paths, *self._part):
            for i, line in enumerate(block.lines):
                try:
                    row = parse_row(line, width)
                except ValueError as error:
                    raise MXNetError(f"{self._name}: {block.where(i)}: {error}: {line[:80]!r}") from None
                if row is not None:
                    yield row


def parse_row(line: str, width: int) -> SparseRow | None:
    """The numbers of a line; None for a comment. ValueError if an index is not ascending or too large, or for text.

    The weight of a label and the number of a query ("qid:3") are not used.
    """
    fields = line.partition("#")[0].split()
    if not fields:
        return None
    label = float(fields[0].partition(":")[0])
    columns: list[int] = []
    values: list[float] = []
    last = -1
    for field in fields[1:]:
        column, colon, value = field.partition(":")
        if column == "qid":
            continue
        if not colon:
            raise ValueError(f"{field!r} is not index:value")
        at = int(column)
        if not last < at < width:
            reason = f"is not below {width}, the extent of the shape" if at > last else "is not ascending"
            raise ValueError(f"the index {at} {reason}" if at >= 0 else f"the index {at} is negative")
        columns.append(at)
        values.append(float(value))
        last = at
    return SparseRow(label, columns, values)


class LibSVMStream(RowStream[Example]):
    """The batches of a LibSVMIter: csr matrices with a vector of labels, or with a csr matrix of labels."""

    def __init__(self, name: str, parameters: LibSVMParameters) -> None:
        require(name, len(parameters.data_shape) == 1, f"data_shape={parameters.data_shape} must have one axis")
        require(name, len(parameters.label_shape) == 1, f"label_shape={parameters.label_shape} must have one axis")
        require(name, parameters.round_batch, "round_batch=False is not supported")
        require(name, parameters.dtype in (None, "float32"), f"dtype={parameters.dtype!r} is not supported")
        part, parts = parameters.part_index, parameters.num_parts
        require(name, 0 <= part < parts, f"part_index={part} must be at least 0 and less than num_parts={parts}")
        sparse = parameters.label_libsvm != "NULL"
        only = "only" if sparse else "without"
        single = parameters.label_shape == (1,)
        require(name, single != sparse, f"label_shape={parameters.label_shape} is for iterators {only} label_libsvm")
        rounds = Rounds(name, LibSVMRows(name, parameters), parameters.batch_size, True)
        super().__init__(name, parameters.prefetch_buffer, rounds)
        self._width, self._label_width = parameters.data_shape[0], parameters.label_shape[0]

    def assemble(self, examples: list[Example], missing: int) -> Batch:
        labels = [example.label for example in examples]
        label = (
            array([example.data.label for example in examples])
            if labels[0] is None
            else _matrix(cast("list[SparseRow]", labels), self._label_width)
        )
        numbers = np.array([example.number for example in examples], np.uint64)
        return Batch(_matrix([example.data for example in examples], self._width), label, missing, numbers)


def _matrix(rows: list[SparseRow], width: int) -> NDArray:
    values = np.array([value for row in rows for value in row.values], np.float32)
    columns = np.array([column for row in rows for column in row.columns], np.int64)
    starts = np.concatenate([[0], np.cumsum([len(row.columns) for row in rows])]).astype(np.int64)
    return csr_matrix((values, columns, starts), shape=(len(rows), width), dtype=np.float32)


def _make(name: str, parameters: LibSVMParameters, arguments: Mapping[str, Any]) -> MXDataIter:
    return MXDataIter(LibSVMStream(name, parameters), **arguments)


LibSVMIter = iterator_function(
    "LibSVMIter", LibSVMParameters, "An iterator over sparse rows in text files. Its batches are csr matrices.", _make
)
