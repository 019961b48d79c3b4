"""Tables of programs: rows are the programs that were added, and damaged bytes are refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from mxforge.ir.manifest import ManifestError, program_to_bytes
from mxforge.ir.program import Copy, Place, Program, Space
from mxforge.ir.program_table import ProgramTables, tables_from_bytes, tables_size, tables_to_bytes
from mxforge.ir.types import DType, TensorType


def program(rows: int, code: bytes = b"code") -> Program:
    """Copies its input."""
    type = TensorType((rows, 4), DType.F32)
    copy = Copy(Place(Space.OUTPUT), Place(Space.INPUT), type.nbytes)
    return Program("copy", (type,), (type,), frozenset(), (copy,), (), 0, 0, b"constants", (code,))


def test_programs_that_differ_in_numbers_are_one_table() -> None:
    programs = [program(n) for n in (1, 5, 3)]
    other = program(2, b"other code")
    tables = ProgramTables()
    for added in (*programs, other):
        tables.add(added)
    first, second = tables_from_bytes(tables_to_bytes(tables.tables()))
    assert first.numbers.shape == (3, 2)  # extents and bytes
    assert second.numbers.shape == (1, 0)
    assert first.input_shapes(0).tolist() == [[1, 4], [5, 4], [3, 4]]
    for row, expected in enumerate(programs):
        assert program_to_bytes(first.program(row)) == program_to_bytes(expected)
    assert program_to_bytes(second.program(0)) == program_to_bytes(other)


def test_code_is_stored_once() -> None:
    tables = ProgramTables()
    tables.add(program(1, b"x" * 1000))
    tables.add(replace(program(2, b"x" * 1000), names=("layer",)))
    assert len(tables.tables()) == 2
    assert tables_size(tables.tables()) == 1000 + len(b"constants")
    assert len(tables_to_bytes(tables.tables())) < 2000


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (b'"n":1', b'"n":7', "damaged"),
        (b'"n":1', b'"m":1', "damaged"),
        (b'"rows":2', b'"rows":9', "damaged"),
        (b'"columns":2', b'"columns":1', "tables of"),
        (b'"blobs":[0,1]', b'"blobs":[0,4]', "damaged"),
        (b"mxftabl1", b"mxftabl0", "no tables"),
    ],
)
def test_damaged_tables(old: bytes, new: bytes, text: str) -> None:
    tables = ProgramTables()
    for n in (1, 5):
        tables.add(program(n))
    data = tables_to_bytes(tables.tables())
    assert old in data
    with pytest.raises(ManifestError, match=text):
        for table in tables_from_bytes(data.replace(old, new)):
            table.program(1)


def test_numbers_that_fit_no_program() -> None:
    """A row is checked as any program from a file: this one copies more bytes than its input has."""
    tables = ProgramTables()
    for n in (1, 5):
        tables.add(program(n))
    (table,) = tables.tables()
    wrong = replace(table, numbers=table.numbers * np.array([1, 9]))
    with pytest.raises(ManifestError, match="outside its space"):
        wrong.program(0)
