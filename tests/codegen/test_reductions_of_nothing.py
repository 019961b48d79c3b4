"""Reductions over axes without elements, and of arrays without rows."""

from __future__ import annotations

import numpy as np
import pytest
from compiled import check
from mxforge.ir.dialects.core import CoreBuilder
from mxforge.ir.kernel import ReduceOp
from mxforge.ir.types import DType, TensorType
from mxforge.passes.manager import Options

SHAPES = (
    ((0, 64), (0,)),
    ((64, 0), (1,)),
    ((3, 0, 40), (1,)),
    ((0, 3, 5), (0, 2)),
    ((3, 5, 0, 7), (1, 2)),
    ((0, 9), (1,)),
)


@pytest.mark.parametrize("op", [ReduceOp.ADD, ReduceOp.MAX])
@pytest.mark.parametrize("static", [True, False], ids=["static", "any-extents"])
def test_empty_axes(op: ReduceOp, static: bool) -> None:
    for shape, axes in SHAPES:
        b = CoreBuilder("empty")
        x = b.input(TensorType(shape, DType.F64))
        check(b.build([b.reduce(op, b.mul(x, x), axes)]), np.zeros(shape), options=Options(static_shape=static))
