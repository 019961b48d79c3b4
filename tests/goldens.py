"""Reads the records of MXNet in tests/data: results of its operators, and their declarations."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from golden_case import cotangent  # pyright: ignore[reportMissingImports]

DATA = Path(__file__).resolve().parent / "data"


@dataclass(frozen=True)
class Golden:
    """One recorded call: its input arrays and visible outputs.

    `attributes` are MXNet's strings; `train` is autograd's training mode. `names` are the arguments, auxiliary states
    and outputs of a symbol `op` with these attributes whose variables are created automatically; empty for operators
    that require their inputs. `file` is a digest of the -symbol.json of a symbol `n` of variables x0, x1, ... or empty.
    `states` are the values after the call of inputs that it wrote to, by position. A `swept` call was generated and has
    no names.
    """

    op: str
    attributes: dict[str, str]
    train: bool
    inputs: tuple[np.ndarray, ...]
    outputs: tuple[np.ndarray, ...]
    names: tuple[tuple[str, ...], ...]
    file: str
    states: dict[int, np.ndarray]
    swept: bool

    def __str__(self) -> str:
        shown = [f"{key}={value}" for key, value in self.attributes.items()]
        arrays = ["x".join(map(str, x.shape)) + f":{x.dtype}" for x in self.inputs]
        return f"{self.op}({', '.join(arrays + shown + ['train'] * self.train)})"


# Inputs that MXNet overwrites during the call: it stores the scaled gradient in the gradient.
SCRATCH = {"_adamw_update": (1,)}


@dataclass(frozen=True)
class Refusal:
    """A recorded call that MXNet refuses, with the types of its inputs and the name of the error class."""

    op: str
    attributes: dict[str, str]
    types: tuple[tuple[str, tuple[int, ...]], ...]
    error: str

    def __str__(self) -> str:
        shown = [f"{key}={value}" for key, value in self.attributes.items()]
        return f"{self.op}({', '.join(['x'.join(map(str, s)) + f':{d}' for d, s in self.types] + shown)})"


@cache
def operator_goldens() -> tuple[Golden, ...]:
    """Every hand-written recorded call, file by file, in the order of recording."""
    return tuple(golden for golden in _all_goldens() if not golden.swept)


@cache
def swept_goldens() -> tuple[Golden, ...]:
    """The generated recorded calls: every dtype, every value of a parameter, other shapes."""
    return tuple(golden for golden in _all_goldens() if golden.swept)


@cache
def refusals() -> tuple[Refusal, ...]:
    """The recorded calls that MXNet refuses."""
    found = [record for path in _records() for record in json.loads(path.read_text()) if "refused" in record]
    return tuple(
        Refusal(r["op"], r["attributes"], tuple((d, tuple(s)) for d, *s in r["types"]), r["refused"]) for r in found
    )


def _records() -> list[Path]:
    return sorted(DATA.glob("operators/*.json"))


@cache
def _all_goldens() -> tuple[Golden, ...]:
    return tuple(golden for records in _records() for golden in _goldens_of(records))


def _pool(records: Path) -> Callable[[list[Any]], np.ndarray]:
    """A function that resolves references to the arrays in the .npz file next to a file of records."""
    with np.load(records.with_suffix(".npz")) as stored:
        pools = dict(stored)
    for pool in pools.values():
        pool.flags.writeable = False  # the arrays are views that all tests share

    def array(reference: list[Any]) -> np.ndarray:
        dtype, offset, *shape = reference
        return pools[dtype][offset : offset + int(np.prod(shape, dtype=int))].reshape(shape)

    return array


def _goldens_of(records: Path) -> Iterator[Golden]:
    """The calls of one file of records."""
    array = _pool(records)

    def golden(record: dict[str, Any]) -> Golden:
        inputs, outputs = (tuple(map(array, record[key])) for key in ("inputs", "outputs"))
        names = tuple(map(tuple, record.get("names", [])))
        scratch = SCRATCH.get(record["op"], ())
        states = {int(i): array(at) for i, at in record.get("states", {}).items() if int(i) not in scratch}
        file, swept = record.get("file", ""), "names" not in record
        return Golden(record["op"], record["attributes"], record["train"], inputs, outputs, names, file, states, swept)

    return (golden(record) for record in json.loads(records.read_text()) if "refused" not in record)


@dataclass(frozen=True)
class Gradient:
    """A recorded gradient in training mode: cotangents of the float results, gradients by input position."""

    op: str
    attributes: dict[str, str]
    inputs: tuple[np.ndarray, ...]
    cotangents: tuple[np.ndarray, ...]
    gradients: dict[int, np.ndarray]

    def __str__(self) -> str:
        shown = [f"{key}={value}" for key, value in self.attributes.items()]
        arrays = ["x".join(map(str, x.shape)) + f":{x.dtype}" for x in self.inputs]
        return f"{self.op}({', '.join(arrays + shown)})"


@cache
def gradient_goldens() -> tuple[Gradient, ...]:
    """Every recorded gradient, in the order of recording."""
    path = DATA / "gradients.json"
    array = _pool(path)

    def gradient(record: dict[str, Any]) -> Gradient:
        inputs, cotangents = (tuple(map(array, record[key])) for key in ("inputs", "cotangents"))
        gradients = {int(i): array(at) for i, at in record["gradients"].items()}
        return Gradient(record["op"], record["attributes"], inputs, cotangents, gradients)

    return tuple(map(gradient, json.loads(path.read_text())))


@cache
def swept_gradients() -> dict[str, tuple[Gradient, ...]]:
    """The gradients of recorded calls, by operator."""
    calls = {path.stem: _recorded_calls(path) for path in _records()}
    pool = np.load(DATA / "swept_gradients.npz")["gradients"]
    found: dict[str, list[Gradient]] = {}
    for file, number, places in json.loads((DATA / "swept_gradients.json").read_text()):
        call = calls[file][number]
        inputs = {int(i): call.inputs[int(i)] for i in places}
        gradients = {
            i: np.zeros_like(x) if places[str(i)] is None else pool[places[str(i)] :][: x.size].reshape(x.shape)
            for i, x in inputs.items()
        }
        cotangents = tuple(cotangent(x.shape) for x in call.outputs if x.dtype.kind == "f")
        found.setdefault(call.op, []).append(Gradient(call.op, call.attributes, call.inputs, cotangents, gradients))
    return {op: tuple(listed) for op, listed in found.items()}


def _recorded_calls(records: Path) -> dict[int, Golden]:
    """The calls of one file of records by their number among all records, which include refusals."""
    numbers = [i for i, record in enumerate(json.loads(records.read_text())) if "refused" not in record]
    return dict(zip(numbers, _goldens_of(records), strict=True))


@cache
def signatures() -> dict[str, dict[str, Any]]:
    """MXNet's declaration of each operator, by canonical name and by every alias."""
    records = json.loads((DATA / "signatures.json").read_text())
    return {name: record for record in records for name in (record["op"], *record["aliases"])}


NAMESPACES = ("contrib", "linalg", "image", "sparse", "random")


def symbol_function(op: str) -> Any:
    """The function of `sym` for an operator's full name."""
    import mxforge as mx

    for name in NAMESPACES:
        if op.startswith(f"_{name}_") and hasattr(getattr(mx.sym, name), op[len(name) + 2 :]):
            return getattr(getattr(mx.sym, name), op[len(name) + 2 :])
    return getattr(mx.sym, op, None) or getattr(mx.sym._internal, op)
