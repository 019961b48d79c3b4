"""Text of StableHLO. Operations on symbolic extents take their dynamic forms, whose sizes are operands."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np

from ...ir.symbolic import Symbol, is_symbolic
from ...ir.types import DType, TensorType
from .writer import Body, NoForm, Val, Writer, integers

_NUMBER = TensorType((), DType.I64)
_QUOTIENTS = {"//": "divide", "%": "remainder"}


class Text(Writer):
    """A function of StableHLO. `sizes` has the known values of symbolic numbers (`ir/symbolic.py`) by name."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: dict[str, Val] = {}

    # -- operations

    def fill(self, value: float | bool, type: TensorType) -> Val:
        """A tensor with one value everywhere."""
        element = np.float32 if type.dtype is DType.BF16 else type.dtype.numpy
        scalar = self.constant(np.asarray(value, element), type.dtype)
        return self.broadcast(scalar, type, ()) if type.shape else scalar

    def broadcast(self, x: Val, type: TensorType, axes: Sequence[int]) -> Val:
        """See `core.broadcast`."""
        return self._shaped("broadcast_in_dim", (x,), type, {"broadcast_dimensions": integers(axes)})

    def reshape(self, x: Val, type: TensorType) -> Val:
        """See `core.reshape`."""
        return self._shaped("reshape", (x,), type, {})

    def iota(self, type: TensorType, axis: int) -> Val:
        """See `core.iota`."""
        return self._shaped("iota", (), type, {"iota_dimension": f"{axis} : i64"})

    def slice(
        self, x: Val, type: TensorType, start: Sequence[int], stop: Sequence[int], step: Sequence[int] = ()
    ) -> Val:
        """See `core.slice`; without `step` neighbouring elements."""
        step = step or [1] * len(start)
        if _is_dynamic((*start, *stop, *step)):
            bounds = [self.numbers(v) for v in (start, stop, step)]
            return self.one("stablehlo.real_dynamic_slice", (x, *bounds), type)
        bounds = {"start_indices": start, "limit_indices": stop, "strides": step}
        return self.one("stablehlo.slice", (x,), type, {name: integers(v) for name, v in bounds.items()})

    def pad(self, x: Val, value: Val, type: TensorType, edges: Sequence[Sequence[int]]) -> Val:
        """See `core.pad`; `edges` are `low`, `high` and `interior`."""
        if _is_dynamic([n for edge in edges for n in edge]):
            return self.one("stablehlo.dynamic_pad", (x, value, *map(self.numbers, edges)), type)
        names = ("edge_padding_low", "edge_padding_high", "interior_padding")
        listed = {name: integers(edge) for name, edge in zip(names, edges, strict=True)}
        return self.one("stablehlo.pad", (x, value), type, listed)

    def convert(self, x: Val, dtype: DType) -> Val:
        """Another dtype, if it is another one."""
        return x if x.type.dtype is dtype else self.one("stablehlo.convert", (x,), TensorType(x.type.shape, dtype))

    def compare(self, direction: str, x: Val, y: Val) -> Val:
        """A comparison: EQ, NE, LT, LE, GT or GE."""
        attributes = {"comparison_direction": f"#stablehlo<comparison_direction {direction}>"}
        return self.one("stablehlo.compare", (x, y), TensorType(x.type.shape, DType.BOOL), attributes)

    def select(self, condition: Val, x: Val, y: Val) -> Val:
        """x where the condition is true, else y."""
        return self.one("stablehlo.select", (condition, x, y), x.type)

    def _shaped(self, name: str, operands: Sequence[Val], type: TensorType, attributes: dict[str, str]) -> Val:
        """An operation whose dynamic form takes the shape of the result as the last operand."""
        if not _is_dynamic(type.shape):
            return self.one(f"stablehlo.{name}", operands, type, attributes)
        return self.one(f"stablehlo.dynamic_{name}", (*operands, self.numbers(type.shape)), type, attributes)

    # -- symbolic numbers

    def name_sizes(self, x: Val) -> None:
        """Read the symbolic extents of an argument that are not known yet."""
        for axis, n in enumerate(x.type.shape):
            if isinstance(n, Symbol) and n.name not in self.sizes:
                dimension = {"dimension": f"{axis} : i64"}
                size = self.one("stablehlo.get_dimension_size", (x,), TensorType((), DType.I32), dimension)
                self.sizes[n.name] = self.convert(size, DType.I64)

    def number(self, n: int) -> Val:
        """A scalar: a constant, or computed from the sizes of arguments."""
        if not isinstance(n, Symbol):
            return self.constant(np.asarray(n, np.int64), DType.I64)
        if n.name not in self.sizes:
            self.sizes[n.name] = self._computed(n)
        return self.sizes[n.name]

    def numbers(self, values: Sequence[int]) -> Val:
        """A vector of numbers."""
        parts: list[Val] = []
        for dynamic, group in groupby(values, is_symbolic):
            if dynamic:
                parts += [self.one("stablehlo.reshape", (self.number(n),), TensorType((1,), DType.I64)) for n in group]
            else:
                parts.append(self.constant(np.array(list(group), np.int64), DType.I64))
        if len(parts) == 1:
            return parts[0]
        return self.one("stablehlo.concatenate", parts, TensorType((len(values),), DType.I64), {"dimension": "0 : i64"})

    def _computed(self, n: Symbol) -> Val:
        if n.polynomial.keys() == {(n.name,)}:
            return self._quotient(n)
        terms = [self._term(factors, coefficient, n) for factors, coefficient in n.polynomial.items()]
        total = terms[0]
        for term in terms[1:]:
            total = self.one("stablehlo.add", (total, term), _NUMBER)
        return total

    def _term(self, factors: Sequence[str], coefficient: int, n: Symbol) -> Val:
        numbers = [self.number(n.trace.named(name)) for name in factors]
        if coefficient != 1 or not numbers:
            numbers.append(self.number(coefficient))
        product = numbers[0]
        for number in numbers[1:]:
            product = self.one("stablehlo.multiply", (product, number), _NUMBER)
        return product

    def _quotient(self, n: Symbol) -> Val:
        """A quotient, rounded down, or its remainder."""
        operation, operands = n.trace.definition(n)
        if operation not in _QUOTIENTS:
            raise NoForm(f"StableHLO cannot compute the extent {operation}")
        a, b = map(self.number, operands)
        result, rest = (self.one(f"stablehlo.{name}", (a, b), _NUMBER) for name in (_QUOTIENTS[operation], "remainder"))
        correction = b if operation == "%" else self.number(-1)
        below = self.compare("LT", rest, self.number(0))
        return self.select(below, self.one("stablehlo.add", (result, correction), _NUMBER), result)

    def _region(self, arguments: Sequence[TensorType], body: Body) -> None:
        """Numbers that are computed in a region are known only there."""
        outside = self.sizes.copy()
        super()._region(arguments, body)
        self.sizes = outside


def _is_dynamic(values: Sequence[int]) -> bool:
    return any(map(is_symbolic, values))
