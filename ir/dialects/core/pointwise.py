"""Primitives that compute each element independently: all scalar operations, and conversion between dtypes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...graph import Node, Value
from ...lazy_dataclass import dataclass
from ...scalar import ScalarOp, result_dtype
from ...types import DType, TensorType
from .numerics import round_bfloat16, to_integers
from .primitive import Array, Arrays, Gradients, Primitive, Types, operands, storage
from .scalar_rules import INTEGER_GRADIENTS, SCALAR_RULES, evaluate_scalar

if TYPE_CHECKING:
    from .builder import CoreBuilder


@dataclass(frozen=True)
class Pointwise(Primitive):
    """A scalar operation on operands of one shape, without broadcasting."""

    name = "core.pointwise"
    op: ScalarOp

    def infer(self, *types: TensorType) -> Types:
        dtype = result_dtype(self.op, *(t.dtype for t in types))
        first = types[-1]
        for t in types:
            if t.shape != first.shape:
                raise ValueError(
                    f"{self.op.value} requires operands of one shape, got {', '.join(str(t.shape) for t in types)}"
                )
        return (first if first.dtype is dtype and first.layout is None else TensorType(first.shape, dtype),)

    def evaluate(self, *arrays: Array) -> Arrays:
        return (evaluate_scalar(self.op, *arrays),)

    def vjp(self, b: CoreBuilder, node: Node, cotangents: Sequence[Value]) -> Gradients:
        if node.outputs[0].type.dtype.is_integer and self.op not in INTEGER_GRADIENTS:
            return [None] * len(node.inputs)
        return SCALAR_RULES[self.op].gradient(b, cotangents[0], node.outputs[0], *node.inputs)

    def vanishes(self, node: Node, zero: Sequence[bool]) -> bool:
        if self.op is ScalarOp.MUL:
            return any(zero)
        if self.op is ScalarOp.DIV:
            return zero[0]
        if self.op is ScalarOp.SELECT:
            return all(zero[1:])
        return all(zero) and not self.evaluate(*(np.zeros((), storage(v.type.dtype)) for v in node.inputs))[0]

    def expand(self, b: CoreBuilder, *operands: Value) -> Value | None:
        expansion = SCALAR_RULES[self.op].expansion
        return None if expansion is None else expansion(b, *operands)


@dataclass(frozen=True)
class Cast(Primitive):
    """Conversion to another dtype; to BOOL it is `x != 0`. `numerics.to_integers` converts floats to integers. Integers
    wrap. Float64 is rounded to float32 before it is rounded to 16 bits, as in MXNet."""

    name = "core.cast"
    dtype: DType

    def infer(self, *types: TensorType) -> Types:
        (x,) = operands(types, 1)
        return (TensorType(x.shape, self.dtype),)

    def evaluate(self, *arrays: Array) -> Arrays:
        (x,) = arrays
        if self.dtype is DType.BOOL:
            return (np.asarray(x != 0),)
        if x.dtype.kind == "f" and self.dtype.is_integer:
            return (to_integers(x, self.dtype.numpy),)
        with np.errstate(all="ignore"):
            narrow = x.astype(np.float32) if x.dtype == np.float64 and self.dtype.bits == 16 else x
            converted = narrow.astype(storage(self.dtype))
        return (round_bfloat16(converted) if self.dtype is DType.BF16 else converted,)

    def vjp(self, b: CoreBuilder, node: Node, cotangents: Sequence[Value]) -> Gradients:
        source = node.inputs[0].type.dtype
        exact = source.is_integer or self.dtype.is_float  # the derivative of rounding to an integer is 0
        kept = source.has_cotangent and self.dtype.has_cotangent and exact
        return [b.cast(cotangents[0], source) if kept else None]
