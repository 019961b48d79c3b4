"""Arithmetic of arrays: Python's operators, and `nd.add`, `nd.maximum`, ... on arrays and numbers.

As in MXNet, a number is converted to the array's dtype (an int array plus 1.5 adds 1), as an array of shape (); so no
number is compiled into a program. A bool array is converted to int64 for a number. Shapes broadcast as in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from operator import is_
from typing import TYPE_CHECKING, Any, NamedTuple

from ...ir.caches import Cache
from ...ir.types import DType
from ...runtime.device import DeviceError
from ...runtime.modes import are_calls_seen, hooks
from ..base import MXNetError, numeric_types
from ..context import cpu
from ..dtypes import to_memory
from ..tracebacks import api_boundary
from .array_classes import array_class, empty_array, is_numpy, number_class, number_on
from .eager import apply_bound, bind, operator_named
from .fast_paths import FastPath, as_path, remember
from .operator_function import BoundOperator, OperatorFunction, OperatorSpecialization, on_one_device
from .recorded_calls import while_watched
from .sparse_arithmetic import OF_NUMBERS
from .sparse_arithmetic import binary as binary_of_sparse

if TYPE_CHECKING:
    from .ndarray import NDArray

_CPU = cpu()
_BOOL = DType.BOOL
_NUMBERS = frozenset((float, int))

_AS_INTEGERS = {_BOOL: "int64"}


class Binary(NamedTuple):
    """A binary operator as arithmetic applies it: with `numpy` to arrays of `mx.np`. Beside a number, an array of a
    dtype in `converted` is converted first."""

    operator: str
    numpy: bool = False
    converted: Mapping[DType, str] = _AS_INTEGERS


_numbers: Cache[tuple[DType, Any], NDArray] = Cache("numbers")
_recent_numbers = _numbers.recent
_tables: dict[Any, Cache[Any, FastPath]] = {}


def number_array(dtype: DType, value: Any) -> NDArray:
    """A number as an array of shape () and class `Number`. It is cached: callers must not write to it."""
    key = dtype, value or str(value)  # 0.0 and -0.0 are equal, but need different entries
    known = _recent_numbers.get(key)
    if known is None:  # no closure over the arguments, which would slow down every call
        known = _numbers.find(key)
    return _numbers.add(key, _new_number_array(dtype, value)) if known is None else known


def _new_number_array(dtype: DType, value: Any) -> NDArray:
    number = empty_array((), dtype, _CPU)
    number._write(to_memory(value, dtype))
    number.__class__ = number_class()
    return number


def table_of(name: Any, numpy: bool = False) -> Cache[Any, FastPath]:
    """The fast paths of an operator by (dtype, shape) or (dtype, shape, dtype, shape)."""
    return _tables.setdefault((name, numpy), Cache("fast paths", ages=True))


_operators: Cache[tuple[str, bool], BoundOperator] = Cache("operators of arithmetic")


def _bound(name: str, numpy: bool) -> BoundOperator:
    """An operator without parameters."""
    key = name, numpy
    return _operators.recent.get(key) or _operators.get(key, lambda: bind(operator_named(name), {}, numpy))


@api_boundary
def apply_slowly(binary: Binary, x: Any, y: Any) -> NDArray:
    """Apply the operator to two arrays, or an array and a number. It is compiled if necessary, and its fast path
    cached."""
    require_kind(binary, x, y)
    x, y = _operands(binary, x, y)
    bound = _bound(binary.operator, binary.numpy)
    if x._is_sparse or y._is_sparse:
        return apply_bound(bound, (x, y))
    operands, (x, y) = (x, y), on_one_device((x, y))
    specialization = bound.caller((x, y))
    if not hooks.intercepted and isinstance(specialization, OperatorSpecialization):
        key = x._dtype, x._shape, y._dtype, y._shape
        remember(
            table_of(*binary[:2]),
            key,
            specialization.device,
            lambda: _with_numbers(operands, (x, y), specialization.fast()),
        )
    return specialization.call((x, y))


def require_kind(binary: Binary, *operands: Any) -> None:
    """TypeError for an array of `mx.np` beside one of `mx.nd`."""
    array, number = array_class(), number_class()
    for operand in operands:
        is_array = isinstance(operand, array) and operand.__class__ is not number
        if is_array and is_numpy(operand) is not binary.numpy:
            convert = "as_np_ndarray()" if binary.numpy else "as_nd_ndarray()"
            raise TypeError(
                f"type {type(operand)} not supported: arrays of mx.nd and of mx.np do not mix; call {convert}"
            )


def _with_numbers(operands: Sequence[NDArray], used: Sequence[NDArray], path: FastPath) -> FastPath:
    """The fast path of calls with operands like `operands`. If `used` has copies of numbers on a GPU instead, the path
    takes such copies for all numbers."""
    if all(map(is_, operands, used)):
        return path
    context, number, recorded = used[0]._context, number_class(), path.recorded

    def there(x: NDArray, y: NDArray) -> tuple[NDArray, NDArray]:
        if (y if x.__class__ is number else x)._context != context:
            raise DeviceError(f"the path is one of {context}")
        if x.__class__ is number:
            return number_on(x, context), y
        return x, number_on(y, context) if y.__class__ is number else y

    return as_path(
        lambda x, y: path(*there(x, y)),
        path.owner,
        None if recorded is None else lambda x, y: recorded(*there(x, y)),
    )


def _operands(binary: Binary, x: Any, y: Any) -> tuple[NDArray, NDArray]:
    """Two arrays: `hooks.converter` converts given arrays, and numbers get the dtype of the other operand."""
    if hooks.converter is not None:
        x, y = _converted(binary.operator, x, y)
    if isinstance(x, numeric_types):
        y = beside_number(binary, y)
        return number_array(y._dtype, x), y
    if isinstance(y, numeric_types):
        x = beside_number(binary, x)
    return x, as_operand(y, x._dtype)


def _converted(name: str, x: Any, y: Any) -> tuple[Any, Any]:
    """The operands after `hooks.converter`, which gets the operator that MXNet uses for an array and a number."""
    assert hooks.converter is not None
    right, left = OF_NUMBERS.get(name, (name, name))
    if isinstance(x, numeric_types):
        (y,), _ = hooks.converter(operator_named(left), [y], {})
    elif isinstance(y, numeric_types):
        (x,), _ = hooks.converter(operator_named(right), [x], {})
    elif isinstance(y, array_class()):
        (x, y), _ = hooks.converter(operator_named(name), [x, y], {})
    return x, y


def _unsupported(value: Any) -> TypeError:
    return TypeError(f"type {type(value)} not supported")


def method_of(binary: Binary, python_name: str, doc: str) -> Callable[[NDArray, Any], NDArray]:
    """A method `x OP y`."""
    fast_paths, converted = table_of(*binary[:2]).recent, binary.converted

    def method(self: NDArray, other: Any) -> NDArray:
        operand = other
        if other.__class__ in _NUMBERS:
            if self._dtype in converted:
                self = self.astype(converted[self._dtype])
            other = number_array(self._dtype, other)
        try:
            call = fast_paths[self._dtype, self._shape, other._dtype, other._shape]
        except (AttributeError, KeyError):
            call = None  # errors below must not have this one as their context
        if hooks.watched:
            call = while_watched(call)
        if call is not None:
            try:
                return call(self, other)
            except DeviceError:
                pass
        return apply_slowly(binary, self, operand)

    return _named(method, python_name, doc)


def reflected_of(binary: Binary, python_name: str, doc: str) -> Callable[[NDArray, Any], NDArray]:
    """A method `number OP x`."""

    fast_paths = table_of(*binary[:2]).recent

    def method(self: NDArray, other: Any) -> NDArray:
        operand = other
        self = beside_number(binary, self)
        other = as_operand(other, self._dtype)
        call = fast_paths.get((other._dtype, other._shape, self._dtype, self._shape))
        if hooks.watched:
            call = while_watched(call)
        try:
            result = apply_slowly(binary, operand, self) if call is None else call(other, self)
        except DeviceError:
            result = apply_slowly(binary, operand, self)
        result._context = self._context
        return result

    return _named(method, python_name, doc)


def in_place_of(binary: Binary, python_name: str, doc: str) -> Callable[[NDArray, Any], NDArray]:
    """A method `x OP= y`: the result is written into x and must have its dtype and shape."""
    name = binary.operator
    fast_paths = table_of(f"{name} in place", binary.numpy).recent

    def method(self: NDArray, other: Any) -> NDArray:
        if self._dtype is _BOOL and _BOOL in binary.converted and isinstance(other, numeric_types):
            raise MXNetError(
                f"{name}: a bool array and a number give int64, which cannot be written into the bool array"
            )
        other = as_operand(other, self._dtype)
        if other._is_sparse:
            return _slow_in_place(binary, self, densified(other))
        write = fast_paths.get((self._dtype, self._shape, other._dtype, other._shape))
        is_safe = other is self or other._storage is not self._storage
        if write is not None and is_safe and not (hooks.watched and are_calls_seen()):
            try:
                return write(self, other)
            except DeviceError:
                pass
        return _slow_in_place(binary, self, other)

    return _named(method, python_name, doc)


@api_boundary
def _slow_in_place(binary: Binary, x: NDArray, y: NDArray) -> NDArray:
    """The slow path: a first call with such operands, an operand that shares x's memory, or observed calls."""
    require_kind(binary, x, y)
    name = binary.operator
    if hooks.converter is not None:
        _, y = _converted(name, x, y)
    operands, (x, y) = (x, y), on_one_device((x, y))
    specialization = _bound(name, binary.numpy).specialization((x, y))
    specialization.call((x, y), x)
    if not are_calls_seen() and specialization.may_write_first:
        key, paths = (x._dtype, x._shape, y._dtype, y._shape), table_of(f"{name} in place", binary.numpy)
        remember(
            paths, key, specialization.device, lambda: _with_numbers(operands, (x, y), specialization.fast_in_place())
        )
    return x


def _unary(bound: Callable[[], BoundOperator], python_name: str, doc: str) -> Callable[[NDArray], NDArray]:
    table = table_of(python_name)
    fast_paths = table.recent

    def method(self: NDArray) -> NDArray:
        call = fast_paths.get((self._dtype, self._shape))
        if hooks.watched:
            call = while_watched(call)
        if call is not None:
            try:
                return call(self)
            except DeviceError:
                pass
        return slowly(promote_bool(self))

    def slowly(x: NDArray) -> NDArray:
        if hooks.converter is not None:
            (x,), _ = hooks.converter(type(bound().operator), [x], {})
        specialization = bound().caller((x,))
        if not hooks.intercepted and isinstance(specialization, OperatorSpecialization):
            remember(table, (x._dtype, x._shape), specialization.device, specialization.fast)
        return specialization.call((x,))

    return _named(method, python_name, doc)


def _absolute() -> BoundOperator:
    return bind(operator_named("abs"), {})


@cache
def _negation() -> BoundOperator:
    """The operator of `-x`. Profiles show the name of x * -1, MXNet's implementation."""
    operator = bind(operator_named("negative"), {}).operator
    return BoundOperator(OperatorFunction(operator, "_mul_scalar"), operator)


def _named(method: Callable[..., NDArray], name: str, doc: str) -> Callable[..., NDArray]:
    method.__name__, method.__qualname__, method.__doc__ = name, f"NDArray.{name}", doc
    return method


def as_operand(value: Any, dtype: DType) -> NDArray:
    """An array unchanged, a number as an array of shape (). TypeError for other values."""
    if isinstance(value, array_class()):
        return value
    if isinstance(value, numeric_types):
        return number_array(dtype, value)
    raise _unsupported(value)


def promote_bool(array: NDArray) -> NDArray:
    """The array as operand beside a number: bool arrays become int64."""
    return array.astype("int64") if array._dtype is _BOOL else array


def beside_number(binary: Binary, array: NDArray) -> NDArray:
    """The array as operand of an operator beside a number."""
    dtype = binary.converted.get(array._dtype)
    return array if dtype is None else array.astype(dtype)


def densified(array: NDArray) -> NDArray:
    """A sparse array as a dense one."""
    return array.tostype("default")


def apply(name: str, x: NDArray, y: Any) -> NDArray:
    """A binary operator on two arrays, or an array and a number."""
    if x._is_sparse:
        return binary_of_sparse(name, x, y)
    operand = y
    if isinstance(y, numeric_types):
        x = promote_bool(x)
    y = as_operand(y, x._dtype)
    if y._is_sparse:
        return binary_of_sparse(name, x, y)
    call = table_of(name).recent.get((x._dtype, x._shape, y._dtype, y._shape))
    if hooks.watched:
        call = while_watched(call)
    if call is not None:
        try:
            return call(x, y)
        except DeviceError:
            pass
    return apply_slowly(Binary(name), x, operand)


class Arithmetic:
    """Python's operators on arrays. Comparisons return 0 and 1 in the left operand's dtype."""

    __slots__ = ()

    __add__ = method_of(Binary("broadcast_add"), "__add__", "x + y")
    __sub__ = method_of(Binary("broadcast_sub"), "__sub__", "x - y")
    __mul__ = method_of(Binary("broadcast_mul"), "__mul__", "x * y")
    __truediv__ = __div__ = method_of(Binary("broadcast_div"), "__truediv__", "x / y; integers are truncated")
    __mod__ = method_of(Binary("broadcast_mod"), "__mod__", "x % y, with the sign of y")
    __pow__ = method_of(Binary("broadcast_power"), "__pow__", "x ** y")
    __radd__ = reflected_of(Binary("broadcast_add"), "__radd__", "y + x")
    __rsub__ = reflected_of(Binary("broadcast_sub"), "__rsub__", "y - x")
    __rmul__ = reflected_of(Binary("broadcast_mul"), "__rmul__", "y * x")
    __rtruediv__ = __rdiv__ = reflected_of(Binary("broadcast_div"), "__rtruediv__", "y / x")
    __rmod__ = reflected_of(Binary("broadcast_mod"), "__rmod__", "y % x")
    __rpow__ = reflected_of(Binary("broadcast_power"), "__rpow__", "y ** x")
    __iadd__ = in_place_of(Binary("broadcast_add"), "__iadd__", "x += y")
    __isub__ = in_place_of(Binary("broadcast_sub"), "__isub__", "x -= y")
    __imul__ = in_place_of(Binary("broadcast_mul"), "__imul__", "x *= y")
    __itruediv__ = __idiv__ = in_place_of(Binary("broadcast_div"), "__itruediv__", "x /= y")
    __imod__ = in_place_of(Binary("broadcast_mod"), "__imod__", "x %= y")
    if TYPE_CHECKING:  # those of `object` return bool

        def __eq__(self, other: Any) -> NDArray: ...  # type: ignore[override]
        def __ne__(self, other: Any) -> NDArray: ...  # type: ignore[override]

    else:
        __eq__ = method_of(Binary("broadcast_equal"), "__eq__", "x == y")
        __ne__ = method_of(Binary("broadcast_not_equal"), "__ne__", "x != y")
    __gt__ = method_of(Binary("broadcast_greater"), "__gt__", "x > y")
    __ge__ = method_of(Binary("broadcast_greater_equal"), "__ge__", "x >= y")
    __lt__ = method_of(Binary("broadcast_lesser"), "__lt__", "x < y")
    __le__ = method_of(Binary("broadcast_lesser_equal"), "__le__", "x <= y")
    __hash__ = object.__hash__

    __neg__ = _unary(_negation, "__neg__", "-x")
    __abs__ = _unary(_absolute, "__abs__", "abs(x)")


def _function(name: str, operator: str, of_numbers: Callable[[Any, Any], Any], doc: str) -> Callable[[Any, Any], Any]:
    """A function of two arrays, an array and a number in either order, or two numbers."""

    fast_paths = table_of(operator).recent

    def function(lhs: Any, rhs: Any) -> Any:
        try:
            call = fast_paths[lhs._dtype, lhs._shape, rhs._dtype, rhs._shape]
        except (AttributeError, KeyError):
            call = None
        if hooks.watched:
            call = while_watched(call)
        if call is not None:
            try:
                return call(lhs, rhs)
            except DeviceError:
                pass
        return _of_any(operator, of_numbers, lhs, rhs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"{doc}, element by element.\n\nlhs and rhs are arrays or numbers. Axes of extent 1 and missing leading axes "
        "are repeated."
    )
    return function


def _of_any(operator: str, of_numbers: Callable[[Any, Any], Any], lhs: Any, rhs: Any) -> Any:
    """The slow path of a function."""
    if isinstance(lhs, array_class()):
        return apply(operator, lhs, rhs)
    if isinstance(rhs, array_class()):
        if rhs._is_sparse:
            return binary_of_sparse(operator, lhs, rhs)
        binary = Binary(operator)
        result = apply_slowly(binary, lhs, rhs) if hooks.watched else apply(operator, *_operands(binary, lhs, rhs))
        result._context = rhs._context
        return result
    if isinstance(lhs, numeric_types) and isinstance(rhs, numeric_types):
        return of_numbers(lhs, rhs)
    raise _unsupported(rhs if isinstance(lhs, numeric_types) else lhs)


add = _function("add", "broadcast_add", lambda x, y: x + y, "lhs + rhs")
subtract = _function("subtract", "broadcast_sub", lambda x, y: x - y, "lhs - rhs")
multiply = _function("multiply", "broadcast_mul", lambda x, y: x * y, "lhs * rhs")
divide = _function("divide", "broadcast_div", lambda x, y: x / y, "lhs / rhs")
modulo = _function("modulo", "broadcast_mod", lambda x, y: x % y, "lhs % rhs")
_power = _function("power", "broadcast_power", lambda x, y: x**y, "base ** exp")


def power(base: Any, exp: Any) -> Any:
    """`base ** exp`, element by element with broadcasting. Both are arrays or numbers."""
    return _power(base, exp)


maximum = _function("maximum", "broadcast_maximum", max, "The larger element")
minimum = _function("minimum", "broadcast_minimum", min, "The smaller element")
equal = _function("equal", "broadcast_equal", lambda x, y: int(x == y), "1 if lhs == rhs, else 0")
not_equal = _function("not_equal", "broadcast_not_equal", lambda x, y: int(x != y), "1 if lhs != rhs, else 0")
greater = _function("greater", "broadcast_greater", lambda x, y: int(x > y), "1 if lhs > rhs, else 0")
greater_equal = _function(
    "greater_equal", "broadcast_greater_equal", lambda x, y: int(x >= y), "1 if lhs >= rhs, else 0"
)
lesser = _function("lesser", "broadcast_lesser", lambda x, y: int(x < y), "1 if lhs < rhs, else 0")
lesser_equal = _function("lesser_equal", "broadcast_lesser_equal", lambda x, y: int(x <= y), "1 if lhs <= rhs, else 0")
logical_and = _function(
    "logical_and", "broadcast_logical_and", lambda x, y: int(bool(x) and bool(y)), "1 if both are not 0, else 0"
)
logical_or = _function(
    "logical_or", "broadcast_logical_or", lambda x, y: int(bool(x) or bool(y)), "1 if at least one is not 0, else 0"
)
logical_xor = _function(
    "logical_xor", "broadcast_logical_xor", lambda x, y: int(bool(x) != bool(y)), "1 if exactly one is not 0, else 0"
)
true_divide = divide
