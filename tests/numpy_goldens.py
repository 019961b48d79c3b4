"""The calls of `mx.np` that were recorded from MXNet, and how mxforge's answers are compared."""

from __future__ import annotations

import json
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as onp
from mxforge import autograd, np, npx

DATA = Path(__file__).resolve().parent / "data"
sys.path.insert(0, str(DATA))
from numpy_cases import variables as _variables  # noqa: E402  # pyright: ignore[reportMissingImports]

FOLDER = DATA / "numpy"
LIMITS = {"float16": 2e-3, "float32": 2e-5, "float64": 1e-6}


def variables(module: Any) -> dict[str, Any]:
    """The arrays of the calls; see `numpy_cases.py`."""
    return _variables(module)


@cache
def recorded() -> list[dict[str, Any]]:
    """All recorded calls, with the name of their group."""
    groups = [p for p in sorted(FOLDER.glob("*.json")) if p.stem != "promotion"]
    return [{"group": p.stem, **call} for p in groups for call in json.loads(p.read_text())]


def evaluated(call: str, names: dict[str, Any]) -> Any:
    """The result of a call."""
    return eval(call, {"np": np, "npx": npx, **names})


def number(value: Any) -> float:
    return float(value)


def same(result: Any, expected: Any, where: str) -> None:
    """AssertionError unless a result is the recorded one."""
    if isinstance(expected, list):
        assert isinstance(result, list | tuple) and len(result) == len(expected), f"{where}: {result!r}"
        for i, (r, e) in enumerate(zip(result, expected, strict=True)):
            same(r, e, f"{where}[{i}]")
    elif isinstance(expected, dict) and "shape" in expected:
        assert isinstance(result, np.ndarray), f"{where}: {type(result)}"
        assert (str(result.dtype), list(result.shape)) == (expected["dtype"], expected["shape"]), (
            f"{where}: {result.dtype}{result.shape} instead of {expected['dtype']}{tuple(expected['shape'])}"
        )
        numbers = onp.array([number(v) for v in expected["data"]], "float64").reshape(expected["shape"])
        limit = LIMITS.get(expected["dtype"], 0)
        onp.testing.assert_allclose(
            result.asnumpy().astype("float64"), numbers, limit, limit, equal_nan=True, err_msg=where
        )
    elif isinstance(expected, dict):
        assert abs(number(result) - number(expected["number"])) <= 1e-6 * max(1, abs(number(expected["number"]))), where
    else:
        assert result == expected or str(result) == expected, f"{where}: {result!r} instead of {expected!r}"


def gradients(call: str, expected: dict[str, Any]) -> dict[str, Any]:
    """The gradients of a call by the arrays in `expected`."""
    names = variables(np)
    for name in expected:
        names[name].attach_grad()
    with autograd.record():
        value = evaluated(call, names)
    heads = [v for v in (value if isinstance(value, list | tuple) else [value]) if isinstance(v, np.ndarray)]
    heads = [v for v in heads if str(v.dtype).startswith("float")]
    autograd.backward(heads, [np.ones_like(h) * 1.5 for h in heads])
    return {name: names[name].grad for name in expected}


def used(call: str) -> list[str]:
    """The words of a call."""
    return re.findall(r"\b[a-z_]\w*\b", call)
