"""Converts a Program to bytes and back, for the disk cache and ahead-of-time compilation.

    program = magic (8 bytes) | u64 length of header | header (JSON) | constants | code * n

The header holds everything except the constants and the code, whose lengths it lists. Numbers are little-endian. The
reader checks each length and reference before it uses it; ManifestError names the invalid one. The machine code itself
cannot be checked: callers load only files that they trust.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Sequence
from typing import Any

from .graph import Check, RandomKey
from .program import Branch, Copy, Fill, HostCall, HostFunction, Launch, Loop, Place, Program, Space, Step, walk
from .types import DType, Layout, TensorType

_MAGIC = b"mxfprog5"
_PREFIX = struct.Struct("<8sQ")
_LARGEST = 1 << 62
_DEEPEST = 64  # loops and branches in each other
_SPACES = {space.value: space for space in Space}


class ManifestError(ValueError):
    """The bytes are not a program, or a damaged one."""


def program_to_bytes(program: Program) -> bytes:
    """The program as self-contained bytes. ManifestError if it calls users' functions, which cannot be written."""
    if program.calls_python:
        names = ", ".join(f.label for f in program.functions if f.op is None)
        raise ManifestError(f"{program.name} calls Python functions ({names}): it cannot be written")
    header = {
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
    text = json.dumps(header, separators=(",", ":")).encode()
    return b"".join((_PREFIX.pack(_MAGIC, len(text)), text, program.constants, *program.code))


def program_from_bytes(data: bytes) -> Program:
    """The program that `program_to_bytes` wrote. ManifestError for any other bytes."""
    header, start = _header(data)
    try:
        return _Reader(header).program(data, start)
    except ManifestError:
        raise
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


class _Reader:
    """The parts of a header, each checked as it is read."""

    def __init__(self, header: dict[str, Any]) -> None:
        self.header = header
        self.constants = _natural(header["constants"], "the size of the constants")
        self.arena = _natural(header["arena"], "the size of the arena")
        self.scratch = _natural(header.get("scratch", 0), "the size of the scratch memory")
        self.prepared = _natural(header["prepared"], "the size of the prepared values")
        self.inputs = tuple(_type_from_json(t) for t in header["inputs"])
        self.outputs = tuple(_type_from_json(t) for t in header["outputs"])
        self.names = tuple(_text(name) for name in header["names"])
        self.functions = _parsed_functions([_text(text) for text in header["functions"]])

    def program(self, data: bytes, start: int) -> Program:
        header = self.header
        sizes = [_natural(n, "the size of an object file") for n in header["code"]]
        blobs = list(_cut(data, start, (self.constants, *sizes)))
        return Program(
            name=_text(header["name"]),
            inputs=self.inputs,
            outputs=self.outputs,
            parameters=frozenset(self.positions(header["parameters"], "a parameter")),
            steps=self.steps(header["steps"]),
            prepare=self.steps(header["prepare"]),
            arena_bytes=self.arena,
            prepared_bytes=self.prepared,
            constants=blobs[0],
            code=tuple(blobs[1:]),
            functions=self.functions,
            state=self.positions(header["state"], "state"),
            random=self.random(header["random"]),
            elementwise=frozenset(self.positions(header["elementwise"], "an input")),
            names=self.names,
            groups=self.groups(),
            checks=self.checks(),
            scratch_bytes=_below(self.scratch, self.arena + 1, "the size of the scratch memory"),
        )

    def checks(self) -> tuple[Check, ...]:
        found = tuple(Check(_text(message), bool(is_index)) for message, is_index in self.header["checks"])
        flags = self.outputs[len(self.outputs) - len(found) :]
        if len(found) > len(self.outputs) or any(t != TensorType((), DType.BOOL) for t in flags):
            raise ManifestError(f"{len(found)} checks for outputs of types {flags}")
        return found

    def groups(self) -> tuple[int, ...]:
        sizes = tuple(_natural(n, "the size of a group") for n in self.header.get("groups", ()))
        if sizes and (min(sizes) < 1 or sum(sizes) != len(self.header["steps"])):
            raise ManifestError(f"groups of {sizes} steps of {len(self.header['steps'])}")
        return sizes

    def positions(self, listed: list[Any], what: str) -> tuple[int, ...]:
        return tuple(_below(i, len(self.inputs), what) for i in listed)

    def random(self, record: list[Any]) -> RandomKey | None:
        if record == []:
            return None
        position, draws = record
        (at,) = self.positions([position], "the random key")
        if self.inputs[at] != TensorType((4,), DType.U32):
            raise ManifestError(f"the random key has the type {self.inputs[at]}")
        return RandomKey(at, _natural(draws, "a number of draws"))

    def steps(self, records: list[Any]) -> tuple[Step, ...]:
        found = self.listed(records, 0)
        for step, counts in walk(found):
            self.check_step(step, counts)
        return found

    def listed(self, records: list[Any], depth: int) -> tuple[Step, ...]:
        if depth > _DEEPEST:
            raise ManifestError(f"steps in more than {_DEEPEST} loops and branches")
        return tuple([self.step(record, depth) for record in records])

    def check_step(self, step: Step, counts: Sequence[int]) -> None:
        """Check that what a step other than a launch reads and writes is in its block of memory."""
        match step:
            case Copy():
                blocks = [(step.target, step.nbytes), (step.source, step.nbytes)]
            case Fill():
                blocks = [(step.target, step.nbytes)]
            case HostCall():
                function = self.functions[step.function]
                sizes = [t.nbytes for t in (*function.inputs, *function.outputs)]
                blocks = list(zip(step.arguments, sizes, strict=True))
            case Loop():
                blocks = [] if step.flag is None else [(step.flag, 1)]
            case Branch():
                blocks = [(step.flag, 1)]
            case Launch():
                blocks = []
        for place, nbytes in blocks:
            first, last = place.reach(counts)
            if first < 0 or last + nbytes > self.extent(place):
                raise ManifestError(f"{nbytes} bytes at byte {last} leave {place.space.value} {place.index}")

    def step(self, record: list[Any], depth: int) -> Step:
        kind, *rest = record
        match kind:
            case "launch":
                return self.launch(rest)
            case "copy":
                target, source, nbytes = rest
                return Copy(self.place(target), self.place(source), _natural(nbytes, "the size of a copy"))
            case "fill":
                target, nbytes = rest
                return Fill(self.place(target), _natural(nbytes, "the size of a block"))
            case "host_call":
                number, arguments, named, layers, fallback = rest
                function = _below(number, len(self.functions), "a function")
                places = tuple(map(self.place, arguments))
                return HostCall(function, places, _text(named), self.layers(layers), _text(fallback))
            case "loop":
                body, count, flag, named, layers = rest
                steps, at = self.listed(body, depth + 1), None if flag is None else self.place(flag)
                return Loop(steps, _natural(count, "a count"), at, _text(named), self.layers(layers))
            case "branch":
                flag, then, otherwise, named, layers = rest
                lists = self.listed(then, depth + 1), self.listed(otherwise, depth + 1)
                return Branch(self.place(flag), *lists, _text(named), self.layers(layers))
            case _:
                raise ManifestError(f"a step {kind!r} is unknown")

    def launch(self, record: list[Any]) -> Launch:
        symbol, arguments, count, grain, kind, layers, fallback = record
        places = tuple(_integer(a) if isinstance(a, int) else self.place(a) for a in arguments)
        sizes = _natural(count, "a count"), _natural(grain, "a grain")
        return Launch(_text(symbol), places, *sizes, _text(kind), self.layers(layers), _text(fallback))

    def layers(self, listed: list[Any]) -> tuple[int, ...]:
        return tuple([_below(i, len(self.names), "a layer") for i in listed])

    def place(self, record: list[Any]) -> Place:
        name, index, offset, *strides = record
        if name not in _SPACES:
            raise ManifestError(f"space {name!r} is unknown")
        numbers = _natural(index, "an index"), _natural(offset, "an offset")
        place = Place(_SPACES[name], *numbers, tuple(map(_integer, strides)))
        if place.offset > self.extent(place):
            raise ManifestError(f"byte {place.offset} is outside of {name} {place.index}")
        return place

    def extent(self, place: Place) -> int:
        """Bytes of the block of memory that contains the place."""
        match place.space:
            case Space.INPUT:
                return self.inputs[_below(place.index, len(self.inputs), "an input")].nbytes
            case Space.OUTPUT:
                return self.outputs[_below(place.index, len(self.outputs), "an output")].nbytes
            case Space.ARENA:
                return self.arena
            case Space.PREPARED:
                return self.prepared
            case Space.CONSTANT:
                return self.constants


def _cut(data: bytes, start: int, sizes: Iterable[int]) -> Iterable[bytes]:
    for size in sizes:
        if start + size > len(data):
            raise ManifestError(f"{size} bytes at byte {start} exceed a file of {len(data)} bytes")
        yield data[start : start + size]
        start += size
    if start != len(data):
        raise ManifestError(f"{len(data) - start} bytes too many")


def _place_to_json(place: Place) -> list[Any]:
    return [place.space.value, place.index, place.offset, *place.strides]


def _step_to_json(step: Step) -> list[Any]:
    match step:
        case Launch():
            arguments = [a if isinstance(a, int) else _place_to_json(a) for a in step.arguments]
            return ["launch", step.symbol, arguments, step.count, step.grain, step.kind, step.layers, step.fallback]
        case Copy():
            return ["copy", _place_to_json(step.target), _place_to_json(step.source), step.nbytes]
        case Fill():
            return ["fill", _place_to_json(step.target), step.nbytes]
        case HostCall():
            arguments = [_place_to_json(a) for a in step.arguments]
            return ["host_call", step.function, arguments, step.kind, step.layers, step.fallback]
        case Loop():
            flag = None if step.flag is None else _place_to_json(step.flag)
            return ["loop", [_step_to_json(s) for s in step.body], step.count, flag, step.kind, step.layers]
        case Branch():
            lists = [[_step_to_json(s) for s in steps] for steps in (step.then, step.otherwise)]
            return ["branch", _place_to_json(step.flag), *lists, step.kind, step.layers]


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
    dims = tuple(_natural(n, "a dimension") for n in shape)
    try:
        return TensorType(dims, element, None if layout is None else _layout_from_json(layout, len(dims)))
    except ValueError as error:
        raise ManifestError(str(error)) from None


def _layout_from_json(record: list[Any], rank: int) -> Layout:
    block, halo = record
    pairs = tuple((_natural(low, "a halo"), _natural(high, "a halo")) for low, high in halo)
    if _natural(block, "a block") < 1 or rank < 2 or len(pairs) != rank - 2:
        raise ManifestError(f"layout {record} does not fit {rank} dimensions")
    return Layout(block, pairs)


def _integer(value: Any) -> int:
    if type(value) is not int or not -_LARGEST <= value <= _LARGEST:
        raise ManifestError(f"{value!r} is not an integer of 63 bits")
    return value


def _natural(value: Any, what: str) -> int:
    if _integer(value) < 0:
        raise ManifestError(f"{what} is {value}")
    return value


def _below(value: Any, limit: int, what: str) -> int:
    if _natural(value, what) >= limit:
        raise ManifestError(f"{what} has number {value}, which is not below {limit}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ManifestError(f"{value!r} is not a string")
    return value
