"""Reads the records of real MXNet in tests/data: what its operators compute, and how they are declared."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

DATA = Path(__file__).resolve().parent / "data"


@dataclass(frozen=True)
class Golden:
    """One recorded call: arrays in, visible outputs out.

    `attributes` are MXNet's strings; `train` is autograd's train mode. `names` are the arguments, auxiliary states and
    outputs of a symbol called `op` with these attributes that makes its own variables; empty for the rare operator that
    demands its inputs.
    """

    op: str
    attributes: dict[str, str]
    train: bool
    inputs: tuple[np.ndarray, ...]
    outputs: tuple[np.ndarray, ...]
    names: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        shown = [f"{key}={value}" for key, value in self.attributes.items()]
        arrays = ["x".join(map(str, x.shape)) + f":{x.dtype}" for x in self.inputs]
        return f"{self.op}({', '.join(arrays + shown + ['train'] * self.train)})"


@cache
def operator_goldens() -> tuple[Golden, ...]:
    """Every recorded call, in the order of recording."""
    with np.load(DATA / "operators.npz") as stored:
        pools = dict(stored)
    for pool in pools.values():
        pool.flags.writeable = False  # the arrays are views that all tests share

    def array(reference: list[Any]) -> np.ndarray:
        dtype, offset, *shape = reference
        return pools[dtype][offset : offset + int(np.prod(shape, dtype=int))].reshape(shape)

    def golden(record: dict[str, Any]) -> Golden:
        inputs, outputs = (tuple(map(array, record[key])) for key in ("inputs", "outputs"))
        names = tuple(map(tuple, record["names"]))
        return Golden(record["op"], record["attributes"], record["train"], inputs, outputs, names)

    return tuple(map(golden, json.loads((DATA / "operators.json").read_text())))


@cache
def signatures() -> dict[str, dict[str, Any]]:
    """MXNet's declaration of each operator, under its canonical name and under every alias."""
    records = json.loads((DATA / "signatures.json").read_text())
    return {name: record for record in records for name in (record["op"], *record["aliases"])}
