"""Golden cases of every operator in every dtype, and with inputs of different dtypes; refusals are recorded too."""

from __future__ import annotations

from typing import Any

from golden_case import Case, a
from operators import arrays
from sweep import bases, distinct_cases, in_dtypes

SWEPT = True
NAN, INF = float("nan"), float("inf")
# Numbers that every function of the dtype can say something about, and then those at its far ends.
PLAIN = {
    "float16": [INF, -INF, -0.0, 0.0, 0.001, -1.5, 2.5, 300.0, 65504.0, -65504.0, NAN],
    "float32": [INF, -INF, -0.0, 0.0, 1e-30, -1.5, 2.5, 300.0, 3e38, -3e38, NAN],
    "float64": [INF, -INF, -0.0, 0.0, 1e-300, -1.5, 2.5, 300.0, 1e300, -1e300, NAN],
    "int8": [0, 1, -1, 2, -2, 3, -3, 7, -7, 11, -11],
    "uint8": [0, 1, 2, 3, 4, 5, 6, 7, 9, 11, 15],
    "int32": [0, 1, -1, 2, -2, 7, -7, 300, -300, 30000, -30000],
    "int64": [0, 1, -1, 2, -2, 7, -7, 300, -300, 30000, -30000],
}
FAR = {
    "int8": [0, 1, -1, 100, -100, 127, -128],
    "uint8": [0, 1, 100, 200, 255],
    "int32": [0, 1, -1, 2**24 + 1, 2**31 - 1, -(2**31)],
    "int64": [0, 1, -1, 2**33 + 1, 2**62, -(2**62)],
}
# Functions that keep integers exact, or wrap around; the others go through floats, where overflow means nothing.
EXACT = ("abs", "negative", "sign", "relu", "ceil", "round", "identity", "logical_not", "max", "min", "sort", "argsort")
EXACT_PAIRS = ("add", "sub", "mul", "maximum", "minimum", "equal", "greater", "lesser", "logical_and")
REDUCED = ("sum", "mean", "prod", "max", "min", "nansum", "nanprod", "norm", "argmax", "argmin", "cumsum")
CASTS = ("bool", "float16", "float32", "float64", "int8", "uint8", "int32", "int64")
BY_ZERO = ("div", "mod", "reciprocal", "rdiv")  # of integers: ends the process, or gives what a CPU happens to give
ACTIVATIONS = ("relu", "sigmoid", "tanh", "softrelu", "softsign")
SCALARS = ("2.0", "-3.0", "0.5", "0.0")


def divides(op: str) -> bool:
    return any(name in op for name in BY_ZERO)


def edges() -> list[Case]:
    """Special numbers of each dtype: NaN, infinities, signs, zeros."""
    return [found for dtype, values in PLAIN.items() for found in edges_of(dtype, values)] + far()


def edges_of(dtype: str, values: list[Any]) -> list[Case]:
    shifted = values[3:] + values[:3]
    whole = "int" in dtype
    x, y = a(values, dtype), a(shifted, dtype)
    nonzero, orderly = a([v or 3 for v in shifted] if whole else shifted, dtype), a(values[:10], dtype)
    made = [Case(op, (nonzero if whole and divides(op) else x,), {}) for op in (*arrays.UNARY, "hard_sigmoid")]
    made += [Case(op, (x,), {}) for op in (*REDUCED, "Flatten", "size_array", "softmax", "log_softmax", "softmin")]
    made += [Case(op, (orderly,), {}) for op in ("sort", "argsort")]
    made += [Case("topk", (orderly,), {"k": "3", "ret_typ": kind}) for kind in ("indices", "value", "mask", "both")]
    made += [Case("Cast", (x if whole else a(values[2:8], dtype),), {"dtype": other}) for other in CASTS]
    made += [Case("amp_cast", (x,), {"dtype": other}) for other in ("float16", "float32", "float64")]
    made += [Case(f"broadcast_{op}", (x, nonzero if divides(op) else y), {}) for op in arrays.BROADCAST]
    made += [
        Case(op, (x,), {"scalar": scalar})
        for op in arrays.SCALAR
        for scalar in SCALARS
        if not (whole and divides(op) and (op.startswith("_r") or abs(float(scalar)) < 1))
    ]
    made += [Case("Activation", (x,), {"act_type": kind}) for kind in ACTIVATIONS]
    made += [Case("where", (x, x, y), {}), Case("one_hot", (x if whole else orderly[3:8],), {"depth": "3"})]
    return [*made, Case("clip", (x,), {"a_min": "-2", "a_max": "100"}), Case("take", (y, orderly[3:8]), {})]


def far() -> list[Case]:
    """Integers at the far ends of their dtypes."""
    made: list[Case] = []
    for dtype, values in FAR.items():
        x, y = a(values, dtype), a(values[::-1], dtype)
        made += [Case(op, (x,), {}) for op in EXACT]
        made += [Case(f"broadcast_{op}", (x, y), {}) for op in EXACT_PAIRS]
        made += [Case("Cast", (x,), {"dtype": other}) for other in CASTS]
        made += [Case(op, (x,), {}) for op in ("sum", "prod", "cumsum", "argmax", "argmin")]
    return made


def cases() -> list[Case]:
    """All cases of this file."""
    swept = [found for base in bases() for found in in_dtypes(base)]
    return distinct_cases(iter([*swept, *edges()]))
