"""Programs that differ only in numbers, stored as one header and a table with a row of numbers for each program.

    tables = magic (8 bytes) | u64 length of header | header (JSON) | constants and code | numbers (int64)

A program for one shape is that for another shape with other extents, offsets and counts. `ProgramTables` divides
programs into tables: all of a table have the same steps, strings and code. The header of a table is that of a program
(`manifest.py`) with `{"n": c}` for a number that is in column c. Reading a row evaluates nothing: it puts numbers in
their places, and checks the program as any other one from a file.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any, cast

import numpy as np

from .lazy_dataclass import dataclass
from .manifest import ManifestError, program_from_header, program_to_header
from .program import Program
from .step_fields import natural

_MAGIC = b"mxftabl1"
_PREFIX = struct.Struct("<8sQ")
_COLUMN = "n"
_INT64 = np.dtype("<i8")


@dataclass(frozen=True, eq=False)
class ProgramTable:
    """Programs with the same steps and the same `blobs`: the constants, and the objects of the code. `header` has the
    numbers that are equal for all, and the columns of `numbers` (rows x columns) that hold the others."""

    header: dict[str, Any]
    blobs: tuple[bytes, ...]
    numbers: np.ndarray

    def __len__(self) -> int:
        """The number of programs."""
        return len(self.numbers)

    def program(self, row: int) -> Program:
        """The program of a row, checked. ManifestError for a damaged one."""
        numbers = self.numbers[row].tolist()
        try:
            header = _with_numbers(self.header, numbers)
        except (RecursionError, IndexError, KeyError, TypeError, ValueError) as error:
            raise ManifestError(f"the table's header is damaged ({type(error).__name__}: {error})") from None
        return program_from_header(header, self._blobs_of)

    def input_shapes(self, position: int) -> np.ndarray:
        """The shapes of an input in all programs (rows x axes). ManifestError if there is no such input."""
        try:
            extents = [self._column(n) for n in self.header["inputs"][position][0]]
        except (IndexError, KeyError, TypeError, ValueError) as error:
            raise ManifestError(f"the table's header is damaged ({type(error).__name__}: {error})") from None
        return np.stack(extents, axis=1) if extents else np.zeros((len(self), 0), np.int64)

    def _column(self, number: Any) -> np.ndarray:
        if isinstance(number, dict):
            return self.numbers[:, natural(cast("dict[str, Any]", number)[_COLUMN])]
        return np.full(len(self), natural(number), np.int64)

    def _blobs_of(self, sizes: Sequence[int]) -> Sequence[bytes]:
        if list(sizes) != list(map(len, self.blobs)):
            raise ManifestError("the sizes of constants and code do not agree with the table's header")
        return self.blobs


class ProgramTables:
    """Collects programs, and divides them into tables."""

    def __init__(self) -> None:
        self._rows: dict[tuple[bytes, tuple[bytes, ...]], tuple[Any, tuple[bytes, ...], list[np.ndarray]]] = {}
        self._known: dict[bytes, bytes] = {}  # so that equal blobs are one object

    def add(self, program: Program) -> None:
        """Add a program. ManifestError for one that cannot be written."""
        numbers: list[int] = []
        skeleton = _without_numbers(program_to_header(program), numbers)
        blobs = tuple([self._known.setdefault(blob, blob) for blob in (program.constants, *program.code)])
        digest = blake2b(json.dumps(skeleton).encode()).digest()
        _, _, rows = self._rows.setdefault((digest, blobs), (skeleton, blobs, []))
        rows.append(np.array(numbers, _INT64))

    def tables(self) -> list[ProgramTable]:
        """The tables, in the order of their first programs; programs of a table in the order in which they came."""
        return [_table(skeleton, blobs, np.stack(rows)) for skeleton, blobs, rows in self._rows.values()]


def _table(skeleton: Any, blobs: tuple[bytes, ...], numbers: np.ndarray) -> ProgramTable:
    """The table with a column for each number that is not the same in all rows; equal columns are one."""
    columns: dict[bytes, int] = {}
    kept: list[int] = []
    places: list[Any] = []
    for i, column in enumerate(np.ascontiguousarray(numbers.T)):
        if (column == column[0]).all():
            places.append(int(column[0]))
            continue
        at = columns.setdefault(column.tobytes(), len(kept))
        if at == len(kept):
            kept.append(i)
        places.append({_COLUMN: at})
    return ProgramTable(_filled(skeleton, iter(places)), blobs, np.ascontiguousarray(numbers[:, kept]))


def _without_numbers(thing: Any, numbers: list[int]) -> Any:
    """The JSON with 0 for each number, which is appended to `numbers`."""
    if type(thing) is int:
        numbers.append(thing)
        return 0
    if isinstance(thing, dict):
        return {k: _without_numbers(v, numbers) for k, v in cast("dict[str, Any]", thing).items()}
    if isinstance(thing, list | tuple):
        return [_without_numbers(x, numbers) for x in cast("list[Any]", thing)]
    return thing


def _filled(thing: Any, places: Iterator[Any]) -> Any:
    """The JSON with the next of `places` for each number."""
    if type(thing) is int:
        return next(places)
    if isinstance(thing, dict):
        return {k: _filled(v, places) for k, v in cast("dict[str, Any]", thing).items()}
    if isinstance(thing, list):
        return [_filled(x, places) for x in cast("list[Any]", thing)]
    return thing


def _with_numbers(header: dict[str, Any], numbers: list[int]) -> dict[str, Any]:
    """The header with the numbers of a row."""

    def filled(thing: Any) -> Any:
        if isinstance(thing, list):
            return [filled(x) for x in cast("list[Any]", thing)]
        return numbers[natural(thing[_COLUMN])] if isinstance(thing, dict) else thing

    return {key: filled(value) for key, value in header.items()}


# --- bytes ------------------------------------------------------------------------------------------------------------


def tables_to_bytes(tables: Sequence[ProgramTable]) -> bytes:
    """The tables as self-contained bytes. Blobs that several tables have are stored once."""
    positions: dict[bytes, int] = {}
    records = [
        {
            "program": table.header,
            "blobs": [positions.setdefault(blob, len(positions)) for blob in table.blobs],
            "rows": len(table),
            "columns": table.numbers.shape[1],
        }
        for table in tables
    ]
    text = json.dumps({"blobs": list(map(len, positions)), "tables": records}, separators=(",", ":")).encode()
    numbers = [table.numbers.astype(_INT64).tobytes() for table in tables]
    return b"".join((_PREFIX.pack(_MAGIC, len(text)), text, *positions, *numbers))


def tables_size(tables: Sequence[ProgramTable]) -> int:
    """The bytes of the blobs and of the numbers of the tables."""
    return sum(map(len, {blob for table in tables for blob in table.blobs})) + sum(t.numbers.nbytes for t in tables)


def tables_from_bytes(data: bytes) -> list[ProgramTable]:
    """The tables that `tables_to_bytes` wrote. ManifestError for any other bytes."""
    header, start = _header(data)
    try:
        blobs: list[bytes] = []
        for size in map(natural, header["blobs"]):
            blobs.append(data[start : start + size])
            start += size
        tables: list[ProgramTable] = []
        for record in header["tables"]:
            rows, columns = natural(record["rows"]), natural(record["columns"])
            if rows > 1 and not columns:
                raise ValueError(f"{rows} equal programs")
            own = tuple([blobs[natural(i)] for i in record["blobs"]])
            numbers = np.frombuffer(data, _INT64, rows * columns, start).reshape(rows, columns)
            tables.append(ProgramTable(_mapping(record["program"]), own, numbers))
            start += numbers.nbytes
    except (KeyError, ValueError, TypeError, IndexError, AttributeError, OverflowError) as error:
        raise ManifestError(f"the header of the tables is damaged ({type(error).__name__}: {error})") from None
    if start != len(data):
        raise ManifestError(f"tables of {start} bytes in a file of {len(data)} bytes")
    return tables


def _header(data: bytes) -> tuple[dict[str, Any], int]:
    if len(data) < _PREFIX.size or not data.startswith(_MAGIC):
        raise ManifestError(f"starts with {data[:8]!r}, not with {_MAGIC!r}: these are no tables of programs")
    _, length = _PREFIX.unpack_from(data)
    end = _PREFIX.size + length
    if end > len(data):
        raise ManifestError(f"a header of {length} bytes, of which only {len(data) - _PREFIX.size} are present")
    try:
        return _mapping(json.loads(data[_PREFIX.size : end])), end
    except (ValueError, TypeError, RecursionError) as error:
        raise ManifestError(f"the header is not JSON: {error}") from None


def _mapping(thing: Any) -> dict[str, Any]:
    if not isinstance(thing, dict):
        raise TypeError(f"{type(thing).__name__} is no JSON object")
    return cast("dict[str, Any]", thing)
