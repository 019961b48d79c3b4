"""Triton's names of element types, in memory and in registers, and literals of these types."""

from __future__ import annotations

import math

from ...ir.types import DType

NAMES: dict[DType, str] = {
    DType.F16: "tl.float16",
    DType.BF16: "tl.bfloat16",
    DType.F32: "tl.float32",
    DType.F64: "tl.float64",
    DType.I8: "tl.int8",
    DType.I16: "tl.int16",
    DType.I32: "tl.int32",
    DType.I64: "tl.int64",
    DType.U8: "tl.uint8",
    DType.U16: "tl.uint16",
    DType.U32: "tl.uint32",
    DType.U64: "tl.uint64",
    DType.BOOL: "tl.int1",
}

POINTERS: dict[DType, str] = {
    DType.F16: "*fp16",
    DType.BF16: "*bf16",
    DType.F32: "*fp32",
    DType.F64: "*fp64",
    **{d: f"*{d.value}" for d in (DType.I8, DType.I16, DType.I32, DType.I64)},
    **{d: f"*u{d.bits}" for d in (DType.U8, DType.U16, DType.U32, DType.U64)},  # MLIR writes ui8
    DType.BOOL: "*i8",  # one byte, 0 or 1
}
"""The argument types of a signature."""

SHORT_FLOATS = (DType.F16, DType.BF16)
_SMALLEST = 2.0**-126
_LARGEST = (2 - 2.0**-23) * 2.0**127


def register(dtype: DType) -> DType:
    """The type in which values of `dtype` are computed: float32 for 16-bit floats, which a Cast or a Store rounds."""
    return DType.F32 if dtype in SHORT_FLOATS else dtype


def literal(value: float | int | bool, dtype: DType) -> str:
    """`value` as source text."""
    if dtype is DType.BOOL:
        return str(bool(value))
    if not dtype.is_float:
        return str(int(value))
    number = float(value)
    return repr(number) if math.isfinite(number) else f"float('{number}')"


def is_plain_float(value: float | int | bool) -> bool:
    """True if Triton reads a Python number as a float32: it reads one outside the normal range as a float64."""
    size = abs(float(value))
    return not math.isfinite(size) or size == 0 or _SMALLEST <= size <= _LARGEST
