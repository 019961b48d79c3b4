"""Which operators mixed precision computes in which dtype."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

from ....ir.types import DType
from ...dtypes import dtype_name, dtype_of, numpy_type
from .lists import symbol_bf16, symbol_fp16

if TYPE_CHECKING:
    from ....ir.dialects.mx.operator import Operator

Conditions = Iterable[tuple[str, str, Sequence[str]]]
"""Operators that are computed in float32 if a parameter has one of the values: (operator, parameter, values)."""


class Precision(Enum):
    """The dtype in which an operator computes."""

    LOW = "the 16-bit dtype"
    FULL = "float32"
    WIDEST = "the widest dtype of its inputs"
    OWN = "the dtype of its inputs"


class Defaults:
    """MXNet's lists of operators for a 16-bit dtype."""

    def __init__(self, target: DType) -> None:
        half = target is DType.F16
        lists: Any = symbol_fp16 if half else symbol_bf16
        self.low: list[str] = lists.FP16_FUNCS if half else lists.BF16_FUNCS
        self.own: list[str] = lists.FP16_FP32_FUNCS if half else lists.BF16_FP32_FUNCS
        self.full: list[str] = lists.FP32_FUNCS
        self.widest: list[str] = lists.WIDEST_TYPE_CASTS
        self.losses: list[str] = lists.LOSS_OUTPUT_FUNCTIONS
        self.conditional: list[tuple[str, str, list[str]]] = lists.CONDITIONAL_FP32_FUNCS
        self.full_inputs: dict[str, list[str]] | None = None if half else lists.BF16_USE_FP32_PARAMS


def target_of(dtype: Any, text: str) -> DType:
    """The 16-bit dtype that a user asks for. AssertionError with `text` for another."""
    try:
        target = dtype_of(dtype)
    except TypeError:
        target = None
    if target is not DType.F16 and target is not DType.BF16:
        raise AssertionError(text)
    return target


class Rules:
    """The precision of each operator: MXNet's lists for the 16-bit dtype `target`, with the given lists instead."""

    def __init__(
        self,
        target: DType,
        low: Iterable[str] | None = None,
        full: Iterable[str] | None = None,
        conditional: Conditions | None = None,
    ) -> None:
        defaults = Defaults(target)
        self.target = target
        self.name = dtype_name(numpy_type(target))
        self.losses = frozenset(defaults.losses)
        self._full_inputs = defaults.full_inputs or {}
        self._listed = {
            **dict.fromkeys(defaults.widest, Precision.WIDEST),
            **dict.fromkeys(defaults.low if low is None else low, Precision.LOW),
            **dict.fromkeys(defaults.full if full is None else full, Precision.FULL),
        }
        self._conditions: dict[str, list[tuple[str, Sequence[str]]]] = {}
        for name, parameter, values in defaults.conditional if conditional is None else conditional:
            self._conditions.setdefault(name, []).append((parameter, values))
        self._found: dict[type[Operator], Precision] = {}

    def precision(self, operator: type[Operator], parameters: Mapping[str, Any]) -> Precision:
        """The precision of an operator with these parameters."""
        known = self._found.get(operator)
        if known is None:
            known = self._found[operator] = self._find(operator)
        if known is Precision.OWN and any(name in self._conditions for name in _names(operator)):
            conditions = (c for name in _names(operator) for c in self._conditions.get(name, ()))
            if any(str(parameters.get(parameter)) in values for parameter, values in conditions):
                return Precision.FULL
        return known

    def is_listed(self, operator: type[Operator]) -> bool:
        """True unless the precision of the operator is its own, or depends on its parameters."""
        return self._find(operator) is not Precision.OWN

    def _find(self, operator: type[Operator]) -> Precision:
        """The precision of the first name of the operator that is listed."""
        return next((self._listed[name] for name in _names(operator) if name in self._listed), Precision.OWN)

    def dtype(self, precision: Precision) -> str | None:
        """The name of the dtype to which inputs are cast; None if it depends on them."""
        return {Precision.LOW: self.name, Precision.FULL: "float32"}.get(precision)

    def keeps_input(self, operator: type[Operator], precision: Precision, position: int) -> bool:
        """True for an input that is never cast: a state that the operator updates, or one whose dtype is apart from
        that of the data."""
        declared = operator.inputs[min(position, len(operator.inputs) - 1)]
        if "!" in declared or precision is not Precision.LOW:
            return "!" in declared
        names = self._full_inputs.get(operator.mx_name(), ())
        return declared.rstrip("?*") in operator.own_dtypes or (position < len(names) and bool(names[position]))


def _names(operator: type[Operator]) -> list[str]:
    """The names of an operator, its canonical name first. Other names of sparse operators are not listed alike."""
    second = (name for name in operator.aliases if not name.startswith("_sparse_") and name != "_add")
    return [operator.mx_name(), *second]


def require_known(names: Iterable[str]) -> None:
    """AttributeError for a name that is not an operator of MXNet."""
    from ....ir.dialects.mx.operator import find

    listed = {*symbol_fp16.FP32_FUNCS, *symbol_fp16.FP16_FP32_FUNCS, *symbol_fp16.WIDEST_TYPE_CASTS}
    for name in names:
        if name not in listed and find(name) is None:
            raise AttributeError(f"automatic mixed precision: {name!r} is not the name of an operator")
