"""Calls of `mx.np` and `mx.npx`, as expressions of the arrays in `variables`. MXNet and mxforge evaluate them.

Runs on Python 3.9 with MXNet and on the versions of Python of mxforge.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

_F = [[0.5, -1.25, 2.0], [3.5, 0.25, -0.75]]
_DTYPES = "bool int8 uint8 int32 int64 float16 float32 float64".split()


def variables(np: Any) -> dict[str, Any]:
    """The arrays of the expressions."""
    by_dtype = {f"v_{d}": np.array([0, 1, 3] if d != "bool" else [0, 1, 1]).astype(d) for d in _DTYPES}
    return {
        **by_dtype,
        "x": np.array(_F),
        "y": np.array([[1.5, 0.5, -2.0], [0.25, 4.0, 1.0]]),
        "p": np.array([[0.5, 0.25, 0.75], [0.1, 0.9, 0.6]]),
        "big": np.array([1.5, 2.5, 4.0]),
        "row": np.array([1.0, -2.0, 0.5]),
        "one": np.array(2.5),
        "none": np.zeros((0, 3)),
        "i": np.array([[1, 2, 3], [4, 0, 6]], dtype="int32"),
        "j": np.array([4, 6, 9], dtype="int32"),
        "idx": np.array([1, 0, 1], dtype="int64"),
        "mask": np.array([[1, 0, 1], [0, 0, 1]]).astype("bool"),
        "cube": np.arange(24).reshape(2, 3, 4) * 0.25 - 2,
        "sq": np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, 2.0]]),
        "general": np.array([[2.0, 1.0, 0.0], [0.5, 3.0, -1.0], [1.0, 0.0, 1.5]]),
        "odd": np.array([float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.0]),
        "ties": np.array([3.0, 1.0, 3.0, 2.0, 1.0]),
    }


UNARY = """
    abs absolute arccos arcsin arcsinh arctan arctanh cbrt ceil cos cosh degrees exp expm1 fabs fix floor log log10
    log1p log2 negative radians reciprocal rint sign sin sinh sqrt square tan tanh trunc deg2rad rad2deg
""".split()
TESTS = "logical_not isnan isinf isfinite isposinf isneginf".split()
BINARY = """
    add subtract multiply divide true_divide mod remainder power maximum minimum hypot arctan2 copysign ldexp equal
    not_equal greater greater_equal less less_equal
""".split()
INTEGER = "bitwise_and bitwise_or bitwise_xor lcm".split()
REDUCTIONS = "sum prod max min mean std var amax amin".split()
NO_GRADIENT = frozenset(("ceil", "fix", "floor", "rint", "sign", "trunc"))


def _elementwise() -> list[str]:
    calls = [f"np.{name}(p)" for name in UNARY] + ["np.arccosh(big)", "np.bitwise_not(i)", "np.invert(v_uint8)"]
    calls += [f"np.{name}(v_{d})" for name in ("exp", "sqrt", "sign", "square", "abs") for d in _DTYPES[1:]]
    calls += [f"np.{name}(x)" for name in ("abs", "sign", "ceil", "floor", "rint", "trunc", "fix", "square")]
    calls += [f"np.{name}(odd)" for name in (*TESTS, "nan_to_num", "sign", "abs")]
    calls += [f"np.{name}(i)" for name in TESTS]
    calls += [
        "np.around(x * 3.3, 1)",
        "np.round(x)",
        "np.round_(x * 100, -1)",
        "np.round_(1.5)",
        "np.rint(x * 2)",
        "np.rint(odd)",
    ]
    calls += ["np.nan_to_num(odd, nan=1.0, posinf=2.0, neginf=3.0)", "np.exp(2)", "np.add(1, 2)", "np.exp(one)"]
    calls += ["np.clip(x, -1, 1)", "x.clip(0, 2)", "np.exp(none)"]
    return calls


def _binary() -> list[str]:
    calls = [f"np.{name}(x, y)" for name in BINARY] + [f"np.{name}(i, j)" for name in INTEGER]
    calls += [f"np.{name}(x, row)" for name in BINARY] + [f"np.{name}(x, 2)" for name in BINARY]
    calls += [f"np.{name}(1.5, p)" for name in BINARY]
    calls += [f"np.{name}(i, 3)" for name in INTEGER]
    some = ("add", "subtract", "multiply", "true_divide", "power")
    pairs = [(s, t) for s in _DTYPES for t in _DTYPES if "bool" not in (s, t)]
    calls += [f"np.{name}(v_{s}, v_{t})" for name in some[:4] for s, t in pairs if name != "power"]
    calls += [f"v_{d} {op} {n}" for d in _DTYPES[1:] for op in "+*-/" for n in ("2", "2.5", "True")]
    calls += [f"v_bool {op} {n}" for op in "+*-/" for n in ("2", "2.5")]
    calls += [f"{n} {op} v_{d}" for d in ("int32", "float32", "float16") for op in "-/" for n in ("2", "2.5")]
    calls += ["x @ y.T", "x % 2", "-x", "abs(x)", "x ** 2", "2 ** x", "x == x", "i == 1", "x > 0.5", "1 > x", "i & 1"]
    calls += [f"mask {op} {n}" for op in "&|^" for n in ("True", "0", "2")] + ["-mask", "np.bitwise_or(2, mask)"]
    calls += ["i | j", "i ^ 2", "~mask", "mask & mask", "mask | ~mask", "x + none[:, :1].sum()", "one * one"]
    return calls


def _reductions() -> list[str]:
    calls = [f"np.{name}({a})" for name in REDUCTIONS for a in ("x", "i")]
    calls += [f"np.{name}(cube, axis=1)" for name in REDUCTIONS]
    calls += [f"np.{name}(cube, axis=(0, 2), keepdims=True)" for name in REDUCTIONS]
    calls += [f"x.{name}(axis=-1)" for name in "sum prod max min mean std var argmax argmin all any".split()]
    calls += [f"np.sum(v_{d})" for d in _DTYPES] + [f"np.mean(v_{d})" for d in _DTYPES[1:]]
    calls += [
        "np.sum(x, dtype='float64')",
        "np.sum(none)",
        "np.prod(none)",
        "np.std(x, ddof=1)",
        "np.var(cube, axis=1)",
    ]
    calls += [f"np.{name}(one, axis=0)" for name in "sum prod mean std var all any argmax argmin".split()]
    calls += ["np.amin(one, axis=-1)", "np.sum(one, axis=-1, keepdims=True)"]
    calls += ["np.argmin(none, axis=1)"]
    calls += ["np.sum(x, initial=10)", "np.all(mask)", "np.any(mask, axis=0)", "np.all(x > -5, axis=1, keepdims=True)"]
    calls += ["np.argmax(ties)", "np.argmin(ties)", "np.argmax(cube, axis=2)", "np.cumsum(x)", "np.cumsum(x, axis=1)"]
    calls += ["np.cumsum(i, axis=0, dtype='float32')", "np.average(x)", "np.average(x, axis=1, weights=row)"]
    calls += ["np.average(x, axis=0, weights=p[:, 0], returned=True)", "np.ptp(x)"]
    calls += ["np.percentile(x, 30)", "np.percentile(cube, np.array([10, 50]), axis=1)", "np.quantile(x, 0.4)"]
    calls += [f"np.percentile(x, 30, interpolation='{m}')" for m in "lower higher midpoint nearest".split()]
    calls += ["np.linalg.norm(x)", "np.count_nonzero(i)", "np.product(x)", "np.sometrue(mask)", "np.alltrue(mask)"]
    return calls


def _listed() -> dict[str, list[str]]:
    """The calls in `numpy/calls.txt`, one on each line, by group."""
    groups: dict[str, list[str]] = {}
    for line in (Path(__file__).resolve().parent / "numpy" / "calls.txt").read_text().splitlines():
        if line.startswith("# "):
            group = groups.setdefault(line[2:], [])
        else:
            group.append(line)
    return groups


def _of_mxnet2() -> list[str]:
    return (Path(__file__).resolve().parent / "numpy" / "calls_of_mxnet2.txt").read_text().splitlines()


OF_MXNET2 = {"of_mxnet2": _of_mxnet2()}
"""Expressions that MXNet 2 knows and 1.9.1 does not."""

CASES = {"elementwise": _elementwise(), "binary": _binary(), "reductions": _reductions(), **_listed()}
"""Expressions by group."""

NOT_DIFFERENTIATED = ("np.linalg.eig", "argsort", "unique", "topk", "np.prod", "np.product", "batch_norm", "dropout")
"""Parts of expressions whose gradients are not recorded."""
