"""Every public name of MXNet exists with MXNet's arguments; absent names are listed here with reasons."""

from __future__ import annotations

import inspect
import json
import re
import warnings
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

DATA = Path(__file__).resolve().parents[1] / "data"

ABSENT = {
    "quantization and graph sampling": r"(ndarray|symbol)\.(contrib|sparse)\."
    r"(quantize\w*|dequantize|requantize|calibrate_entropy|dgl_\w+|edge_id)|symbol\.contrib\.getnnz",
}
"""Names that do not exist yet, by reason."""


@cache
def recorded() -> dict[str, Any]:
    return json.loads((DATA / "names.json").read_text())["signatures"]


HANDLES = re.compile(r".*\.Symbol|executor\.Executor")
"""Classes whose constructor takes a pointer to a C++ object in MXNet: programs do not call them."""


def means_the_same(place: str, name: str, ours: Any, theirs: str) -> bool:
    """True for equivalent defaults: one number for all axes, and None for the first layout or the class's prefix."""
    if place.startswith("gluon.nn.") and isinstance(ours, int):
        return theirs.strip("()").split(", ") == [str(ours)] * (theirs.count(",") + 1)
    return ours is None and (name == "layout" or place.startswith("rnn.Conv"))


def is_absent(name: str) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in ABSENT.values())


def signature(function: Any) -> list[tuple[str, Any]] | None:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return [(stars.get(p.kind, "") + p.name, p.default) for p in parameters]


def argument_problems(place: str, function: Any, theirs: list[list[Any]] | None) -> Iterator[str]:
    """Differences between a function's arguments and MXNet's: names, order, and literal defaults."""
    ours = signature(function)
    if theirs is None or ours is None or HANDLES.fullmatch(place):
        return
    names = [name for name, _ in ours if not name.startswith("*")]
    expected = [name for name, _ in theirs if not name.startswith("*")]
    if isinstance(function, FunctionType) and expected[:1] == ["self"] and "self" not in names:
        expected = expected[1:]  # a static method in mxforge
    if [name for name in names if name in expected] != expected:
        yield f"{place}: arguments {names} instead of {expected}"
    defaults = dict(ours)
    for name, default in theirs:
        if default in (None, "...") or name not in defaults or repr(defaults[name]) == default:
            continue
        if not means_the_same(place, name, defaults[name], default):
            yield f"{place}: {name}={defaults[name]!r} instead of {default}"


def problems(module: str) -> Iterator[str]:
    ours = import_module(f"mxforge.{module}")
    for name, theirs in recorded()[module].items():
        place = f"{module}.{name}"
        if not hasattr(ours, name):
            if not is_absent(place):
                yield f"{place} is not there"
            continue
        found = getattr(ours, name)
        if is_absent(place):
            yield f"{place} exists and is listed as absent"
        if not isinstance(theirs, dict):
            yield from argument_problems(place, found, theirs)
            continue
        yield from argument_problems(place, found, theirs["signature"])
        yield from member_problems(place, found, theirs["members"])


def member_problems(place: str, cls: Any, theirs: dict[str, Any]) -> Iterator[str]:
    for name, arguments in theirs.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some members are deprecated
            if not hasattr(cls, name):
                if not is_absent(f"{place}.{name}"):
                    yield f"{place}.{name} is not there"
            elif is_absent(f"{place}.{name}"):
                raise AssertionError(f"{place}.{name} exists and is listed as absent")
            elif arguments != "property":
                yield from argument_problems(f"{place}.{name}", getattr(cls, name), arguments)


@pytest.mark.parametrize("module", recorded())
def test_the_names_of(module: str) -> None:
    assert list(problems(module)) == []
