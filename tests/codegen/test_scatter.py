"""Scatters along any axes, with repeated coordinates and coordinates outside, against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from compiled import check
from mxforge.ir.dialects.core import CoreBuilder
from mxforge.ir.types import DType
from rewriting import random_inputs, tensor

CASES = [
    ((7, 20), (0,), 0),
    ((7, 20), (1,), 0),
    ((3, 4, 18), (0, 1), 0),
    ((3, 4, 18), (1, 0), 0),
    ((3, 4, 18), (0, 2), 0),
    ((2, 5, 3, 4), (1, 2), 0),
    ((2, 5, 3, 4), (2,), 1),
    ((2, 5, 3), (1, 2), 1),
    ((1, 1), (0,), 0),
    ((40,), (0,), 0),
]


@pytest.mark.parametrize("op", ["set", "add", "max"])
@pytest.mark.parametrize(("shape", "axes", "batch"), CASES)
def test_axes(shape: tuple[int, ...], axes: tuple[int, ...], batch: int, op: str) -> None:
    rest = [n for k, n in enumerate(shape) if k >= batch and k not in axes]
    points = (*shape[:batch], 3, 4)
    b = CoreBuilder("scatter")
    x = b.input(tensor(*shape))
    places = b.input(tensor(*points, len(axes), dtype=DType.I32))
    graph = b.build([b.scatter(x, places, b.input(tensor(*points, *rest)), op, axes, batch)])
    values, _, updates = random_inputs(graph)
    at = np.random.default_rng(1).integers(-1, max(shape) + 1, places.type.shape).astype(np.int32)
    check(graph, values, at, updates, tolerance=1e-6)


@pytest.mark.parametrize("op", ["set", "add"])
@pytest.mark.parametrize("dtype", [DType.F16, DType.F64, DType.I64, DType.U8, DType.BOOL], ids=lambda d: d.value)
def test_dtypes(dtype: DType, op: str) -> None:
    b = CoreBuilder("scatter")
    x, places = b.input(tensor(6, 21, dtype=dtype)), b.input(tensor(9, 1, dtype=DType.I64))
    graph = b.build([b.scatter(x, places, b.input(tensor(9, 21, dtype=dtype)), op, (0,))])
    check(graph, *random_inputs(graph), tolerance=1e-3 if dtype is DType.F16 else 0.0)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_no_elements(shape: tuple[int, int]) -> None:
    b = CoreBuilder("scatter")
    x, places = b.input(tensor(*shape)), b.input(tensor(2, 1, dtype=DType.I32))
    graph = b.build([b.scatter(x, places, b.input(tensor(2, shape[1])), "add", (0,))])
    check(graph, *random_inputs(graph))
