"""Functions of `mx.np` and `mx.npx` that choose an operator or convert arguments, for arrays and for symbols.

The first argument `F` of each is a function that returns the function of an operator: of arrays in `mx.np`, of symbols
in `mx.sym.np`. `bound` removes it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from importlib import import_module
from itertools import pairwise
from typing import Any

import numpy as onp

from .base import MXNetError, numeric_types

Operators = Callable[[str], Callable[..., Any]]

_FUNCTIONS: dict[str, dict[str, Callable[..., Any]]] = {}
_MODULES = {
    "": ("numpy_selection_functions", "numpy_array_api_functions"),
    "creation": ("numpy_creation_functions",),
    "linalg": ("numpy_linalg_functions", "numpy_array_api_functions"),
    "npx": ("numpy_array_api_functions",),
    "npx_random": ("numpy_random_functions",),
    "random": ("numpy_random_functions", "numpy_array_api_functions"),
}
"""The modules with functions of a namespace, besides this one."""


def public(namespace: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that adds a function to a namespace: "" is `np`; "npx", "linalg", "random", "npx_random", and
    "creation": the functions that create arrays in graphs."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        _FUNCTIONS.setdefault(namespace, {})[function.__name__] = function
        return function

    return add


_public = public("")


def bound(name: str, F: Operators, module: str, namespace: str = "") -> Callable[..., Any] | None:
    """The function of this name on the arrays or symbols of `F`; None if the namespace has none."""
    function = _of(namespace).get(name)
    if function is None:
        return None

    parameters = list(inspect.signature(function).parameters.values())[1:]
    names = [p.name for p in parameters]
    takes_device = "ctx" in names and "device" not in names

    @wraps(function)
    def public(*args: Any, **kwargs: Any) -> Any:
        if takes_device and "device" in kwargs:  # MXNet 2's name of `ctx`
            kwargs["ctx"] = kwargs.pop("device")
        return function(F, *args, **kwargs)

    public.__name__ = public.__qualname__ = name
    public.__module__ = module
    public.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return public


def names(namespace: str = "") -> set[str]:
    """The names of all functions of a namespace."""
    return set(_of(namespace))


def _of(namespace: str) -> dict[str, Callable[..., Any]]:
    for module in _MODULES.get(namespace, ()):
        import_module(f".{module}", __package__)
    return _FUNCTIONS.get(namespace, {})


def module_members(
    table: dict[str, Any],
    namespace: str,
    F: Operators,
    module: str,
    more: Sequence[str] = (),
    make: Callable[..., Any] = bound,
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a module that has the functions of a namespace, and those named in `more`;
    `table` are its globals, and `make` makes a function."""

    def find(name: str) -> Any:
        if name == "__all__":
            return listed()
        function = make(name, F, module, namespace)
        if function is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}", name=name)
        table[name] = function
        return function

    def listed() -> list[str]:
        return sorted({*names(namespace), *[n for n in more if n in table]})

    return find, listed


def _is_number(value: Any) -> bool:
    return isinstance(value, numeric_types)


def _is_sequence(value: Any) -> bool:
    return isinstance(value, list | tuple)


# --- joining and splitting


@_public
def concatenate(F: Operators, seq: Any, axis: int | None = 0, out: Any = None) -> Any:
    """Joins arrays along an axis; None joins the flattened arrays."""
    _listed("concatenate", seq)
    if axis is None:
        seq, axis = [F("_np_reshape")(a, newshape=(-1,)) for a in seq], 0
    return F("_npi_concatenate")(*seq, axis=axis, out=out)


@_public
def stack(F: Operators, arrays: Any, axis: int = 0, out: Any = None) -> Any:
    """Joins arrays of one shape along a new axis."""
    return F("_npi_stack")(*_listed("stack", arrays), axis=axis, out=out)


@_public
def vstack(F: Operators, arrays: Any, out: Any = None) -> Any:
    """Stacks arrays as rows."""
    return F("_npi_vstack")(*_listed("vstack", arrays), out=out)


@_public
def row_stack(F: Operators, arrays: Any) -> Any:
    """Stacks arrays as rows."""
    return F("_npi_vstack")(*_listed("row_stack", arrays))


@_public
def hstack(F: Operators, arrays: Any) -> Any:
    """Stacks arrays as columns; joins vectors."""
    return F("_npi_hstack")(*_listed("hstack", arrays))


@_public
def dstack(F: Operators, arrays: Any) -> Any:
    """Stacks arrays along the third axis."""
    return F("_npi_dstack")(*_listed("dstack", arrays))


@_public
def column_stack(F: Operators, tup: Any) -> Any:
    """Stacks vectors as columns of a matrix."""
    return F("_npi_column_stack")(*_listed("column_stack", tup))


def _listed(name: str, arrays: Any) -> Sequence[Any]:
    """The arrays. An array is a sequence of its parts, as in NumPy. ValueError for other values."""
    if not _is_sequence(arrays) and not getattr(arrays, "ndim", 0):
        raise ValueError(f"{name} requires a list or tuple of arrays, not {type(arrays)}")
    return arrays


@_public
def append(F: Operators, arr: Any, values: Any, axis: int | None = None) -> Any:
    """Joins `arr` and `values` along an axis; None joins the flattened arrays."""
    return concatenate(F, (arr, values), axis=axis)


@_public
def split(F: Operators, ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    """Splits an array into equal parts, or at positions. ValueError if equal parts do not divide the extent."""
    if isinstance(indices_or_sections, int) and hasattr(ary, "shape"):
        if indices_or_sections <= 0:
            raise ValueError("number sections must be larger than 0")
        if ary.shape[_axis_of("split", ary, axis)] % indices_or_sections:
            raise ValueError("array split does not result in an equal division")
    return _parts(F, "_npi_split", ary, indices_or_sections, axis)


@_public
def array_split(F: Operators, ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    """Splits an array into parts of nearly equal size, or at positions."""
    return _parts(F, "_npi_split", ary, indices_or_sections, axis)


@_public
def hsplit(F: Operators, ary: Any, indices_or_sections: Any) -> Any:
    """Splits an array along the second axis, a vector along its only one."""
    if hasattr(ary, "ndim"):
        if not ary.ndim:
            raise ValueError("hsplit only works on arrays of 1 or more dimensions")
        return split(F, ary, indices_or_sections, 0 if ary.ndim == 1 else 1)
    return _parts(F, "_npi_hsplit", ary, indices_or_sections, 1)


@_public
def vsplit(F: Operators, ary: Any, indices_or_sections: Any) -> Any:
    """Splits an array along the first axis."""
    if hasattr(ary, "ndim") and ary.ndim < 2:
        raise ValueError("vsplit only works on arrays of 2 or more dimensions")
    return split(F, ary, indices_or_sections, 0)


@_public
def dsplit(F: Operators, ary: Any, indices_or_sections: Any) -> Any:
    """Splits an array along the third axis."""
    if hasattr(ary, "ndim") and ary.ndim < 3:
        raise ValueError("dsplit only works on arrays of 3 or more dimensions")
    return split(F, ary, indices_or_sections, 2)


def _parts(F: Operators, operator: str, ary: Any, indices_or_sections: Any, axis: int) -> Any:
    if isinstance(indices_or_sections, int | onp.integer):
        parts = F(operator)(ary, indices=(), axis=axis, sections=int(indices_or_sections))
    elif isinstance(indices_or_sections, list | tuple | set | onp.ndarray):
        cuts = tuple(int(i) for i in indices_or_sections)
        if hasattr(ary, "shape"):
            return _cut(ary, cuts, axis)
        parts = F(operator)(ary, indices=(0, *cuts), axis=axis, sections=0)
    else:
        raise ValueError("indices_or_sections must be either int, or tuple / list / set of ints")
    return list(parts) if _is_sequence(parts) or hasattr(parts, "list_outputs") else [parts]


def _axis_of(name: str, array: Any, axis: int) -> int:
    """The axis counted from the front. MXNetError for one that the array does not have."""
    if not -array.ndim <= axis < array.ndim:
        raise MXNetError(f"{name}: axis {axis} is out of range for {array.ndim} dimensions")
    return axis % array.ndim


def _cut(ary: Any, cuts: tuple[int, ...], axis: int) -> list[Any]:
    """The parts between positions as NumPy cuts them: beyond the end and in any order."""
    axis = _axis_of("split", ary, axis)
    bounds = [0, *cuts, ary.shape[axis]]
    before = (slice(None),) * axis
    return [ary[(*before, slice(lo, hi))].copy() for lo, hi in pairwise(bounds)]


# --- shapes


@_public
def moveaxis(F: Operators, a: Any, source: Any, destination: Any) -> Any:
    """Moves axes to other positions."""
    source, destination = ((n,) if isinstance(n, int) else tuple(n) for n in (source, destination))
    if len(source) != len(destination):
        raise ValueError("`source` and `destination` arguments must have the same number of elements")
    return F("_np_moveaxis")(a, source=source, destination=destination)


@_public
def flip(F: Operators, m: Any, axis: Any = None, out: Any = None) -> Any:
    """Reverses the elements along axes, by default all."""
    if axis is None:
        flat = F("_npi_flip")(F("_np_reshape")(m, newshape=(-1,)), axis=(0,))
        return F("reshape_like")(flat, m, out=out)
    axis = (axis,) if isinstance(axis, int) else tuple(axis)
    return F("_npi_flip")(m, axis=axis, out=out)


@_public
def flipud(F: Operators, m: Any) -> Any:
    """Reverses the elements along the first axis."""
    return flip(F, m, 0)


@_public
def fliplr(F: Operators, m: Any) -> Any:
    """Reverses the elements along the second axis."""
    return flip(F, m, 1)


@_public
def ravel(F: Operators, x: Any, order: str = "C") -> Any:
    """The elements with one axis."""
    if order != "C":
        raise NotImplementedError(f"order {order} is not supported")
    if _is_number(x):
        return F("_np_reshape")(x, newshape=(-1,))
    return F("_np_reshape")(x, newshape=(-1,))


@_public
def broadcast_to(F: Operators, array: Any, shape: Any) -> Any:
    """Repeats an array along new leading axes and axes of extent 1; a number fills the shape."""
    if _is_number(array):
        dtype = "bool" if isinstance(array, bool) else "float32"
        return F("_npi_full")(shape=shape, value=float(array), dtype=dtype)
    return F("_npi_broadcast_to")(array, shape=shape)


@_public
def tile(F: Operators, A: Any, reps: Any) -> Any:
    """Repeats an array along axes; a longer `reps` adds leading axes."""
    if _is_number(A):
        return onp.tile(A, reps)
    reps = (reps,) if isinstance(reps, int | onp.integer) else tuple(reps)
    return F("tile")(A, reps=reps)


@_public
def atleast_1d(F: Operators, *arys: Any) -> Any:
    """Gives arrays without axes one axis."""
    return _at_least(F, 1, arys)


@_public
def atleast_2d(F: Operators, *arys: Any) -> Any:
    """Adds leading axes to arrays with fewer than two."""
    return _at_least(F, 2, arys)


@_public
def atleast_3d(F: Operators, *arys: Any) -> Any:
    """Adds axes to arrays with fewer than three."""
    return _at_least(F, 3, arys)


def _at_least(F: Operators, rank: int, arys: tuple[Any, ...]) -> Any:
    results = [F(f"_np_atleast_{rank}d")(a) for a in arys]
    return results[0] if len(results) == 1 else results


@_public
def pad(F: Operators, x: Any, pad_width: Any = None, mode: str = "constant", **kwargs: Any) -> Any:
    """Adds elements before and after axes.

    Args:
        x: The array.
        pad_width: A number, a pair, or a pair for each axis.
        mode: "constant", "edge", "reflect", "symmetric", "maximum" or "minimum".
        constant_values: The number of "constant".
        reflect_type: "even", the only one.
    """
    modes = ("constant", "edge", "maximum", "minimum", "reflect", "symmetric")
    if mode not in modes:
        raise ValueError(f"mode {mode!r} is not supported: it must be one of {', '.join(modes)}")
    if not onp.asarray(pad_width).dtype.kind == "i":
        raise TypeError("`pad_width` must be of integral type.")
    value = kwargs.pop("constant_values", 0)
    if kwargs.pop("reflect_type", "even") != "even":
        raise ValueError("only reflect_type='even' is supported")
    if kwargs:
        raise ValueError(f"unsupported keyword arguments for mode {mode!r}: {set(kwargs)}")
    if hasattr(x, "ndim"):
        pad_width = onp.broadcast_to(onp.asarray(pad_width), (x.ndim, 2)).tolist()
    elif onp.ndim(pad_width) < 2:  # the number of a symbol's axes is unknown
        pad_width = [onp.broadcast_to(onp.asarray(pad_width), 2).tolist()]
    pairs = tuple((int(low), int(high)) for low, high in pad_width)
    return F("_npi_pad")(x, pad_width=str(pairs), mode=mode, constant_value=float(value))


@_public
def diff(F: Operators, a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """Differences of neighbours along an axis, `n` times."""
    if prepend is not None or append is not None:
        raise NotImplementedError("prepend and append options are not supported yet")
    return F("_npi_diff")(a, n=n, axis=axis)


@_public
def ediff1d(F: Operators, ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """Differences of neighbours in the flattened array, between `to_begin` and `to_end`."""
    arrays, params = [ary], {}
    for name, value in (("to_begin", to_begin), ("to_end", to_end)):
        if _is_number(value):
            params[f"{name}_scalar"] = float(value)
        elif value is not None:
            params[f"{name}_arr_given"] = True
            arrays.append(value)
    names = ["input1"] + [f"input{i}" for i, v in ((2, to_begin), (3, to_end)) if v is not None and not _is_number(v)]
    return F("_npi_ediff1d")(**dict(zip(names, arrays, strict=True)), **params)


# --- products


@_public
def inner(F: Operators, a: Any, b: Any) -> Any:
    """The sum of products over the last axes."""
    return tensordot(F, a, b, ((-1,), (-1,)))


@_public
def outer(F: Operators, a: Any, b: Any) -> Any:
    """The products of all pairs of elements of the flattened arrays."""
    return tensordot(F, ravel(F, a), ravel(F, b), 0)


@_public
def vdot(F: Operators, a: Any, b: Any) -> Any:
    """The sum of products of the flattened arrays."""
    return tensordot(F, ravel(F, a), ravel(F, b), 1)


@_public
def tensordot(F: Operators, a: Any, b: Any, axes: Any = 2) -> Any:
    """A sum of products over the last axes of `a` and the first ones of `b`, or over pairs of axes."""
    if isinstance(axes, int | onp.integer):
        return F("_npi_tensordot_int_axes")(a, b, axes=int(axes))
    if not _is_sequence(axes) or len(axes) != 2:
        raise ValueError(f"tensordot: axes must be an integer or consist of two lists, not {axes!r}")
    left, right = ((n,) if isinstance(n, int | onp.integer) else tuple(n) for n in axes)
    if len(left) != len(right):
        raise ValueError("Axes length mismatch")
    return F("_npi_tensordot")(a, b, a_axes_summed=left, b_axes_summed=right)


@_public
def einsum(F: Operators, *operands: Any, **kwargs: Any) -> Any:
    """Sums of products in Einstein's notation: `einsum("ij,jk->ik", x, y)`."""
    out = kwargs.pop("out", None)
    optimize = kwargs.pop("optimize", False)
    if kwargs:
        raise TypeError(f"Did not understand the following kwargs: {list(kwargs)}")
    subscripts, *arrays = operands
    if not isinstance(subscripts, str):
        raise ValueError("einsum: the subscripts must be a string, before the arrays")
    return F("_npi_einsum")(*arrays, subscripts=subscripts, optimize=int(bool(optimize)), out=out)


# --- choices


@_public
def clip(F: Operators, a: Any, a_min: Any, a_max: Any, out: Any = None) -> Any:
    """The elements, limited to an interval; None for one bound is no bound."""
    if a_min is None and a_max is None:
        raise ValueError("array_clip: must set either max or min")
    if _is_number(a):
        return onp.clip(a, a_min, a_max)
    low, high = (-onp.inf if a_min is None else a_min), (onp.inf if a_max is None else a_max)
    return F("clip")(a, a_min=low, a_max=high, out=out)


@_public
def where(F: Operators, condition: Any, x: Any = None, y: Any = None) -> Any:
    """Elements of `x` where the condition is true, of `y` elsewhere; without them the indices of true elements."""
    if x is None and y is None:
        return nonzero(F, condition)
    if x is None or y is None:
        raise ValueError("either both or neither of x and y should be given")
    if _is_number(condition):
        return x if condition else y
    if _is_number(x) and _is_number(y):
        return F("_npi_where_scalar2")(condition, x=float(x), y=float(y))
    if _is_number(x):
        return F("_npi_where_lscalar")(condition, y, scalar=float(x))
    if _is_number(y):
        return F("_npi_where_rscalar")(condition, x, scalar=float(y))
    return F("_npi_where")(condition, x, y)


@_public
def nonzero(F: Operators, a: Any) -> Any:
    """The indices of nonzero elements, one array for each axis."""
    by_axis = getattr(a, "_nonzero_by_axis", None)  # eager arrays find the indices of all axes at once
    if by_axis is not None:
        return by_axis()
    indices = F("_npx_nonzero")(a)
    if hasattr(indices, "list_outputs"):
        return indices
    return tuple(indices[:, i].copy() for i in range(indices.shape[1]))


@_public
def take(F: Operators, a: Any, indices: Any, axis: int | None = None, mode: str = "raise", out: Any = None) -> Any:
    """The elements at indices along an axis; None takes from the flattened array. An index out of range is an error
    with mode "raise"; "clip" takes the nearest, "wrap" counts modulo the extent."""
    if mode not in ("wrap", "clip", "raise"):
        raise NotImplementedError(f"function take does not support mode '{mode}'")
    if axis is None:
        a, axis = F("_np_reshape")(a, newshape=(-1,)), 0
    return F("take")(a, indices, axis=axis, mode=mode, out=out)


# --- neural operators


@public("npx")
def reshape(F: Operators, a: Any, newshape: Any, reverse: bool = False, order: str = "C") -> Any:
    """The same elements in another shape, which can contain codes: -1 is inferred, -2 keeps an extent, -3 drops an
    extent of 1, -4 keeps all remaining extents, -5 multiplies two, and -6 splits one into the two that follow. With
    `reverse` codes match from the last axis."""
    return F("_npx_reshape")(a, newshape=newshape, reverse=reverse, order=order)


@public("npx")
def constraint_check(F: Operators, x: Any, msg: str) -> Any:
    """True if all elements are true. Otherwise the call raises an error with the text `msg`."""
    return F("_npx_constraint_check")(x, msg=msg)


npx_nonzero = public("npx")(lambda F, a: F("_npx_nonzero")(a))
npx_nonzero.__doc__ = "The indices of nonzero elements: (number of elements, number of axes), of dtype int64."
_FUNCTIONS["npx"]["nonzero"] = _FUNCTIONS["npx"].pop("<lambda>")


# --- order


@_public
def sort(F: Operators, a: Any, axis: int | None = -1, kind: Any = None, order: Any = None) -> Any:
    """The elements in rising order along an axis; None sorts the flattened array."""
    if order is not None:
        raise NotImplementedError("order not supported here")
    return F("sort")(a, axis=axis, is_ascend=True)


@_public
def argsort(F: Operators, a: Any, axis: int | None = -1, kind: Any = None, order: Any = None) -> Any:
    """The positions that sort the elements along an axis, of dtype int64."""
    if order is not None:
        raise NotImplementedError("order not supported here")
    return F("argsort")(a, axis=axis, is_ascend=True, dtype="int64")


@_public
def average(
    F: Operators, a: Any, axis: Any = None, weights: Any = None, returned: bool = False, out: Any = None
) -> Any:
    """The weighted mean over axes; with `returned` the sums of the weights too."""
    axis = axis if axis is None or isinstance(axis, int) else tuple(axis)
    if weights is None:
        return F("_npi_average")(a, axis=axis, returned=returned, weighted=False, out=out)
    return F("_npi_average")(a, weights, axis=axis, returned=returned, weighted=True, out=out)
