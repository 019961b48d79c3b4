"""Calls users' operators in Python on arrays, one call at a time, and records their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..ir.graph import GraphError
from ..ir.types import DType, TensorType
from ..runtime.modes import modes
from .base import MXNetError
from .context import Context
from .ndarray import NDArray, sparse
from .ndarray.array_classes import empty_array
from .ndarray.operator_function import call_context
from .ndarray.operator_graph import refusal
from .ndarray.tape import NotTwice, Origin, entry_of, is_recorded, record, require_writable, variable_of, zeros_of
from .tracebacks import cause_of

if TYPE_CHECKING:
    from ..ir.dialects.mx.custom import Custom
    from .custom import PythonKind
    from .operator import CustomOp

Types = Sequence[TensorType]


def apply(kind: PythonKind, operator: Custom, arrays: Sequence[NDArray], out: Any, context: Context | None) -> Any:
    """Call an operator on arrays, which are passed themselves: states are changed in place. `out` receives the results.

    As in MXNet, each call creates the user's operator.
    """
    context, training, count = call_context(arrays, out, context), modes.training, len(kind.arguments)
    types = [_type_of(a) for a in arrays]
    results = _results_of(operator, types)
    stypes = _storage_types(kind, operator, arrays)
    used = kind.create(context, types)
    targets = [] if out is None else list(out) if isinstance(out, list | tuple) else [out]
    for target in targets:
        require_writable(target)
    outputs = targets or [_empty(stype, t, context) for stype, t in zip(stypes, results, strict=True)]
    passed = [_passed(a) for a in arrays]
    kind.forward(
        used,
        context,
        training,
        req=["inplace" if _is_among(a, arrays) else "write" for a in outputs],
        in_data=passed[:count],
        out_data=[_passed(a) for a in outputs],
        aux=passed[count:],
    )
    if is_recorded(arrays[:count]):
        wrt = [i for i, a in enumerate(arrays[:count]) if entry_of(a) is not None and types[i].dtype.has_cotangent]
        record(arrays, wrt, _Pullback(kind, operator, used, arrays, outputs, wrt), outputs)
    if out is not None:
        return out
    return outputs[0] if len(outputs) == 1 else outputs


class _Pullback:
    """The gradient of a call by the arguments at `wrt`."""

    def __init__(
        self,
        kind: PythonKind,
        operator: Custom,
        used: CustomOp,
        arrays: Sequence[NDArray],
        results: Sequence[NDArray],
        wrt: Sequence[int],
    ) -> None:
        self.kind, self.operator, self.used, self.wrt = kind, operator, used, wrt
        self.arrays, self.results = arrays, [_passed(a) for a in results]
        self.training = modes.training
        self.requests = [_request(a) if i in wrt else "null" for i, a in enumerate(arrays[: len(kind.arguments)])]

    def __call__(self, cotangents: list[NDArray | None], differentiable: bool) -> Sequence[NDArray | None]:
        kind, count, context = self.kind, len(self.kind.arguments), self.arrays[0]._context
        grads, arguments, results = kind.reads
        passed = [_passed(a) for a in self.arrays]
        seeds = [
            zeros_of(_type_of(r), context) if c is None else c for c, r in zip(cotangents, self.results, strict=True)
        ]
        types = [_type_of(a) for a in self.arrays[:count]]
        gradients_of_inputs = [
            _zeros(stype, t, context) for stype, t in zip(self._gradient_stypes(seeds), types, strict=True)
        ]
        kind.backward(
            self.used,
            context,
            self.training,
            req=self.requests,
            out_grad=_read(seeds, grads, context),
            in_data=_read(passed[:count], arguments, context),
            out_data=_read(self.results, results, context),
            in_grad=gradients_of_inputs,
            aux=passed[count:],
        )
        gradients = [gradients_of_inputs[i] for i in self.wrt]
        if differentiable:
            record(self.arrays, self.wrt, NotTwice(), gradients)
        return gradients

    def _gradient_stypes(self, seeds: Sequence[NDArray]) -> list[str]:
        """The storage types of the gradients, from the property's `infer_storage_type_backward`."""
        count = len(self.kind.arguments)
        before = [a.stype for a in seeds], [a.stype for a in self.arrays[:count]], [r.stype for r in self.results]
        states = [a.stype for a in self.arrays[count:]]
        inferred_stypes = self.kind.invoke(
            self.kind.prop.infer_storage_type_backward, *map(list, before), ["undefined"] * count, states
        )
        for provided, inferred in zip(before, inferred_stypes, strict=False):
            _check_storage(provided, inferred)
        return list(inferred_stypes[3])

    def reads_cotangent(self, position: int) -> bool:
        """Whether the gradient depends on the cotangent of a result."""
        return position in self.kind.reads[0]

    def origin(self) -> Origin:
        return Origin(self.operator, self.arrays, self.wrt)


def _request(array: NDArray) -> str:
    variable = variable_of(array)
    return "add" if variable is not None and variable.req == "add" else "write"


def _results_of(operator: Custom, types: Types) -> Sequence[TensorType]:
    names = operator.input_names()
    if len(names) != len(types):
        raise MXNetError(
            f"Custom takes {len(names)} array{'s' * (len(names) != 1)} ({', '.join(names)}), got {len(types)}"
        )
    try:
        return operator.result_types(types)
    except (TypeError, ValueError, GraphError) as error:
        raise MXNetError(refusal(operator, types, error)) from cause_of(error)


def _storage_types(kind: PythonKind, operator: Custom, arrays: Sequence[NDArray]) -> list[str]:
    """The storage types of the results. MXNetError if the operands have others than the property infers."""
    count = len(kind.arguments)
    arguments, results, states = kind.storage_types([a.stype for a in arrays[:count]])
    _check_storage([a.stype for a in arrays], [*arguments, *states])
    return results


def _check_storage(stypes: Sequence[str], inferred: Sequence[str]) -> None:
    for provided, expected in zip(stypes, inferred, strict=False):
        if provided != expected:
            raise MXNetError(f"Storage type inconsistent, Provided = {provided}, inferred storage type = {expected}")


def unread(context: Context) -> Any:
    """What a method gets for an array that `declare_backward_dependency` leaves out."""
    return zeros_of(TensorType((), DType.F32), context)


def _read(arrays: Sequence[NDArray], positions: Sequence[int], context: Context) -> list[NDArray]:
    """The arrays at the positions; others are not read."""
    return [a if i in positions else unread(context) for i, a in enumerate(arrays)]


def _type_of(array: NDArray) -> TensorType:
    if array._is_sparse:
        return TensorType(array.shape, DType.from_numpy(array.dtype))
    return array._type()


def _passed(array: NDArray) -> NDArray:
    """The array as a method gets it: the same memory, and not on the tape. Sparse arrays are passed themselves."""
    return array if array._is_sparse else array.detach()


def _is_among(result: NDArray, arrays: Sequence[NDArray]) -> bool:
    if result._is_sparse:
        return any(a is result for a in arrays)
    return any(not a._is_sparse and a._storage is result._storage for a in arrays)


def _empty(stype: str, type: TensorType, context: Context) -> NDArray:
    if stype == "default":
        return empty_array(type.shape, type.dtype, context)
    return sparse.zeros(stype, type.shape, context, type.dtype.numpy)


def _zeros(stype: str, type: TensorType, context: Context) -> NDArray:
    return zeros_of(type, context) if stype == "default" else _empty(stype, type, context)
