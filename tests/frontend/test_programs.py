"""Compares programs on symbols, Gluon and Module with MXNet's records for the same programs."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import pytest

DATA = Path(__file__).resolve().parents[1] / "data"
TOLERANCE = 1e-5
TOLERANCES = {
    "autograd": 1e-4,
    "fitting": 1e-4,
    "gluon_training": 1e-4,
    "module_training": 1e-4,
    "optimizer_runs": 1e-4,
    "optimizer_runs.halves": 1e-3,
    "ssd": 1e-4,
    "training": 1e-4,
}
"""Of groups in which rounding differences grow, by their name, and of one program of a group."""


def tolerance(group: str, name: str) -> float:
    return TOLERANCES.get(f"{group}.{name}", TOLERANCES.get(group, TOLERANCE))


def programs(source: Path) -> dict[str, Callable[[Any], Any]]:
    """The programs of a file that MXNet can run too."""
    spec = importlib.util.spec_from_file_location(f"programs_{source.stem}", source)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.PROGRAMS


def groups(folder: str) -> dict[str, dict[str, Callable[[Any], Any]]]:
    """The programs of all files of a folder."""
    return {source.stem: programs(source) for source in sorted((DATA / folder).glob("*.py"))}


GROUPS = groups("programs")
OF_MXNET_2 = groups("programs_of_mxnet2")
"""Programs that MXNet 2 can run, in the NumPy mode."""


@cache
def recorded(group: str, folder: str = "programs") -> dict[str, Any]:
    return json.loads((DATA / folder / f"{group}.json").read_text())


def differences(found: Any, expected: Any, place: str = "", tolerance: float = TOLERANCE) -> Iterator[str]:
    """Paths at which two values differ; arrays may differ by the tolerance times their largest element."""
    if isinstance(expected, dict) and set(expected) == {"shape", "values"}:
        yield from _array_differences(found, expected, place, tolerance)
    elif isinstance(expected, dict) and isinstance(found, dict):
        if sorted(found) != sorted(expected):
            yield f"{place}: {sorted(found)} instead of {sorted(expected)}"
        for key in expected.keys() & found.keys():
            yield from differences(found[key], expected[key], f"{place}.{key}", tolerance)
    elif isinstance(expected, list) and isinstance(found, list | tuple) and len(found) == len(expected):
        for i, (one, other) in enumerate(zip(found, expected, strict=True)):
            yield from differences(one, other, f"{place}[{i}]", tolerance)
    elif found != expected:
        yield f"{place}: {found!r} instead of {expected!r}"


def _array_differences(found: Any, expected: Any, place: str, tolerance: float) -> Iterator[str]:
    if found["shape"] != expected["shape"]:
        yield f"{place}: shape {found['shape']} instead of {expected['shape']}"
        return
    one, other = np.array(found["values"]), np.array(expected["values"])
    scale = np.abs(other).max(initial=1e-30)
    if np.abs(one - other).max(initial=0) > tolerance * scale:
        yield f"{place}: differs by {np.abs(one - other).max() / scale:.1e}"


@pytest.mark.parametrize(("group", "name"), [(group, name) for group, table in GROUPS.items() for name in table])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_program(group: str, name: str) -> None:
    with mx.name.NameManager():
        found = GROUPS[group][name](mx)
    assert list(differences(found, recorded(group)[name], tolerance=tolerance(group, name))) == []


@pytest.fixture
def numpy_mode() -> Iterator[None]:
    mx.npx.set_np()
    yield
    mx.npx.reset_np()


@pytest.mark.parametrize(("group", "name"), [(group, name) for group, table in OF_MXNET_2.items() for name in table])
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.usefixtures("numpy_mode")
def test_program_of_mxnet2(group: str, name: str) -> None:
    with mx.name.NameManager():
        found = OF_MXNET_2[group][name](mx)
    assert list(differences(found, recorded(group, "programs_of_mxnet2")[name], tolerance=1e-4)) == []


ON_GPU = ("executors", "module", "optimizers", "symbols")
"""Groups whose programs use the default context and no primitive that Triton lacks."""


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("group", "name"), [(group, name) for group in ON_GPU for name in GROUPS[group]])
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.usefixtures("simulated_gpus")
def test_program_on_a_gpu(group: str, name: str) -> None:
    with mx.name.NameManager(), mx.gpu(0):
        found = GROUPS[group][name](mx)
    assert list(differences(found, recorded(group)[name])) == []
