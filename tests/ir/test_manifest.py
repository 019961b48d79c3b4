"""Serialised programs: they are read back unchanged, and damaged bytes are refused before use."""

from __future__ import annotations

import dataclasses
import json
import struct
from typing import Any

import pytest
from mxforge.ir.graph import RandomKey
from mxforge.ir.manifest import ManifestError, program_from_bytes, program_to_bytes
from mxforge.ir.places import Access, reading, writing
from mxforge.ir.program import Copy, Launch, Place, Program, Space
from mxforge.ir.types import DType, Layout, TensorType

PLAIN = TensorType((2, 3), DType.F32)
BLOCKED = TensorType((1, 5, 4, 4), DType.BF16, Layout(8, ((1, 1), (0, 2))))
PROGRAM = Program(
    name="net",
    inputs=(PLAIN, BLOCKED, TensorType((4,), DType.U32)),
    outputs=(PLAIN,),
    parameters=frozenset({1}),
    steps=(
        Launch(
            "k",
            (Place(Space.INPUT, 0), Place(Space.ARENA, 0, 64), -3, Place(Space.OUTPUT, 0)),
            *(6, 9, "contract", (1,), "no schedule takes it"),
            (reading(24), Access(8, reads=True, writes=True), writing(24)),
        ),
        Launch("other", (Place(Space.OUTPUT, 0),), 1, 1),
        Copy(Place(Space.OUTPUT, 0), Place(Space.CONSTANT, 0, 8), 24),
    ),
    prepare=(Launch("p", (Place(Space.INPUT, 1), Place(Space.PREPARED)), 1, 1),),
    arena_bytes=128,
    prepared_bytes=256,
    constants=bytes(range(32)),
    code=(b"object", b"another"),
    state=(0,),
    random=RandomKey(2, 3),
    elementwise=frozenset({0}),
    names=("data", "conv0"),
    groups=(1, 1, 1),
)


def test_round_trip() -> None:
    made = program_from_bytes(program_to_bytes(PROGRAM))
    assert dataclasses.astuple(made) == dataclasses.astuple(PROGRAM)


def test_every_truncation_is_refused() -> None:
    data = program_to_bytes(PROGRAM)
    for length in range(len(data)):
        with pytest.raises(ManifestError):
            program_from_bytes(data[:length])
    with pytest.raises(ManifestError, match="too many"):
        program_from_bytes(data + b"x")


def changed(**fields: Any) -> bytes:
    """The program's bytes with changed header fields."""
    data = program_to_bytes(PROGRAM)
    (length,) = struct.unpack_from("<Q", data, 8)
    header = {**json.loads(data[16 : 16 + length]), **fields}
    text = json.dumps({k: v for k, v in header.items() if v is not None}).encode()
    return data[:8] + struct.pack("<Q", len(text)) + text + data[16 + length :]


@pytest.mark.parametrize(
    "fields",
    [
        {"arena": -1},
        {"arena": 1 << 70},
        {"arena": 63},
        {"constants": 1 << 40},
        {"code": [6, 8]},
        {"code": [6]},
        {"code": "6"},
        {"parameters": [3]},
        {"state": [3]},
        {"elementwise": [-1]},
        {"random": [1, 1]},
        {"random": [2]},
        {"random": [2, -1]},
        {"inputs": [[[2, 3], "f33", None]]},
        {"inputs": [[[2, -3], "f32", None]]},
        {"outputs": [[[2, 3], "f32", [0, []]]]},
        {"names": [1, 2]},
        {"name": None},
        {"prepare": 7},
        {"groups": [1]},
        {"groups": [3, 0]},
        {"groups": "all"},
    ],
    ids=str,
)
def test_inconsistent_headers_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ManifestError):
        program_from_bytes(changed(**fields))


def nested_loops(depth: int) -> list[Any]:
    step: list[Any] = ["fill", ["output", 0, 0], 4]
    for _ in range(depth):
        step = ["loop", [step], 1, None, "", []]
    return step


@pytest.mark.parametrize(
    ("message", "step"),
    [
        ("input 3 does not exist", ["launch", "k", [["input", 3, 0]], 1, 1, "", [], "", []]),
        (r"output0\+25 is outside its space", ["launch", "k", [["output", 0, 25]], 1, 1, "", [], "", []]),
        (r"20 bytes from output0\+8 on", ["launch", "k", [["output", 0, 8]], 1, 1, "", [], "", [(20 << 2) | 1]]),
        (
            r"which is neither an output nor state",
            ["launch", "k", [["input", 1, 0]], 1, 1, "", [], "", [(20 << 2) | 1]],
        ),
        ("2 accesses to 1 places", ["launch", "k", [["output", 0, 0]], 1, 1, "", [], "", [17, 18]]),
        ("-1 is negative", ["launch", "k", [["output", 0, 0]], 1, 1, "", [], "", [-1]]),
        ("space 'nowhere' is unknown", ["launch", "k", [["nowhere", 0, 0]], 1, 1, "", [], "", []]),
        ("True is not an integer", ["launch", "k", [True], 1, 1, "", [], "", []]),
        ("-1 is negative", ["launch", "k", [], -1, 1, "", [], "", []]),
        ("5 is not a string", ["launch", 5, [], 1, 1, "", [], "", []]),
        ("the program's header is damaged", ["launch", "k"]),
        (r"layers \(2,\) of 2 names", ["launch", "k", [], 1, 1, "", [2], "", []]),
        ("0 is not a string", ["launch", "k", [], 1, 1, 0, [], "", []]),
        ("output 1 does not exist", ["copy", ["output", 1, 0], ["constant", 0, 0], 8]),
        (r"24 bytes from constant\+9 on", ["copy", ["output", 0, 0], ["constant", 0, 9], 24]),
        (r"24 bytes from output0\+1 on", ["copy", ["output", 0, 1], ["constant", 0, 0], 24]),
        ("a step 'jump' is unknown", ["jump", "k"]),
        (r"24 bytes from output0\+1 on", ["fill", ["output", 0, 1], 24]),
        ("-1 is negative", ["loop", [], -1, None, "", []]),
        (r"1 bytes from constant\+32 on", ["loop", [], 1, ["constant", 0, 32], "", []]),
        ("a step 'jump' is unknown", ["branch", ["output", 0, 0], [], [["jump"]], "", []]),
        ("in more than 64 loops", nested_loops(70)),
        ("unknown operation 'sort'", ["collective", "sort", "f32", ["output", 0, 0], ["output", 0, 0], 2, "", []]),
        ("'f99' is not a valid DType", ["collective", "sum", "f99", ["output", 0, 0], ["output", 0, 0], 2, "", []]),
        (r"28 bytes from output0", ["collective", "sum", "f32", ["output", 0, 0], ["output", 0, 0], 7, "", []]),
        ("there are 0 functions", ["host_call", 0, [], "", [], ""]),
        ("True is not an integer", ["launch", "k", [["output", 0, 0, True]], 1, 1, "", [], "", []]),
        ("the program's header is damaged", []),
    ],
)
def test_inconsistent_steps_are_refused(message: str, step: list[Any]) -> None:
    with pytest.raises(ManifestError, match=message):
        program_from_bytes(changed(steps=[step], groups=[]))


@pytest.mark.parametrize("data", [b"", b"mxfprog6", b"x" * 100, b"mxfprog6" + struct.pack("<Q", 2) + b"[]"], ids=str)
def test_foreign_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ManifestError):
        program_from_bytes(data)
