"""Symbols of `mx.sym.np`: expressions of arrays of `mx.np`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, ClassVar

from ..base import NotImplementedForSymbol, integer_types
from .symbol import Symbol

__all__ = ["_Symbol"]


def _np() -> Any:
    """The module `mx.sym.np`, whose functions the methods are."""
    return import_module(".numpy", __package__)


def _internal(name: str, *args: Any, **kwargs: Any) -> Any:
    return import_module(".numpy.functions", __package__).internal(name)(*args, **kwargs)


class _Symbol(Symbol):
    """One or several outputs of a graph of operators of `mx.np`."""

    __slots__ = ()

    _class: ClassVar[type[Symbol] | None]

    def as_np_ndarray(self) -> _Symbol:
        """The symbol itself."""
        return self

    def __getitem__(self, key: Any) -> Any:  # type: ignore[override]
        """An output of several, by position or name; of one output the part that a key of integers and slices
        selects."""
        if isinstance(key, str) or len(self._entries) > 1:
            return super().__getitem__(key)
        return _part(self, key)

    def __iter__(self) -> Any:
        if len(self._entries) == 1:
            return iter((self,))
        return super().__iter__()

    @property
    def T(self) -> Any:
        """The symbol with its axes in reverse order."""
        return self.transpose()

    def reshape(self, *args: Any, **kwargs: Any) -> Any:
        """The same elements in another shape."""
        shape = args if args else kwargs.get("newshape", kwargs.get("shape"))
        if isinstance(shape, tuple) and len(shape) == 1 and not isinstance(shape[0], integer_types):
            shape = tuple(shape[0])
        return _internal("_np_reshape", self, newshape=shape, order=kwargs.get("order", "C"))

    def transpose(self, *axes: Any) -> Any:
        """The symbol with permuted axes."""
        if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], list | tuple)):
            axes = tuple(axes[0] or ())
        return _internal("_np_transpose", self, axes=axes or None)

    def flatten(self, order: str = "C") -> Any:
        """The elements with one axis."""
        return self.reshape(-1)

    def astype(self, dtype: Any, **kwargs: Any) -> Any:
        """The elements in another dtype."""
        return _internal("_npi_cast", self, dtype=dtype)

    def copy(self, order: str = "C") -> Any:
        """The same elements."""
        return _internal("_np_copy", self)

    def dot(self, b: Any, out: Any = None) -> Any:
        """The product of two symbols."""
        return _np().dot(self, b)

    def expand_dims(self, axis: Any) -> Any:
        """Inserts an axis of extent 1."""
        return _np().expand_dims(self, axis)

    def squeeze(self, axis: Any = None) -> Any:
        """Removes axes of extent 1."""
        return _np().squeeze(self, axis=axis)

    def broadcast_to(self, shape: Any) -> Any:
        """Repeats the symbol along axes of extent 1, and along new leading axes."""
        return _np().broadcast_to(self, shape)

    def __neg__(self) -> Any:
        return _internal("_npi_multiply_scalar", self, scalar=-1.0, is_int=False)

    def __abs__(self) -> Any:
        return _np().absolute(self)

    def __invert__(self) -> Any:
        return _np().bitwise_not(self)


_Symbol._class = _Symbol
_Symbol.__module__ = "mxforge.symbol.numpy"


def _part(symbol: _Symbol, key: Any) -> Any:
    """The part that integers and slices select, as the operators that MXNet makes."""
    if isinstance(key, integer_types) and not isinstance(key, bool):
        if key == -1:
            sliced = _internal("_npi_slice", symbol, begin=[-1], end=[None])
        else:
            sliced = _internal("_npi_slice", symbol, begin=[key], end=[key + 1])
        return _internal("_npi_reshape", sliced, newshape=(-3, -4))
    if isinstance(key, slice):
        if key.step == 0:
            raise ValueError("slice step cannot be zero")
        if key == slice(None):
            return symbol
        if key.start is None or key.stop is None:
            return _internal("_npi_slice", symbol, begin=(key.start,), end=(key.stop,), step=(key.step,))
        return _internal("_npi_slice", symbol, begin=key.start, end=key.stop, step=key.step)
    return _part_by_axes(symbol, key)


def _part_by_axes(symbol: _Symbol, key: Any) -> Any:
    """The part that a tuple of integers and slices selects."""
    if not isinstance(key, tuple):
        raise NotImplementedError(f"symbols are indexed by integers, slices and tuples of them, not {key!r}")
    begin: list[Any] = []
    end: list[Any] = []
    step: list[Any] = []
    codes: list[int] = []
    for part in key:
        if isinstance(part, slice):
            begin.append(part.start), end.append(part.stop), step.append(part.step), codes.append(-2)
        elif isinstance(part, integer_types):
            begin.append(part), end.append(part + 1 if part != -1 else None), step.append(1), codes.append(-3)
        else:
            raise NotImplementedError(f"symbols are indexed by integers, slices and tuples of them, not {part!r}")
    sliced = _internal("_npi_slice", symbol, begin=begin, end=end, step=step)
    return sliced if -3 not in codes else _internal("_npi_reshape", sliced, newshape=(*codes, -4))


_BINARY = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "true_divide",
    "mod": "mod",
    "pow": "power",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "matmul": "matmul",
    "floordiv": "floor_divide",
    "lshift": "bitwise_left_shift",
    "rshift": "bitwise_right_shift",
}
_COMPARISONS = {
    "eq": "equal",
    "ne": "not_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "lt": "less",
    "le": "less_equal",
}
_METHODS = """
    all any argmax argmin argsort clip cumsum max mean min nonzero prod repeat round sort std sum swapaxes take var
    diag trace tile flip split abs arccos arccosh arcsin arcsinh arctan arctanh cbrt ceil cos cosh degrees exp expm1
    fix floor log log10 log1p log2 radians reciprocal rint sign sin sinh sqrt square tan tanh trunc pad
""".split()
_EXTENSIONS = "log_softmax one_hot pick relu reshape_like sigmoid slice softmax topk shape_array".split()


def _operator(name: str, reflected: bool = False) -> Callable[[Any, Any], Any]:
    def method(self: _Symbol, other: Any) -> Any:
        function = getattr(_np(), name)
        return function(other, self) if reflected else function(self, other)

    return method


def _in_place(method: str) -> Callable[[Any, Any], Any]:
    def fail(self: _Symbol, other: Any) -> Any:
        raise NotImplementedForSymbol(method, None, other)

    return fail


def _fluent(module: str, name: str) -> Callable[..., Any]:
    def method(self: _Symbol, *args: Any, **kwargs: Any) -> Any:
        return getattr(import_module(module, __package__), name)(self, *args, **kwargs)

    method.__name__, method.__doc__ = name, f"`{name}` of this symbol."
    return method


def _clip(self: _Symbol, min: Any = None, max: Any = None, out: Any = None) -> Any:
    """Limits the elements to an interval."""
    return _np().clip(self, min, max)


for _name, _function in _BINARY.items():
    setattr(_Symbol, f"__{_name}__", _operator(_function))
    setattr(_Symbol, f"__r{_name}__", _operator(_function, reflected=True))
    setattr(_Symbol, f"__i{_name}__", _in_place(f"__i{_name}__"))
for _name, _function in _COMPARISONS.items():
    setattr(_Symbol, f"__{_name}__", _operator(_function))
_Symbol.__div__, _Symbol.__rdiv__ = _Symbol.__truediv__, _Symbol.__rtruediv__  # type: ignore[attr-defined]
for _name in _METHODS:
    setattr(_Symbol, _name, _fluent(".numpy", _name))
for _name in _EXTENSIONS:
    setattr(_Symbol, _name, _fluent(".numpy_extension", _name))
_Symbol.clip = _clip  # type: ignore[attr-defined]
