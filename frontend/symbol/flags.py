"""The flags of compiled functions, as `hybridize` and `CachedOp` take them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Any

from ...ir.lazy_dataclass import dataclass
from ...ir.precision import PRECISIONS, default_precision
from ...ir.types import DType
from ..base import MXNetError

_BOOLEANS = {"1": True, "0": False, "true": True, "false": False}


@dataclass(frozen=True)
class FunctionFlags:
    """`static_alloc`: the memory of compiled programs is not evicted while the function exists. `static_shape`: every
    signature is specialised; without it, only the first one is, and later ones run kernels for dynamic shapes.
    `recompute` bounds the bytes that a recorded call keeps for its gradient, besides operands and results: cheap
    operators are computed again instead (mxforge only; see `residual_bytes`). `weights` is the dtype to which
    predictions round weights, and in which compiled programs store them (mxforge only; see `Options`). `precision` is
    the mode of float32 products on GPUs (mxforge only; "": that of the environment). If `is_bound`, all runs share the
    users' operators in Python, as in executors.
    """

    static_alloc: bool = False
    static_shape: bool = False
    recompute: int | None = None
    weights: DType = DType.F32
    precision: str = ""
    is_bound: bool = False

    @property
    def mode_of_products(self) -> str:
        """`precision`, or that of the environment."""
        return self.precision or default_precision()

    @property
    def residual_bytes(self) -> int | None:
        """The bound on what recorded calls keep; MXNET_BACKWARD_DO_MIRROR=1 keeps as little as possible."""
        if self.recompute is None and os.environ.get("MXNET_BACKWARD_DO_MIRROR", "0") not in ("", "0"):
            return 0
        return self.recompute

    def __post_init__(self) -> None:
        if self.static_shape and not self.static_alloc:
            raise MXNetError("static_alloc must be True when static_shape is True")


def _boolean(value: str) -> bool:
    return _BOOLEANS[value.lower()]


def _count(value: str) -> int:
    count = int(value)
    if count < 0:
        raise ValueError(value)
    return count


def _precision(value: str) -> str:
    if value not in PRECISIONS:
        raise ValueError(value)
    return value


def _weights(value: str) -> DType:
    return _WEIGHTS[value]


_WEIGHTS = {"float32": DType.F32, "bfloat16": DType.BF16}
_KINDS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "static_alloc": ("boolean", _boolean),
    "static_shape": ("boolean", _boolean),
    "inline_limit": ("int (non-negative)", int),
    "forward_bulk_size": ("int (non-negative)", int),
    "backward_bulk_size": ("int (non-negative)", int),
    "data_indices": ("tuple of int", str),
    "param_indices": ("tuple of int", str),
    "subgraph": ("string", str),
    "is_dynamic": ("boolean", _boolean),
    "recompute": ("int (non-negative)", _count),
    "weights": ("'float32' or 'bfloat16'", _weights),
    "precision": (" or ".join(map(repr, PRECISIONS)), _precision),
}
"""All flags of MXNet's CachedOp, `recompute`, `weights` and `precision`. Those that are not in FunctionFlags tune
MXNet's engine and have no effect."""


def parse_flags(flags: Iterable[tuple[str, Any]]) -> FunctionFlags:
    """The flags from pairs (name, value). MXNetError names a flag that MXNet does not have, or an invalid value."""
    values: dict[str, Any] = {}
    for name, value in flags:
        if name not in _KINDS:
            raise MXNetError(f"Cannot find argument '{name}', Possible Arguments: {', '.join(_KINDS)}")
        type_text, parse = _KINDS[name]
        try:
            values[name] = parse(str(value))
        except (KeyError, ValueError):
            raise MXNetError(f"Invalid Parameter format for {name} expect {type_text} but value='{value}'") from None
    return FunctionFlags(**{f.name: values[f.name] for f in fields(FunctionFlags) if f.name in values})
