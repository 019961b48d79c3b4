"""Runs one operator at once: finds the compiled call for an operator, its parameters and its operands' types, and
makes the result.

    Bound       an operator with its parameters, parsed once
    Call        an operator compiled for operands of certain types
    fast call   a Call of one or two operands and one result as a plain function, kept in tables by those types

On the way of a call that was made before stand one dictionary look-up, one allocation and one native call.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.types import TensorType
from ...runtime import writes
from ...runtime.shared_state import copy_shared_state, write_back
from ...runtime.storage import Storage
from ..autograd import is_training
from ..base import MXNetError
from ..context import Context, usable
from ..dtypes import dtype_name, from_memory
from ..memory import OutOfMemory, allocate
from ..random import next_key
from .operator_graph import compiled, operator_graph, shown
from .scalars import ScalarBlock, checks_scalars

if TYPE_CHECKING:
    from ...ir.dialects.mx.operator import Operator
    from .ndarray import NDArray

_REMEMBERED = 4096  # entries of a table before it starts anew

_STORAGE_OPERATORS = ("mx.cast_storage", "mx._sparse_retain")
"""Operators that look at the storage type of dense operands too."""

_bound: dict[Any, Bound] = {}
_shared: dict[Any, dict[Any, Call]] = {}  # the calls of operators that differ in their scalars alone


class Bound:
    """An operator with its parameters, and the calls of it that were compiled, by the dtypes and shapes of the
    operands. `scalars` are the numbers that its calls take besides the operands."""

    __slots__ = ("calls", "operator", "scalars")

    def __init__(self, operator: Operator, calls: dict[Any, Call], scalars: Sequence[float] = ()) -> None:
        self.operator, self.calls, self.scalars = operator, calls, scalars

    def call_for(self, arrays: Sequence[NDArray]) -> Call:
        """The compiled call for operands like these."""
        training = is_training()
        key = (training, *[(a._dtype, a._shape) for a in arrays])
        found = self.calls.get(key)
        if found is None:
            found = Call(self.operator, tuple(TensorType(a._shape, a._dtype) for a in arrays), training)
            bounded(self.calls)[key] = found
        elif self.scalars and checks_scalars(type(self.operator)):
            self._require(arrays)
        return found

    def _require(self, arrays: Sequence[NDArray]) -> None:
        """MXNetError where these numbers do not fit the operands; a call that was compiled has seen others."""
        try:
            self.operator.require_shapes([TensorType(a._shape, a._dtype) for a in arrays])
        except ValueError as error:
            raise MXNetError(str(error)) from error


def forget_bound() -> None:
    """Forget what parameters mean, after an operator of a user's was registered anew."""
    _bound.clear()


def invoke(
    cls: type[Operator],
    arrays: Sequence[NDArray],
    params: Mapping[str, Any],
    out: NDArray | Sequence[NDArray] | None = None,
    context: Context | None = None,
) -> Any:
    """Apply an operator to arrays; parameters are Python values or MXNet's strings.

    Gives the visible output, or a list of several; `out` receives them instead. States that the operator changes are
    written in place. MXNetError names the operator, and the parameter or the shapes that do not fit.
    """
    return apply_bound(bind(cls, params), arrays, out, context)


def apply_bound(
    bound: Bound,
    arrays: Sequence[NDArray],
    out: NDArray | Sequence[NDArray] | None = None,
    context: Context | None = None,
) -> Any:
    """Apply an operator with its parameters to arrays of any storage type; see `invoke`."""
    if about_storage(bound.operator, arrays, out):
        from .storage import dispatch

        return dispatch(bound, arrays, out, context)
    return bound.call_for(arrays).run(arrays, out, context, bound.scalars)


def about_storage(operator: Operator, arrays: Sequence[NDArray], out: Any = None) -> bool:
    """Whether storage types decide what happens: with sparse operands or outputs, and for operators about them."""
    if any(a._is_sparse for a in arrays) or operator.name in _STORAGE_OPERATORS:
        return True
    outs = out if isinstance(out, list | tuple) else (out,)
    try:
        return any(o is not None and o._is_sparse for o in outs)
    except AttributeError:
        raise TypeError(f"{operator.mx_name()}: out must be an NDArray or a list of them, not {out!r}") from None


def kind_of(value: Any) -> Any:
    """The type of a parameter, or those of the items of a tuple: 2, 2.0 and True are equal, and not all are allowed."""
    kind = value.__class__
    return kind if kind is not tuple else tuple(map(type, value))


def bind(cls: type[Operator], params: Mapping[str, Any]) -> Bound:
    """The operator with these parameters, parsed once. MXNetError says which one is wrong."""
    values = tuple(params.values())
    try:
        key = (cls, tuple(params), values, tuple(map(kind_of, values)))
        found = _bound.get(key)
    except TypeError:  # lists
        return bind(cls, {name: _frozen(value) for name, value in params.items()})
    if found is None:
        operator = _parse(cls, params)
        found = _bind_scalars(operator) if cls.scalars else Bound(operator, {})
        bounded(_bound)[key] = found
    return found


def bound_of(operator: Operator) -> Bound:
    """An operator with its parameters, that is not remembered."""
    return _bind_scalars(operator) if operator.scalars else Bound(operator, {})


def _bind_scalars(operator: Operator) -> Bound:
    """An operator whose calls are those of all that differ in their scalars alone."""
    from ...ir.dialects.mx.builder import scalar_values

    given = scalar_values(operator)
    rest = [getattr(operator, field) for field in type(operator).model_fields if field not in operator.scalars]
    key = (type(operator), tuple(given), tuple(rest))
    calls = _shared.get(key)
    if calls is None:
        calls = bounded(_shared)[key] = {}
    return Bound(operator, calls, tuple(given.values()))


def _frozen(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(map(_frozen, value))
    if isinstance(value, np.ndarray):
        return _frozen(value.tolist())
    try:
        hash(value)
    except TypeError:
        return str(value)
    return value


def _parse(cls: type[Operator], params: Mapping[str, Any]) -> Operator:
    named = {k: dtype_name(v) if isinstance(v, type | np.dtype) else v for k, v in params.items()}
    try:
        return cls.parse(named)
    except (TypeError, ValueError) as error:
        raise MXNetError(str(error)) from error


@cache
def _array_module() -> Any:
    """The module of NDArray, which imports this one. (`from .ndarray import` on every call costs a microsecond.)"""
    from . import ndarray

    return ndarray


def bounded(table: dict[Any, Any]) -> dict[Any, Any]:
    """The table, emptied when it has grown beyond what is worth remembering."""
    if len(table) >= _REMEMBERED:
        table.clear()
    return table


class Call:
    """An operator compiled for operands of certain types.

    `state` are the operands that the program replaces.
    """

    def __init__(self, operator: Operator, types: tuple[TensorType, ...], training: bool) -> None:
        self.operator = operator
        graph, self.modal = operator_graph(operator, types, training)
        self.executable = compiled(graph, operator)
        self.state = graph.updates
        self.scalars = ScalarBlock.of(operator)
        self.random = self.executable.random
        self.types = self.executable.outputs
        self.complains, self.objects = operator.complains(), operator.objects()
        self.simple = not (self.state or self.random or self.scalars.count or self.complains or self.objects)

    def run(
        self,
        arrays: Sequence[NDArray],
        out: NDArray | Sequence[NDArray] | None,
        context: Context | None,
        scalars: Sequence[float] = (),
    ) -> Any:
        """Apply to `arrays`, whose types are those of the call, and to as many numbers as it takes."""
        context = arrays[0]._context if arrays and context is None else usable(context)
        if out is None and self.simple:
            results = self._new(context)
            self.executable.run([a._address for a in arrays], [r._address for r in results])
            return results[0] if len(results) == 1 else results
        if self.objects:
            self._raise_objection(arrays)
        results = self._new(context) if out is None else _as_outputs(out, self)
        targets, copies = self._targets(arrays, results, out is None)
        inputs = [a._address for a in arrays]
        block, places = self.scalars.filled(scalars)
        inputs += places
        key = _key_storage(context) if self.random else None
        if key is not None:
            inputs.append(key.address)
        before = [a.asnumpy() for a in arrays] if self.complains else []
        shared = copy_shared_state(inputs, self.executable.inputs, self.state) if self.state else ()
        self.executable.run(inputs, targets)
        write_back(shared)
        self.scalars.free.append(block)
        for target, source, nbytes in copies:
            ctypes.memmove(target, source.address, nbytes)
        if self.complains:
            self._raise_complaint(arrays, before, results)
        for i in self.state:
            writes.written(arrays[i]._storage)
        if out is not None:
            for array in results:
                writes.written(array._storage)
            return out
        return results[0] if len(results) == 1 else results

    def _raise_complaint(self, arrays: Sequence[NDArray], before: list[np.ndarray], results: Sequence[NDArray]) -> None:
        """MXNetError where the operator says that what the operands were `before` has no results."""
        reason = self.operator.complaint(before, [r.asnumpy() for r in results])
        if reason is not None:
            raise MXNetError(f"{self._shown(arrays)}: {reason}")

    def _raise_objection(self, arrays: Sequence[NDArray]) -> None:
        """MXNetError or IndexError where the operator says that it takes no such elements."""
        reason = self.operator.objection([from_memory(a._memory(), a._dtype) for a in arrays])
        if reason is not None:
            kind = IndexError if type(self.operator).index_errors else MXNetError
            raise kind(f"{self._shown(arrays)}: {reason}")

    def _shown(self, arrays: Sequence[NDArray]) -> str:
        names = self.operator.input_names(len(arrays))
        return shown(self.operator, names, [TensorType(a._shape, a._dtype) for a in arrays])

    def _new(self, context: Context) -> list[NDArray]:
        try:
            return [_array_module().empty_array(t.shape, t.dtype, context) for t in self.types]
        except OutOfMemory as error:
            raise error.of(self.operator.mx_name()) from None

    def _targets(
        self, arrays: Sequence[NDArray], written: Sequence[NDArray], fresh: bool
    ) -> tuple[list[int], list[tuple[int, Storage, int]]]:
        """Where the program writes each output, and what is copied afterwards: an output over an operand goes through
        a temporary."""
        if fresh:
            return [w._address for w in written], []
        targets: list[int] = []
        copies: list[tuple[int, Storage, int]] = []
        for number, array in enumerate(written):
            if self._may_write(number, array, arrays):
                targets.append(array._address)
                continue
            temporary = allocate(array._nbytes())
            targets.append(temporary.address)
            copies.append((array._address, temporary, array._nbytes()))
        return targets, copies

    def _may_write(self, output: int, target: NDArray, arrays: Sequence[NDArray]) -> bool:
        for i, array in enumerate(arrays):
            if array._storage is not target._storage or not _overlap(array, target):
                continue
            same = array._address == target._address and array._shape == target._shape
            if not same or not self.executable.may_overwrite(output, i):
                return False
        return True

    def fast(self) -> Callable[..., NDArray]:
        """The call as a function of its one or two operands, the way that costs least."""
        straight = self.executable.straight()
        if straight is None or not self.simple or len(self.types) != 1:
            return lambda *arrays: self.run(arrays, None, None)
        from .ready import fast_binary, fast_unary

        maker: Any = fast_unary if len(self.executable.inputs) == 1 else fast_binary
        return maker(straight, self.types[0])


def write_in_place(call: Call) -> Callable[[NDArray, NDArray], None] | None:
    """A call of two operands that overwrites the first, the way that costs least; None where that needs a temporary."""
    straight = call.executable.straight()
    same = call.types[0] == call.executable.inputs[0]
    if straight is None or not call.simple or not same or not call.executable.may_overwrite(0, 0):
        return None

    def write(x: NDArray, y: NDArray) -> None:
        straight(x._address, y._address, x._address)

    return write


def _overlap(x: NDArray, y: NDArray) -> bool:
    return x._address < y._address + y._nbytes() and y._address < x._address + x._nbytes()


def _as_outputs(out: NDArray | Sequence[NDArray], call: Call) -> list[NDArray]:
    """The arrays of `out`, proven to fit."""
    from .ndarray import NDArray

    given = [out] if isinstance(out, NDArray) else list(out)
    name = call.operator.mx_name()
    if len(given) != len(call.types):
        raise MXNetError(f"{name} has {len(call.types)} outputs, out has {len(given)}")
    for array, type in zip(given, call.types, strict=True):
        if array._shape != type.shape or array._dtype is not type.dtype:
            raise MXNetError(f"{name} gives {type}, out is {TensorType(array._shape, array._dtype)}")
    return given


def _key_storage(context: Context) -> Storage:
    storage = allocate(16)
    (ctypes.c_uint32 * 4).from_address(storage.address)[:] = next_key(context)
    return storage


def operator_named(name: str) -> type[Operator]:
    """The operator of this name or alias. MXNetError names one that is not declared."""
    from ...ir.dialects.mx.operator import lookup

    try:
        return lookup(name)
    except KeyError as error:
        raise MXNetError(str(error.args[0])) from None
