"""Text of StableHLO in MLIR's generic form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ...ir.attributes import dense_text
from ...ir.dialects.core.primitive import Array
from ...ir.types import DType, TensorType


class Val(NamedTuple):
    """A value of the text."""

    name: str
    type: TensorType


Body = Callable[..., Sequence[Val]]
"""What computes the results of a region from its arguments."""


class Text:
    """The lines of one function. A new operation gets the location `where`, in the form ` loc(...)`."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.where = ""
        self._values = 0
        self._depth = 2

    def new(self, type: TensorType) -> Val:
        """A name that no value has."""
        self._values += 1
        return Val(f"%{self._values}", type)

    def op(
        self,
        name: str,
        operands: Sequence[Val],
        types: Sequence[TensorType],
        attributes: Mapping[str, str] | None = None,
        regions: Sequence[tuple[Sequence[TensorType], Body]] = (),
    ) -> tuple[Val, ...]:
        """Add an operation; returns its results. A region is the types of its arguments and its body."""
        results = tuple([self.new(t) for t in types])
        defined = ", ".join(v.name for v in results)
        head = f"{defined} = " if defined else ""
        head += f'"{name}"({", ".join(v.name for v in operands)})'
        written = "".join(f"{key} = {value}, " for key, value in (attributes or {}).items())
        signature = f"({_types(v.type for v in operands)}) -> ({_types(types)})"
        tail = f"{f' {{{written[:-2]}}}' if written else ''} : {signature}{self.where}"
        if not regions:
            self._line(head + tail)
            return results
        self._line(f"{head} ({{")
        for number, (arguments, body) in enumerate(regions):
            if number:
                self._line("}, {")
            self._region(arguments, body)
        self._line(f"}}){tail}")
        return results

    def one(
        self, name: str, operands: Sequence[Val], type: TensorType, attributes: Mapping[str, str] | None = None
    ) -> Val:
        """`op` with one result and no regions."""
        return self.op(name, operands, (type,), attributes)[0]

    def constant(self, value: Array, dtype: DType) -> Val:
        """A constant; that of BF16 is float32."""
        type = TensorType(value.shape, dtype)
        return self.one("stablehlo.constant", (), type, {"value": _dense(value, type)})

    def fill(self, value: float | bool, type: TensorType) -> Val:
        """A tensor with one value everywhere."""
        element = np.float32 if type.dtype is DType.BF16 else type.dtype.numpy
        scalar = self.constant(np.asarray(value, element), type.dtype)
        return self.broadcast(scalar, type, ()) if type.shape else scalar

    def broadcast(self, x: Val, type: TensorType, axes: Sequence[int]) -> Val:
        """See `core.broadcast`."""
        return self.one("stablehlo.broadcast_in_dim", (x,), type, {"broadcast_dimensions": integers(axes)})

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

    def _region(self, arguments: Sequence[TensorType], body: Body) -> None:
        values = [self.new(t) for t in arguments]
        declared = ", ".join(f"{v.name}: {v.type}" for v in values)
        self._line(f"^bb0({declared}):" if declared else "^bb0:")
        self._depth += 1
        results = body(*values)
        names = ", ".join(v.name for v in results)
        self._line(f'"stablehlo.return"({names}) : ({_types(v.type for v in results)}) -> ()')
        self._depth -= 1

    def _line(self, text: str) -> None:
        self.lines.append(f"{'  ' * self._depth}{text}")


def _types(types: Iterable[TensorType]) -> str:
    return ", ".join(map(str, types))


def integers(values: Sequence[int]) -> str:
    """An array attribute of 64-bit integers."""
    return f"array<i64: {', '.join(map(str, values))}>" if len(values) else "array<i64>"


def pairs(values: Sequence[tuple[int, int]]) -> str:
    """A tensor attribute of pairs."""
    listed = ", ".join(f"[{a}, {b}]" for a, b in values)
    return f"dense<[{listed}]> : tensor<{len(values)}x2xi64>" if listed else "dense<> : tensor<0x2xi64>"


def _dense(value: Array, type: TensorType) -> str:
    if type.dtype is not DType.BF16:
        return dense_text(value)
    words = (np.ascontiguousarray(value, np.float32).view(np.uint32) >> 16).astype("<u2")
    return f'dense<"0x{words.tobytes().hex().upper()}"> : {type}' if words.size else f"dense<> : {type}"
