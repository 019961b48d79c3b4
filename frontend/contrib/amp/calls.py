"""Casts the operands of operators that are called, on arrays and on symbols."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ....ir.dialects.mx.cast_ops import MIXED
from ....ir.types import DType
from ... import symbol
from ...ndarray import NDArray
from ...ndarray.eager import invoke, operator_named
from ...symbol import Symbol
from ...symbol.node import Entry
from .rules import Precision, Rules

if TYPE_CHECKING:
    from ....ir.dialects.mx.operator import Operator
    from .loss_scaler import LossScaler

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


class CallCasts:
    """Casts by `rules`, and the scale of losses by `scaler`."""

    def __init__(self, rules: Rules, scaler: LossScaler) -> None:
        self.rules = rules
        self.scaler = scaler

    def arrays(
        self, operator: type[Operator], arrays: Sequence[NDArray], params: dict[str, Any]
    ) -> tuple[Sequence[NDArray], dict[str, Any]]:
        """The operands and parameters with which an operator is called instead. Arrays of other dtypes than float32 and
        16-bit floats are unchanged."""
        precision = self.rules.precision(operator, params)
        if operator.mx_name() in self.rules.losses:
            params = {**params, "grad_scale": float(params.get("grad_scale", 1)) * self.scaler.loss_scale}
        if precision is Precision.OWN:
            return arrays, params
        dtype = self.rules.dtype(precision)
        if dtype is None:
            wide = any(a._dtype is DType.F32 for a in arrays)
            return [cast_array(a, "float32") if wide and a._dtype is self.rules.target else a for a in arrays], params
        kept = self.rules.keeps_input
        return [a if kept(operator, precision, i) else cast_array(a, dtype) for i, a in enumerate(arrays)], params

    def symbols(
        self, operator: type[Operator], create: Callable[..., Symbol], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Symbol:
        """The symbol of an operator, with casts of its inputs."""
        if operator.mx_name() in self.rules.losses:
            logging.warning(
                "%s does not support dynamic loss scaling in symbolic and hybridized execution.", create.__name__
            )
        precision = self.rules.precision(operator, kwargs)
        if precision is Precision.WIDEST:
            args, kwargs = _multicast(args, kwargs)
        created = create(*args, **kwargs)
        dtype = self.rules.dtype(precision)
        if dtype is not None:
            self._cast_inputs(created, operator, precision, dtype)
        return created

    def _cast_inputs(self, created: Symbol, operator: type[Operator], precision: Precision, dtype: str) -> None:
        node = created._entries[0].node
        for i, entry in enumerate(node.inputs):
            if not self.rules.keeps_input(operator, precision, i):
                cast: Any = symbol.amp_cast(Symbol([entry]), dtype=dtype)  # type: ignore[attr-defined]
                node.inputs[i] = Entry(cast._entries[0].node)


def cast_array(array: NDArray, dtype: str) -> NDArray:
    """An array of float32 or 16-bit floats, cast; others unchanged."""
    if array._dtype not in MIXED or array._dtype is DType.from_numpy(dtype):
        return array
    return invoke(operator_named("amp_cast"), [array], {"dtype": dtype})


def _multicast(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
    """The arguments of a call with all symbols cast to their widest dtype."""
    symbols = [*(a for a in args if isinstance(a, Symbol)), *(v for v in kwargs.values() if isinstance(v, Symbol))]
    cast: Any = iter(symbol.amp_multicast(*symbols, num_outputs=len(symbols)))  # type: ignore[attr-defined]

    def moved(value: Any) -> Any:
        return next(cast) if isinstance(value, Symbol) else value

    return tuple(moved(a) for a in args), {key: moved(value) for key, value in kwargs.items()}
