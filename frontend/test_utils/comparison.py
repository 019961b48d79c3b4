"""Comparisons of arrays with tolerances that follow their dtypes."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..ndarray import NDArray

Tolerance = float | Mapping[np.dtype, float] | None

_EXACT = ("bool", "int8", "uint8", "int32", "uint32", "int64", "uint64")


def default_dtype() -> type:
    """float32."""
    return np.float32


def _by_dtype(half: float, single: float, double: float) -> dict[np.dtype, float]:
    found = {np.dtype("float16"): half, np.dtype("float32"): single, np.dtype("float64"): double}
    return {**found, **{np.dtype(name): 0 for name in _EXACT}}


def default_rtols() -> dict[np.dtype, float]:
    """Relative tolerances by dtype."""
    return _by_dtype(1e-2, 1e-4, 1e-5)


def default_atols() -> dict[np.dtype, float]:
    """Absolute tolerances by dtype."""
    return _by_dtype(1e-1, 1e-3, 1e-20)


def default_numeric_eps() -> dict[np.dtype, float]:
    """Steps of finite differences by dtype; powers of two, so that adding them is exact."""
    return {np.dtype("float16"): 2.0**-6, np.dtype("float32"): 2.0**-9, np.dtype("float64"): 2.0**-14}


def effective_dtype(dat: Any) -> np.dtype:
    """The dtype whose precision an array's values have."""
    return np.dtype(dat.dtype)


def get_tolerance(dat: Any, tol: Tolerance, default_tol: Mapping[np.dtype, float]) -> float:
    """A tolerance that is given for an array: a number, or by its dtype, or the default."""
    if isinstance(tol, numbers.Number):
        return tol  # type: ignore[return-value]
    dtype = effective_dtype(dat)
    return (tol or {}).get(dtype, default_tol[dtype])  # type: ignore[union-attr]


def get_tols(x: Any, y: Any, rtol: Tolerance, atol: Tolerance) -> tuple[float, float]:
    """Relative and absolute tolerance for two arrays: those of the less precise one."""
    both = [np.array(a) if isinstance(a, numbers.Number) else a for a in (x, y)]
    relative = max(get_tolerance(a, rtol, default_rtols()) for a in both)
    return relative, max(get_tolerance(a, atol, default_atols()) for a in both)


def get_atol(atol: float | None = None, dtype: Any = np.dtype("float64")) -> float:  # noqa: B008
    """The absolute tolerance, or that of a dtype."""
    return default_atols()[np.dtype(dtype)] if atol is None else atol


def get_rtol(rtol: float | None = None, dtype: Any = np.dtype("float64")) -> float:  # noqa: B008
    """The relative tolerance, or that of a dtype."""
    return default_rtols()[np.dtype(dtype)] if rtol is None else rtol


def get_etol(etol: float | None = None) -> float:
    """The share of elements that may differ: none unless it is given."""
    return 0 if etol is None else etol


def _values(array: Any) -> Any:
    return array.asnumpy() if isinstance(array, NDArray) else array


def same(a: Any, b: Any) -> bool:
    """Whether two NumPy arrays have equal shapes and elements."""
    return np.array_equal(a, b)


def same_array(array1: NDArray, array2: NDArray) -> bool:
    """Whether two arrays share their memory: what is added to one is seen in the other."""
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
    """Whether |a - b| <= atol + rtol |b| everywhere; tolerances are by default those of float64."""
    if not use_broadcast:
        checkShapes(a, b)
    return np.allclose(_values(a), _values(b), rtol=get_rtol(rtol), atol=get_atol(atol), equal_nan=equal_nan)


def _violations(a: np.ndarray, b: np.ndarray, rtol: float, atol: float) -> np.ndarray:
    """|a - b| in units of the tolerance."""
    with np.errstate(invalid="ignore"):
        difference = np.where(np.equal(a, b), 0, np.abs(a - b))
        return difference / (atol + rtol * np.abs(b) + 1e-20)


def _find_max_violation(a: Any, b: Any, rtol: float, atol: float) -> tuple[Any, Any]:
    """Where the difference exceeds the tolerance most, and how many times."""
    found = _violations(a, b, rtol, atol)
    return np.unravel_index(np.argmax(found), found.shape), np.max(found)


def locationError(a: Any, b: Any, index: Any, names: Sequence[str], maxError: bool = False) -> str:
    """The place and the values of a difference as text."""
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
    """AssertionError unless |a - b| <= atol + rtol |b| everywhere.

    Tolerances are numbers or by dtype, and by default those of the less precise array. `mismatches` says how many
    differences are printed, and how many the message counts (0: all).
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
    """What differs, and how much; the largest differences are printed."""
    if a.shape != b.shape:
        a, b = np.broadcast_arrays(a, b)
    index, worst = _find_max_violation(a, b, rtol, atol)
    error = f"Error {worst:f} exceeds tolerance rtol={rtol:e}, atol={atol:e}"
    if a.ndim == 0:
        return f"{error}.\n {names[0]}: {a}\n {names[1]}: {b}"
    found = _violations(a, b, rtol, atol).ravel()
    found = np.where(np.isnan(found), np.inf, found)
    wrong = np.argsort(-found, kind="stable")[: int((found > 1).sum())]
    print(f"\n*** Maximum errors for vector of size {a.size}:  rtol={rtol}, atol={atol}\n")
    for number, place in enumerate(wrong[: mismatches[0]], 1):
        where = np.unravel_index(place, a.shape)
        print(f"{number:3d}: Error {found[place]:f}  {locationError(a, b, where, names)}")
    counted = len(wrong) if mismatches[1] <= 0 else min(len(wrong), mismatches[1])
    least = "at least " if counted < len(wrong) else ""
    share = f"(mismatch {least}{100 * counted / a.size:f}%)"
    with np.printoptions(threshold=4, suppress=True):
        return f"{error} {share}.\n{locationError(a, b, index, names, maxError=True)}\n a: {a!r}\n b: {b!r}"


def assert_allclose(a: Any, b: Any, rtol: Tolerance = 1e-07, atol: Tolerance = 0, equal_nan: bool = True) -> None:
    """As `assert_almost_equal` with NumPy's tolerances."""
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
    """As `assert_almost_equal`, but a share `etol` of the elements may differ."""
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
    """As `assert_almost_equal` without the places where one of them is NaN."""
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
    """Compare arrays in nested tuples; None equals anything."""
    if t1 is None or t2 is None:
        return
    if isinstance(t1, tuple):
        for one, other in zip(t1, t2, strict=False):
            compare_ndarray_tuple(one, other, rtol, atol)
    else:
        assert_almost_equal(t1, t2, rtol=rtol, atol=atol)


def same_symbol_structure(sym1: Any, sym2: Any) -> bool:
    """Whether the operators of two symbols are the same in order."""
    import json

    listed = ([node["op"] for node in json.loads(symbol.tojson())["nodes"]] for symbol in (sym1, sym2))
    return all(one == other for one, other in zip(*listed, strict=False))
