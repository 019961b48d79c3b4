"""Makes many cases of one: a recorded case in every dtype, with every value of each parameter, in other shapes.

Used by the groups dtypes, parameters and extents in operators/, under MXNet's own Python (3.9); needs NumPy alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from golden_case import Case, Distinct, Uniform
from operators import alignment, arrays, detection, layers, linalg

DTYPES = ("float16", "float64", "int8", "uint8", "int32", "int64", "bool")
OTHERS = ("float64", "int32")
# Parameters that say how to compute and not what, or what a CPU ignores.
SILENT = {"cudnn_tune", "cudnn_off", "workspace", "ctx", "key", "ndev", "is_int", "name"}
RANDOM = {("Dropout", "mode"), ("Dropout", "p")}
# Texts tried for a parameter of each type besides the values that its declaration lists.
TRIED = {
    "boolean": ("True", "False"),
    "int": ("0", "1", "-1", "2", "-2", "5"),
    "long": ("0", "1", "-1", "5"),
    "float": ("0.5", "-2", "0"),
    "double": ("0.5", "-2", "0"),
    "shape": ("()", "(0,)", "(1,)", "(-1,)", "(0, 1)", "(-1, -2)", "(2, 1)", "(1, 1, 1)", "(7,)", "(2, 3, 4)"),
    "text": ("x",),
}


def bases() -> list[Case]:
    """The first case of each operator of the groups arrays and layers."""
    return _firsts(*arrays.cases(), *layers.cases())


def later_bases() -> list[Case]:
    """The first case of each operator of the groups alignment, detection and linalg."""
    return _firsts(*alignment.cases(), *detection.cases(), *linalg.cases())


def _firsts(*cases: Case) -> list[Case]:
    found: dict[str, Case] = {}
    for case in cases:
        found.setdefault(case.op, case)
    return list(found.values())


def converted(recipe: Any, dtype: str) -> Any:
    """The recipe for another dtype, without what the dtype cannot hold."""
    unsigned = dtype in ("uint8", "bool")
    if isinstance(recipe, Uniform):
        low = max(0, recipe.low) if unsigned else recipe.low
        return replace(recipe, low=low, high=max(recipe.high, low + 1), dtype=dtype)
    if isinstance(recipe, Distinct):
        return replace(recipe, dtype=dtype)
    return (np.abs(recipe) if unsigned else recipe).astype(dtype)


def dtype_of(recipe: Any) -> str:
    return str(recipe.dtype)


def shape_of(recipe: Any) -> tuple[int, ...]:
    return tuple(recipe.shape)


def in_dtypes(case: Case) -> Iterator[Case]:
    """Its float32 inputs in every dtype, all together; then each input alone in some."""
    for dtype in DTYPES:
        inputs = [converted(x, dtype) if dtype_of(x) == "float32" else x for x in case.inputs]
        yield replace(case, inputs=tuple(inputs))
    if len(case.inputs) < 2:
        return
    for i, x in enumerate(case.inputs):
        for dtype in OTHERS:
            inputs = [*case.inputs]
            inputs[i] = converted(x, dtype)
            yield replace(case, inputs=tuple(inputs))


def resized(recipe: Any, change: Callable[[tuple[int, ...]], tuple[int, ...]]) -> Any:
    """The recipe in another shape; arrays keep theirs where it cannot be cut."""
    shape = change(shape_of(recipe))
    if isinstance(recipe, (Uniform, Distinct)):
        return replace(recipe, shape=shape)
    return np.resize(recipe, shape).astype(recipe.dtype)


CHANGES: dict[str, Callable[[tuple[int, ...]], tuple[int, ...]]] = {
    "ones": lambda shape: (1,) * len(shape),
    "first": lambda shape: (1, *shape[1:]),
    "last": lambda shape: (*shape[:-1], 1),
    "odd": lambda shape: (*shape[:-1], shape[-1] + 3) if shape else shape,
    "more": lambda shape: (2, *shape),
    "fewer": lambda shape: shape[1:] or (3,),
    "empty": lambda shape: (0, *shape[1:]),
    "hollow": lambda shape: (*shape[:-1], 0),
}


def in_shapes(case: Case) -> Iterator[Case]:
    """All inputs in other shapes; then each input alone in some, which mostly does not fit."""
    for change in CHANGES.values():
        yield replace(case, inputs=tuple(resized(x, change) for x in case.inputs))
    if len(case.inputs) < 2:
        return
    for i, x in enumerate(case.inputs):
        for name in ("odd", "more", "ones"):
            inputs = [*case.inputs]
            inputs[i] = resized(x, CHANGES[name])
            yield replace(case, inputs=tuple(inputs))


def signatures() -> dict[str, dict[str, Any]]:
    records = json.loads((Path(__file__).parent / "signatures.json").read_text())
    return {name: record for record in records for name in (record["op"], *record["aliases"])}


def values_of(kind: str) -> tuple[str, ...]:
    """Texts for a parameter of MXNet's type `kind`, good ones and bad ones."""
    if kind.startswith("{"):
        return (*re.findall(r"'([^']*)'", kind), "nonsense")
    plain = kind.lower()
    for word, texts in (("shape", "shape"), ("tuple", "shape"), ("boolean", "boolean"), ("int", "int"),
                        ("long", "long"), ("float", "float"), ("double", "double")):  # fmt: skip
        if word in plain:
            return (*TRIED[texts], "None", "nonsense")
    return TRIED["text"]


def in_parameters(case: Case, record: dict[str, Any]) -> Iterator[Case]:
    """Each parameter with each value, the others as in the case; without it; and a parameter that is not there."""
    for name, parameter in record["parameters"].items():
        if name in SILENT or name == record["variadic"] or (case.op, name) in RANDOM:
            continue
        for value in values_of(parameter["type"]):
            if case.attributes.get(name) != value:
                yield replace(case, attributes={**case.attributes, name: value})
        if name in case.attributes:
            yield replace(case, attributes={k: v for k, v in case.attributes.items() if k != name})


def distinct_cases(cases: Iterator[Case]) -> list[Case]:
    """Each case once."""
    found: dict[str, Case] = {}
    for case in cases:
        key = (case.op, sorted(case.attributes.items()), case.train, list(map(repr, case.inputs)))
        found.setdefault(repr(key), case)
    return list(found.values())
