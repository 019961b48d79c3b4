"""The dtypes of results of `mx.np`: how MXNet 1.9.1 promotes the dtypes of operands.

`tests/data/numpy/promotion.json` has the recorded answers of MXNet. bfloat16, which its `mx.np` lacks, is a float of 16
bits; unsigned integers of more than 8 bits promote as in NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, reduce

from .types import DType

_ORDER = "i1 i8 ui8 i32 i64 f16 f32 f64".split()
_JOINED = """
    i1   i8  ui8 i32 i64 f16 f32 f64
    i8   i8  i32 i32 i64 f16 f32 f64
    ui8  i32 ui8 i32 i64 f16 f32 f64
    i32  i32 i32 i32 i64 f16 f32 f64
    i64  i64 i64 i64 i64 f16 f32 f64
    f16  f16 f16 f16 f16 f16 f32 f64
    f32  f32 f32 f32 f32 f32 f32 f64
    f64  f64 f64 f64 f64 f64 f64 f64
"""
"""The promoted dtype by the dtypes of two operands, in the order of `_ORDER`."""

_TABLE = {
    (DType(x), DType(y)): DType(z)
    for x, row in zip(_ORDER, _JOINED.strip().splitlines(), strict=True)
    for y, z in zip(_ORDER, row.split(), strict=True)
}
DEFAULT_FLOAT = DType.F32
"""The dtype of quotients and means of integers."""
KEEP_BOOLEANS = frozenset(("bitwise_and", "bitwise_or", "bitwise_xor"))
"""Operators of a boolean array and a number that convert the number; others convert the array to int64."""


def promoted(dtypes: Sequence[DType]) -> DType:
    """The dtype of a sum of operands of these dtypes."""
    return reduce(_joined, dtypes)


def divided(dtypes: Sequence[DType]) -> DType:
    """The dtype of a quotient or mean: that of the floats among the operands, or `DEFAULT_FLOAT`."""
    dtype = promoted(dtypes)
    return dtype if dtype.is_float else DEFAULT_FLOAT


@cache
def _joined(x: DType, y: DType) -> DType:
    if x is y:
        return x
    known = _TABLE.get((x, y))
    if known is not None:
        return known
    if x.is_float or y.is_float:
        floats = [d for d in (x, y) if d.is_float]
        return max(floats, key=lambda d: d.bits) if len({d.bits for d in floats}) == len(floats) else DType.F32
    import numpy as np

    return DType.from_numpy(np.promote_types(x.numpy, y.numpy))
