"""Writes functions in MLIR's generic form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ...ir.attributes import MAX_LISTED, dense_text
from ...ir.dialects.core.primitive import Array
from ...ir.symbolic import is_symbolic
from ...ir.types import DType, TensorType


class Val(NamedTuple):
    """A value of the text."""

    name: str
    type: TensorType


class NoForm(Exception):
    """StableHLO has no form for an operation. The message is the reason."""


Body = Callable[..., Sequence[Val]]
"""What computes the results of a region from its arguments."""


class Writer:
    """The operations of one function, as pieces of text. A new operation gets the location `where`, in the form
    ` loc(...)`."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.where = ""
        self._values = 0
        self._indent = "    "

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
        signature = f"({types_text(v.type for v in operands)}) -> ({types_text(types)})"
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
        result = self.new(TensorType(value.shape, dtype))
        self.pieces.append(f'{self._indent}{result.name} = "stablehlo.constant"() {{value = ')
        self.pieces += _dense(value, result.type)  # of its own: elements can be most of the text
        self.pieces.append(f"}} : () -> ({type_text(result.type)}){self.where}\n")
        return result

    def _region(self, arguments: Sequence[TensorType], body: Body) -> None:
        values = [self.new(t) for t in arguments]
        declared = ", ".join(f"{v.name}: {type_text(v.type)}" for v in values)
        self._line(f"^bb0({declared}):" if declared else "^bb0:")
        around, self._indent = self._indent, f"{self._indent}  "
        results = body(*values)
        names = ", ".join(v.name for v in results)
        self._line(f'"stablehlo.return"({names}) : ({types_text(v.type for v in results)}) -> ()')
        self._indent = around

    def _line(self, text: str) -> None:
        self.pieces.append(f"{self._indent}{text}\n")


def type_text(type: TensorType) -> str:
    """The type, with `?` for symbolic extents."""
    dims = "".join(["?x" if is_symbolic(n) else f"{n}x" for n in type.shape])
    return f"tensor<{dims}{type.dtype.value}>"


def types_text(types: Iterable[TensorType]) -> str:
    """Types, separated by commas."""
    return ", ".join(map(type_text, types))


def integers(values: Sequence[int]) -> str:
    """An array attribute of 64-bit integers. NoForm if one is symbolic: attributes are constants."""
    _check(values)
    return f"array<i64: {', '.join(map(str, values))}>" if len(values) else "array<i64>"


def pairs(values: Sequence[tuple[int, int]]) -> str:
    """A tensor attribute of pairs. NoForm if a number is symbolic."""
    _check([n for pair in values for n in pair])
    listed = ", ".join(f"[{a}, {b}]" for a, b in values)
    return f"dense<[{listed}]> : tensor<{len(values)}x2xi64>" if listed else "dense<> : tensor<0x2xi64>"


def _check(values: Sequence[int]) -> None:
    if any(map(is_symbolic, values)):
        raise NoForm("StableHLO has no form in which this size, window or padding is not a constant")


def _dense(value: Array, type: TensorType) -> Sequence[str]:
    """Pieces of the text of a constant's elements."""
    if type.dtype is DType.BF16:
        raw = (np.ascontiguousarray(value, np.float32).view(np.uint32) >> 16).astype("<u2")
    elif value.size <= MAX_LISTED or type.dtype is DType.BOOL or (value == value.flat[0]).all():
        return (dense_text(value),)
    else:
        raw = np.ascontiguousarray(value, type.dtype.numpy.newbyteorder("<"))
    return ('dense<"0x', raw.tobytes().hex(), f'"> : {type}') if raw.size else (f"dense<> : {type}",)
