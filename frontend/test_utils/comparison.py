"""Comparisons of arrays with tolerances that depend on their dtypes."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..ndarray import NDArray

Tolerance = float | Mapping[np.dtype, float] | None

_EXACT = ("bool", "int8", "uint8", "int32", "uint32", "int64", "uint64")


def default_dtype() -> type:
    """The default dtype: float32."""
    return np.float32


def _by_dtype(half: float, single: float, double: float) -> dict[np.dtype, float]:
    of_floats = {np.dtype("float16"): half, np.dtype("float32"): single, np.dtype("float64"): double}
    return {**of_floats, **{np.dtype(name): 0 for name in _EXACT}}


def default_rtols() -> dict[np.dtype, float]:
    """Relative tolerances by dtype."""
    return _by_dtype(1e-2, 1e-4, 1e-5)


def default_atols() -> dict[np.dtype, float]:
    """Absolute tolerances by dtype."""
    return _by_dtype(1e-1, 1e-3, 1e-20)


def default_numeric_eps() -> dict[np.dtype, float]:
    """Steps of finite differences by dtype. They are powers of two."""
    return {np.dtype("float16"): 2.0**-6, np.dtype("float32"): 2.0**-9, np.dtype("float64"): 2.0**-14}


def effective_dtype(dat: Any) -> np.dtype:
    """The dtype that determines the precision of an array: its own."""
    return np.dtype(dat.dtype)


def get_tolerance(dat: Any, tol: Tolerance, default_tol: Mapping[np.dtype, float]) -> float:
    """The tolerance for an array: `tol` if it is a number, else its entry for the dtype, else the default."""
    if isinstance(tol, numbers.Number):
        return tol  # type: ignore[return-value]
    dtype = effective_dtype(dat)
    return (tol or {}).get(dtype, default_tol[dtype])  # type: ignore[union-attr]


def get_tols(x: Any, y: Any, rtol: Tolerance, atol: Tolerance) -> tuple[float, float]:
    """Relative and absolute tolerance for two arrays: the larger ones of both."""
    both = [np.array(a) if isinstance(a, numbers.Number) else a for a in (x, y)]
    relative = max(get_tolerance(a, rtol, default_rtols()) for a in both)
    return relative, max(get_tolerance(a, atol, default_atols()) for a in both)


def get_atol(atol: float | None = None, dtype: Any = np.dtype("float64")) -> float:  # noqa: B008
    """`atol`, or the default absolute tolerance of the dtype."""
    return default_atols()[np.dtype(dtype)] if atol is None else atol


def get_rtol(rtol: float | None = None, dtype: Any = np.dtype("float64")) -> float:  # noqa: B008
    """`rtol`, or the default relative tolerance of the dtype."""
    return default_rtols()[np.dtype(dtype)] if rtol is None else rtol


def get_etol(etol: float | None = None) -> float:
    """The share of elements that can differ, by default 0."""
    return 0 if etol is None else etol


def _values(array: Any) -> Any:
    return array.asnumpy() if isinstance(array, NDArray) else array


def same(a: Any, b: Any) -> bool:
    """Whether two NumPy arrays have equal shapes and elements."""
    return np.array_equal(a, b)


def same_array(array1: NDArray, array2: NDArray) -> bool:
    """True if two arrays share memory: a change of one is visible in the other."""
    array1[:] += 1
    try:
        if not same(array1.asnumpy(), array2.asnumpy()):
            return False
    finally:
        array1[:] -= 1
    return same(array1.asnumpy(), array2.asnumpy())


def checkShapes(a: Any, b: Any) -> None:
    """AssertionError unless two arrays have equal shapes."""
    if a.shape != b.shape:
        raise AssertionError(f"a.shape = {a.shape} and b.shape = {b.shape} are not equal")


def almost_equal(
    a: Any,
    b: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    use_broadcast: bool = True,
) -> bool:
    """True if |a - b| <= atol + rtol |b| for all elements. The default tolerances are those for float64."""
    if not use_broadcast:
        checkShapes(a, b)
    return np.allclose(_values(a), _values(b), rtol=get_rtol(rtol), atol=get_atol(atol), equal_nan=equal_nan)


def _violations(a: np.ndarray, b: np.ndarray, rtol: float, atol: float) -> np.ndarray:
    """|a - b| in units of the tolerance."""
    with np.errstate(invalid="ignore"):
        difference = np.where(np.equal(a, b), 0, np.abs(a - b))
        return difference / (atol + rtol * np.abs(b) + 1e-20)


def _find_max_violation(a: Any, b: Any, rtol: float, atol: float) -> tuple[Any, Any]:
    """The position with the largest difference in units of the tolerance, and this difference."""
    violations = _violations(a, b, rtol, atol)
    return np.unravel_index(np.argmax(violations), violations.shape), np.max(violations)


def locationError(a: Any, b: Any, index: Any, names: Sequence[str], maxError: bool = False) -> str:
    """The position and the values of a difference as text."""
    maximum = "maximum " if maxError else ""
    return (
        f"Location of {maximum}error: {tuple(int(i) for i in index)}, {names[0]}={a[index]:.8f}, "
        f"{names[1]}={b[index]:.8f}"
    )


def assert_almost_equal(
    a: Any,
    b: Any,
    rtol: Tolerance = None,
    atol: Tolerance = None,
    names: Sequence[str] = ("a", "b"),
    equal_nan: bool = False,
    use_broadcast: bool = True,
    mismatches: tuple[int, int] = (10, 10),
) -> None:
    """AssertionError unless |a - b| <= atol + rtol |b| for all elements.

    Args:
        a, b: Arrays or numbers.
        rtol, atol: Numbers, or tolerances by dtype; by default the tolerances of the less precise dtype.
        names: The names of `a` and `b` in messages.
        equal_nan: True if NaN equals NaN.
        use_broadcast: False to require equal shapes.
        mismatches: How many differences are printed, and up to how many the message counts (0: all).
    """
    if not use_broadcast:
        checkShapes(a, b)
    relative, absolute = get_tols(a, b, rtol, atol)
    a, b = _values(a), _values(b)
    if getattr(a, "dtype", None) == np.bool_ and getattr(b, "dtype", None) == np.bool_:
        np.testing.assert_equal(a, b)
    elif not almost_equal(a, b, relative, absolute, equal_nan=equal_nan):
        raise AssertionError(_explanation(np.asarray(a), np.asarray(b), relative, absolute, names, mismatches))


def _explanation(
    a: np.ndarray, b: np.ndarray, rtol: float, atol: float, names: Sequence[str], mismatches: tuple[int, int]
) -> str:
    """The error text for arrays that differ; also prints the largest differences."""
    if a.shape != b.shape:
        a, b = np.broadcast_arrays(a, b)
    index, worst = _find_max_violation(a, b, rtol, atol)
    error = f"Error {worst:f} exceeds tolerance rtol={rtol:e}, atol={atol:e}"
    if a.ndim == 0:
        return f"{error}.\n {names[0]}: {a}\n {names[1]}: {b}"
    violations = _violations(a, b, rtol, atol).ravel()
    violations = np.where(np.isnan(violations), np.inf, violations)
    wrong = np.argsort(-violations, kind="stable")[: int((violations > 1).sum())]
    print(f"\n*** Maximum errors for vector of size {a.size}:  rtol={rtol}, atol={atol}\n")
    for number, place in enumerate(wrong[: mismatches[0]], 1):
        where = np.unravel_index(place, a.shape)
        print(f"{number:3d}: Error {violations[place]:f}  {locationError(a, b, where, names)}")
    counted = len(wrong) if mismatches[1] <= 0 else min(len(wrong), mismatches[1])
    least = "at least " if counted < len(wrong) else ""
    share = f"(mismatch {least}{100 * counted / a.size:f}%)"
    with np.printoptions(threshold=4, suppress=True):
        return f"{error} {share}.\n{locationError(a, b, index, names, maxError=True)}\n a: {a!r}\n b: {b!r}"


def assert_allclose(a: Any, b: Any, rtol: Tolerance = 1e-07, atol: Tolerance = 0, equal_nan: bool = True) -> None:
    """Same as `assert_almost_equal`, with the default tolerances of NumPy."""
    assert_almost_equal(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)


def assert_almost_equal_with_err(
    a: Any,
    b: Any,
    rtol: Tolerance = None,
    atol: Tolerance = None,
    etol: float | None = None,
    names: Sequence[str] = ("a", "b"),
    equal_nan: bool = False,
    mismatches: tuple[int, int] = (10, 10),
) -> None:
    """Same as `assert_almost_equal`, but a share `etol` of the elements can differ."""
    allowed = get_etol(etol)
    if allowed <= 0:
        assert_almost_equal(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)
        return
    relative, absolute = get_tols(a, b, rtol, atol)
    a, b = _values(a), _values(b)
    equals = np.isclose(a, b, rtol=relative, atol=absolute)
    if 1 - np.count_nonzero(equals) / equals.size > allowed:
        raise AssertionError(_explanation(np.asarray(a), np.asarray(b), relative, absolute, names, mismatches))


def assert_almost_equal_ignore_nan(
    a: Any, b: Any, rtol: Tolerance = None, atol: Tolerance = None, names: Sequence[str] = ("a", "b")
) -> None:
    """Same as `assert_almost_equal`, but ignores positions where either array is NaN."""
    a, b = np.copy(_values(a)), np.copy(_values(b))
    unknown = np.isnan(a) | np.isnan(b)
    a[unknown] = b[unknown] = 0
    assert_almost_equal(a, b, rtol, atol, names)


def assert_exception(f: Callable[..., Any], exception_type: Any, *args: Any, **kwargs: Any) -> None:
    """AssertionError unless the call raises this exception."""
    try:
        f(*args, **kwargs)
    except exception_type:
        return
    raise AssertionError(f"{getattr(f, '__name__', f)} raised no {exception_type}")


def compare_ndarray_tuple(t1: Any, t2: Any, rtol: Tolerance = None, atol: Tolerance = None) -> None:
    """`assert_almost_equal` for arrays in nested tuples; None equals anything."""
    if t1 is None or t2 is None:
        return
    if isinstance(t1, tuple):
        for one, other in zip(t1, t2, strict=False):
            compare_ndarray_tuple(one, other, rtol, atol)
    else:
        assert_almost_equal(t1, t2, rtol=rtol, atol=atol)


def same_symbol_structure(sym1: Any, sym2: Any) -> bool:
    """True if two symbols have the same operators in the same order."""
    import json

    listed = ([node["op"] for node in json.loads(symbol.tojson())["nodes"]] for symbol in (sym1, sym2))
    return all(one == other for one, other in zip(*listed, strict=False))
