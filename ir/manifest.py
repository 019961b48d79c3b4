"""Converts a Program to bytes and back, for the disk cache and ahead-of-time compilation.

    program = magic (8 bytes) | u64 length of header | header (JSON) | constants | code * n

The header holds everything except the constants and the code, whose lengths it lists. Numbers are little-endian. The
reader checks each length before it uses it, and then the program (`program_verifier.py`). The machine code itself
cannot be checked: callers load only files that they trust.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .graph import Check, GraphError, RandomKey
from .program import HostFunction, Program, Step
from .program_verifier import verify_program
from .step_fields import FieldType, fields_of, natural, string
from .steps import KINDS, MNEMONICS
from .types import DType, Layout, TensorType

_MAGIC = b"mxfprog6"
_PREFIX = struct.Struct("<8sQ")
_DEEPEST = 64  # loops and branches in each other


class ManifestError(ValueError):
    """The bytes are not a program, or a damaged one."""


def program_to_bytes(program: Program) -> bytes:
    """The program as self-contained bytes. ManifestError if it calls users' functions, which cannot be written."""
    text = json.dumps(program_to_header(program), separators=(",", ":")).encode()
    return b"".join((_PREFIX.pack(_MAGIC, len(text)), text, program.constants, *program.code))


def program_to_header(program: Program) -> dict[str, Any]:
    """The program without the bytes of constants and code, as JSON. ManifestError as from `program_to_bytes`."""
    if program.calls_python:
        names = ", ".join(f.label for f in program.functions if f.op is None)
        raise ManifestError(f"{program.name} calls Python functions ({names}): it cannot be written")
    return {
        "name": program.name,
        "names": program.names,
        "inputs": [_type_to_json(t) for t in program.inputs],
        "outputs": [_type_to_json(t) for t in program.outputs],
        "parameters": sorted(program.parameters),
        "steps": [_step_to_json(step) for step in program.steps],
        "prepare": [_step_to_json(step) for step in program.prepare],
        "functions": _function_texts(program),
        "state": program.state,
        "random": [] if program.random is None else [program.random.input, program.random.draws],
        "elementwise": sorted(program.elementwise),
        "groups": program.groups,
        "checks": program.checks,
        "arena": program.arena_bytes,
        "scratch": program.scratch_bytes,
        "prepared": program.prepared_bytes,
        "constants": len(program.constants),
        "code": [len(code) for code in program.code],
    }


def program_from_bytes(data: bytes) -> Program:
    """The program that `program_to_bytes` wrote. ManifestError for any other bytes."""
    header, start = _header(data)
    return program_from_header(header, lambda sizes: list(_cut(data, start, sizes)))


def program_from_header(header: dict[str, Any], blobs_of: Callable[[Sequence[int]], Sequence[bytes]]) -> Program:
    """The program of `program_to_header`, checked. `blobs_of` returns the constants and the code for the lengths in the
    header. ManifestError for anything else."""
    try:
        return _program(header, blobs_of)
    except ManifestError:
        raise
    except GraphError as error:
        raise ManifestError(str(error)) from None
    except (KeyError, ValueError, TypeError, IndexError, AttributeError) as error:
        raise ManifestError(f"the program's header is damaged ({type(error).__name__}: {error})") from None


def _header(data: bytes) -> tuple[dict[str, Any], int]:
    if len(data) < _PREFIX.size:
        raise ManifestError(f"{len(data)} bytes are not a program")
    magic, length = _PREFIX.unpack_from(data)
    if magic != _MAGIC:
        raise ManifestError(f"starts with {magic!r}, not with {_MAGIC!r}: this is not a program")
    end = _PREFIX.size + length
    if end > len(data):
        raise ManifestError(f"a header of {length} bytes, of which only {len(data) - _PREFIX.size} are present")
    try:
        header: object = json.loads(data[_PREFIX.size : end])
    except (ValueError, RecursionError) as error:
        raise ManifestError(f"the header is not JSON: {error}") from None
    if not isinstance(header, dict):
        raise ManifestError("the header is not a JSON object")
    return header, end  # pyright: ignore[reportUnknownVariableType]


def _program(header: dict[str, Any], blobs_of: Callable[[Sequence[int]], Sequence[bytes]]) -> Program:
    blobs = blobs_of([natural(header["constants"]), *map(natural, header["code"])])
    program = Program(
        name=string(header["name"]),
        inputs=tuple(_type_from_json(t) for t in header["inputs"]),
        outputs=tuple(_type_from_json(t) for t in header["outputs"]),
        parameters=frozenset(map(natural, header["parameters"])),
        steps=_steps(header["steps"]),
        prepare=_steps(header["prepare"]),
        arena_bytes=natural(header["arena"]),
        prepared_bytes=natural(header["prepared"]),
        constants=blobs[0],
        code=tuple(blobs[1:]),
        functions=_parsed_functions([string(text) for text in header["functions"]]),
        state=tuple(map(natural, header["state"])),
        random=None if header["random"] == [] else _random(header["random"]),
        elementwise=frozenset(map(natural, header["elementwise"])),
        names=tuple(map(string, header["names"])),
        groups=tuple(map(natural, header.get("groups", ()))),
        checks=tuple(Check(string(message), bool(is_index)) for message, is_index in header["checks"]),
        scratch_bytes=natural(header.get("scratch", 0)),
    )
    verify_program(program)
    return program


def _steps(records: list[Any], depth: int = 0) -> tuple[Step, ...]:
    if depth > _DEEPEST:
        raise ManifestError(f"steps in more than {_DEEPEST} loops and branches")
    return tuple([_step(record, depth) for record in records])


def _step(record: list[Any], depth: int) -> Step:
    mnemonic, *values = record
    if mnemonic not in KINDS:
        raise ManifestError(f"a step {mnemonic!r} is unknown")
    kind: Any = KINDS[mnemonic]
    types = fields_of(kind).all.values()
    return kind(*[_value(type, value, depth) for type, value in zip(types, values, strict=True)])


def _value(type: FieldType, value: Any, depth: int) -> Any:
    return _steps(value, depth + 1) if type.has_steps else type.from_json(value)


def _random(record: list[Any]) -> RandomKey:
    position, draws = record
    return RandomKey(natural(position), natural(draws))


def _cut(data: bytes, start: int, sizes: Iterable[int]) -> Iterable[bytes]:
    for size in sizes:
        if start + size > len(data):
            raise ManifestError(f"{size} bytes at byte {start} exceed a file of {len(data)} bytes")
        yield data[start : start + size]
        start += size
    if start != len(data):
        raise ManifestError(f"{len(data) - start} bytes too many")


def _step_to_json(step: Step) -> list[Any]:
    values = [_value_to_json(type, getattr(step, name)) for name, type in fields_of(step.__class__).all.items()]
    return [MNEMONICS[step.__class__], *values]


def _value_to_json(type: FieldType, value: Any) -> Any:
    return [_step_to_json(step) for step in value] if type.has_steps else type.to_json(value)


def _function_texts(program: Program) -> list[str]:
    if not program.functions:
        return []
    from .host_functions import function_text

    return [function_text(function) for function in program.functions]


def _parsed_functions(texts: list[str]) -> tuple[HostFunction, ...]:
    if not texts:
        return ()
    from .host_functions import parse_function

    return tuple(map(parse_function, texts))


def _type_to_json(type: TensorType) -> list[Any]:
    layout = None if type.layout is None else [type.layout.block, type.layout.halo]
    return [type.shape, type.dtype.value, layout]


def _type_from_json(record: list[Any]) -> TensorType:
    shape, dtype, layout = record
    try:
        element = DType(dtype)
    except ValueError:
        raise ManifestError(f"dtype {dtype!r} is unknown") from None
    dims = tuple(natural(n) for n in shape)
    try:
        return TensorType(dims, element, None if layout is None else _layout_from_json(layout, len(dims)))
    except ValueError as error:
        raise ManifestError(str(error)) from None


def _layout_from_json(record: list[Any], rank: int) -> Layout:
    block, halo = record
    pairs = tuple((natural(low), natural(high)) for low, high in halo)
    if natural(block) < 1 or rank < 2 or len(pairs) != rank - 2:
        raise ManifestError(f"layout {record} does not fit {rank} dimensions")
    return Layout(block, pairs)
