"""Structural hashes: equal for graphs, kernels or schedules with the same meaning, whatever their values are called.

The hash of a graph depends on its operations, attributes, types, constants, parameters, updates and random key; not on
locations or the names of values, nodes or graphs. The hash of a kernel ignores its name and the names of buffers, axes,
locals and extents: a cache of compiled code adds the symbol's name to the key. The hash of any other frozen dataclass
(schedule, target, program) depends on every field. Hashes are the same in every process and can be keys on disk. Only a
graph that calls Python functions has a hash of one process, valid while the functions exist.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from hashlib import blake2b
from typing import Any, cast

import numpy as np

from .graph import Graph, Op, Value
from .kernel import Affine, Axis, AxisValue, Buffer, Contract, Kernel, Load, Local, Reduce, Ref, Store, Window
from .symbolic import named_symbols
from .types import DType, TensorType

DIGEST_BYTES = 20
PROCESS = os.urandom(8).hex()
"""Identifies this process in hashes of graphs that call Python functions."""


def structural_hash(*things: object) -> str:
    """The hexadecimal digest of `things` together; TypeError for a type that has no stable content."""
    parts: list[str] = []
    for thing in things:
        parts.append(_Writer().text(thing))
    return _digest("\n".join(parts).encode(errors="surrogateescape"))


def trace_hash(*things: object) -> str:
    """`structural_hash` with symbolic numbers by name: a key that is valid within one trace."""
    with named_symbols():
        return structural_hash(*things)


def family_hash(graph: Graph) -> str:
    """The digest of a graph without the extents of its values: equal for one computation on inputs of different shapes.
    It depends on the dtypes and ranks of inputs, and on the types of parameters."""
    return _digest(_FamilyWriter().graph(graph).encode(errors="surrogateescape"))


def _digest(raw: bytes | memoryview) -> str:
    return blake2b(raw, digest_size=DIGEST_BYTES).hexdigest()


class _Writer:
    """Writes an object as text: equal text means equal structure."""

    def __init__(self) -> None:
        self.ops: dict[int, tuple[Op, str]] = {}
        self.types: dict[TensorType, str] = {}

    def text(self, thing: object) -> str:
        match thing:
            case None | bool() | int() | float() | str():
                return repr(thing)
            case bytes():
                return f"bytes {_digest(thing)}"
            case Enum():
                return f"{type(thing).__name__}.{thing.name}"
            case np.ndarray():
                return _array_text(cast("np.ndarray[Any, Any]", thing))
            case np.generic():
                return _array_text(np.asarray(cast("Any", thing)))
            case tuple():
                return f"({', '.join([self.text(item) for item in cast('tuple[object, ...]', thing)])})"
            case Graph():
                return self.graph(thing)
            case Op():
                return self.op(thing)
            case Kernel():
                return _KernelWriter(thing).text()
            case _:
                return self.fields(thing)

    def fields(self, thing: Any) -> str:
        if isinstance(thing, frozenset):
            return f"{{{', '.join(sorted(self.text(item) for item in cast('frozenset[object]', thing)))}}}"
        if not is_dataclass(thing) or isinstance(thing, type):
            raise TypeError(f"a {type(thing).__name__} has no structural hash")
        values = [f"{f.name}={self.text(getattr(thing, f.name))}" for f in fields(thing)]
        return f"{type(thing).__name__}({', '.join(values)})"

    def graph(self, graph: Graph) -> str:
        numbers: dict[Value, int] = {v: i for i, v in enumerate(graph.inputs)}
        lines = [f"graph ({self.input_list(graph)}) {sorted(graph.parameters)} {graph.updates} {graph.random}"]
        if graph.late:
            lines.append(f"late {sorted(graph.late)}")
        if graph.private:
            lines.append(f"private {sorted(graph.private)}")
        if graph.checks:
            lines.append(f"checks {[tuple(check) for check in graph.checks]}")
        for node in graph.nodes:
            operands = [numbers[v] for v in node.inputs]
            for v in node.outputs:
                numbers[v] = len(numbers)
            lines.append(f"{self.op(node.op)}{operands}{self.type_list(node.outputs)}")
        lines.append(f"return {[numbers[v] for v in graph.outputs]}")
        return "\n".join(lines)

    def op(self, op: Op) -> str:
        known = self.ops.get(id(op))
        if known is not None:
            return known[1]
        attributes = [f"{key}={self.text(value)}" for key, value in op.attributes().items()]
        function = getattr(op, "function", None)
        if function is not None:  # a host callback: its name does not identify it, and it exists only in this process
            attributes.append(f"{PROCESS} {id(function)} {id(getattr(op, 'gradient', None))}")
        regions = [f"{{{self.graph(body)}}}" for body in op.regions()]
        text = f"{op.name} {' '.join(attributes + regions)} "
        self.ops[id(op)] = (op, text)  # keeps the op alive: its id is not reused
        return text

    def input_list(self, graph: Graph) -> str:
        return self.type_list(graph.inputs)

    def type_list(self, values: Sequence[Value]) -> str:
        types = self.types
        texts: list[str] = []
        for v in values:
            text = types.get(v.type)
            if text is None:
                text = types[v.type] = str(v.type)
            texts.append(text)
        return ",".join(texts)


class _FamilyWriter(_Writer):
    """Writes a graph without the extents of its values, except those of parameters and nested graphs."""

    def __init__(self) -> None:
        super().__init__()
        self.exact = _Writer()

    def input_list(self, graph: Graph) -> str:
        kinds = [(i in graph.parameters, v.type) for i, v in enumerate(graph.inputs)]
        return ",".join([str(t) if fixed else f"{t.rank} {t.dtype.value}" for fixed, t in kinds])

    def op(self, op: Op) -> str:
        return self.exact.op(getattr(op, "unresolved", op))

    def type_list(self, values: Sequence[Value]) -> str:
        return str(len(values))


def _array_text(array: np.ndarray[Any, Any]) -> str:
    raw = np.ascontiguousarray(array)
    return f"{array.dtype.str}{array.shape}{_digest(raw.reshape(-1).view(np.uint8).data)}"


class _KernelWriter:
    """Replaces names by positions. Equal expressions become one line, so shared and copied ones have the same hash."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.extents = {name: f"e{i}" for i, name in enumerate(kernel.extents)}
        self.axes = {a.name: f"a{i}" for i, a in enumerate(kernel.axes)}
        self.buffers = {b.name: f"b{i}" for i, b in enumerate(kernel.buffers)}
        self.locals: dict[str, str] = {}
        self.lines: list[str] = []
        self.numbers: dict[str, int] = {}
        self.seen: dict[int, tuple[object, str]] = {}

    def text(self) -> str:
        heads = [self.buffer(b) for b in self.kernel.buffers] + [self.axis(a) for a in self.kernel.axes]
        stages = [self.stage(s) for s in self.kernel.stages]
        return "\n".join(["kernel", str(len(self.extents)), *heads, *self.lines, *stages])

    def buffer(self, b: Buffer) -> str:
        shape = [self.extents[n] if isinstance(n, str) else n for n in b.shape]
        strides = None if b.strides is None else [self.extents[n] if isinstance(n, str) else n for n in b.strides]
        return f"buffer {b.dtype.value} {shape} {b.layout} {strides} {b.written}"

    def axis(self, a: Axis) -> str:
        extent = self.extents[a.extent] if isinstance(a.extent, str) else a.extent
        return f"axis {extent} {a.kind.value}"

    def stage(self, stage: Store | Local) -> str:
        value = self.expr(stage.value)
        if isinstance(stage, Store):
            return f"store {self.buffers[stage.buffer]} {self.index(stage.index)} {value}"
        self.locals[stage.name] = f"l{len(self.locals)}"
        return f"local {[self.axes[a] for a in stage.axes]} {value}"

    def index(self, index: Sequence[object]) -> list[str]:
        return [self.affine(i) if isinstance(i, Affine) else self.expr(i) for i in index]

    def affine(self, index: Affine) -> str:
        return f"{[(self.axes[name], factor) for name, factor in index.terms]}+{index.offset}"

    def expr(self, expr: object) -> str:
        """The line number of the expression, as `%n`."""
        known = self.seen.get(id(expr))
        if known is not None:
            return known[1]
        line = self.expression(expr)
        number = self.numbers.setdefault(line, len(self.lines))
        if number == len(self.lines):
            self.lines.append(line)
        self.seen[id(expr)] = (expr, f"%{number}")
        return f"%{number}"

    def expression(self, expr: Any) -> str:
        match expr:
            case AxisValue(axis):
                return self.axes[axis]
            case Ref(local):
                return self.locals[local]
            case Load(buffer, index, other):
                return f"load {self.buffers[buffer]} {self.index(index)} {self.expr(other) if other else None}"
            case Reduce(op, axes, operand):
                return f"reduce {op.value} {[self.axes[a] for a in axes]} {self.expr(operand)}"
            case Contract():
                return self.contract(expr)
            case _:
                return f"{type(expr).__name__} {[self.field(getattr(expr, f.name)) for f in fields(expr)]}"

    def contract(self, node: Contract) -> str:
        windows = [self.window(w, f"w{i}") for i, w in enumerate(node.windows)]
        roles = [[self.axes[a] for a in role] for role in (node.batch, node.rows, node.columns, node.inner)]
        dtypes = f"{node.accumulator.value} {node.dtype.value}"
        return f"contract {roles} {dtypes} {windows} {self.expr(node.lhs)} {self.expr(node.rhs)}"

    def window(self, w: Window, name: str) -> str:
        self.axes[w.name] = name
        extent = self.extents[w.extent] if isinstance(w.extent, str) else w.extent
        return f"{self.axes[w.out]} {self.axes[w.tap]} {extent} {w.stride} {w.dilation} {w.low} {w.interior}"

    def field(self, value: Any) -> str:
        """A field of a Const, Cast or Scalar."""
        if isinstance(value, tuple):
            return str([self.expr(item) for item in cast("tuple[object, ...]", value)])
        if isinstance(value, DType):
            return value.value
        return value.name if isinstance(value, Enum) else repr(value) if not is_dataclass(value) else self.expr(value)
