"""Exports graphs of `core` as StableHLO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...ir.attributes import quote
from ...ir.dialects.core import (
    ArgReduce,
    Call,
    Cond,
    CoreBuilder,
    Fused,
    HostCallback,
    Primitive,
    Scan,
    While,
)
from ...ir.dialects.core.primitive import Array
from ...ir.graph import Graph, GraphError, Node, Value
from ...ir.printer import location_text
from ...ir.types import DType, TensorType
from .rules import RULES
from .text import Body, Text, Val, integers

CONTROL = (ArgReduce, Call, Cond, Fused, Scan, While)
"""Primitives that are expanded, or whose nested graphs become regions."""

REFUSED = (HostCallback,)
"""Primitives that exist only in this process."""


NAME = "mxforge.name"
"""The attribute of an argument or a result of `main` that holds its name."""


def stablehlo_text(
    graph: Graph, constants: Mapping[int, Array] | None = None, results: Sequence[str] | None = None
) -> str:
    """The StableHLO module of a graph of core, whose function is `main`. Names and lines of nodes are locations. Inputs
    at the positions of `constants` (those of BF16 are float32) are constants; the others are arguments, in order.
    Arguments, and results if their names are given, have an attribute `mxforge.name`.

    GraphError names a node that cannot be exported.
    """
    text, known = Text(), constants or {}
    operands: list[Val] = []
    arguments: list[str] = []
    for i, value in enumerate(graph.inputs):
        if i in known:
            text.where = location_text(value.name, "")
            operands.append(text.constant(known[i], value.type.dtype))
        else:
            operands.append(Val(f"%arg{len(arguments)}", value.type.with_layout(None)))
            argument = f"{operands[-1].name}: {operands[-1].type}{_named(value.name)}"
            arguments.append(f"{argument}{location_text(value.name, '')}")
    text.where = ""
    returned = _Exporter(text).inline(graph, operands)
    declared = ", ".join(arguments)
    types = [str(r.type) for r in returned]
    named = ", ".join(map("".join, zip(types, map(_named, results), strict=True)) if results else types)
    body = "\n".join(text.lines)
    names = ", ".join(r.name for r in returned)
    return (
        f"module @{quote(graph.name)} {{\n  func.func @main({declared}) -> ({named}) {{\n{body}\n"
        f'    "func.return"({names}) : ({", ".join(types)}) -> ()\n  }}\n}}\n'
    )


def _named(name: str) -> str:
    """The attributes of an argument or a result with a name."""
    return f" {{{NAME} = {quote(name)}}}" if name else ""


class _Exporter:
    """Adds the operations of graphs to a text."""

    def __init__(self, text: Text) -> None:
        self.text = text

    def inline(self, graph: Graph, operands: Sequence[Val]) -> list[Val]:
        """The results of a graph on operands."""
        values: dict[Value, Val] = dict(zip(graph.inputs, operands, strict=True))
        around = self.text.where
        for node in graph.nodes:
            self.text.where = location_text(node.name, node.location) or around
            results = self.node(node, [values[v] for v in node.inputs])
            values.update(zip(node.outputs, results, strict=True))
        self.text.where = around
        return [values[v] for v in graph.outputs]

    def node(self, node: Node, operands: Sequence[Val]) -> Sequence[Val]:
        """The results of a node."""
        op, types = node.op, [v.type.with_layout(None) for v in node.outputs]
        match op:
            case Fused() | Call():
                return self.inline(op.body, operands)
            case ArgReduce():
                return self.inline(_expanded(op, [v.type for v in node.inputs]), operands)
            case Cond():
                return self._cond(op, types, operands)
            case While():
                return self._while(op, types, operands)
            case Scan():
                return self._scan(op, types, operands)
            case Primitive() if (rule := RULES.get(type(op))) is not None:
                return rule(self.text, op, types, *operands)
            case _:
                raise GraphError(f"{node.describe()}: {op.name} has no form in StableHLO")

    def _cond(self, op: Cond, types: Sequence[TensorType], operands: Sequence[Val]) -> Sequence[Val]:
        pred, *rest = operands
        regions = [((), lambda graph=graph: self.inline(graph, rest)) for graph in (op.then, op.otherwise)]
        return self.text.op("stablehlo.if", (pred,), types, regions=regions)

    def _while(self, op: While, types: Sequence[TensorType], operands: Sequence[Val]) -> Sequence[Val]:
        regions = [(types, self._body(graph)) for graph in (op.cond, op.body)]
        return self.text.op("stablehlo.while", operands, types, regions=regions)

    def _body(self, graph: Graph) -> Body:
        def body(*arguments: Val) -> Sequence[Val]:
            return self.inline(graph, arguments)

        return body

    def _scan(self, op: Scan, types: Sequence[TensorType], operands: Sequence[Val]) -> Sequence[Val]:
        """A loop with a counter, the carries and the stacked results, whose rows are written one by one."""
        t, first, last = self.text, op.carries, op.carries + op.scanned
        number = TensorType((), DType.I64)
        stacks = [t.fill(0, type) for type in types[first:]]
        state = [t.fill(0, number), *operands[:first], *stacks]

        def more(step: Val, *rest: Val) -> Sequence[Val]:
            return [t.compare("LT", step, t.fill(op.length, number))]

        def body(step: Val, *rest: Val) -> Sequence[Val]:
            at = t.one("stablehlo.subtract", (t.fill(op.length - 1, number), step), number) if op.reverse else step
            rows = [self._row(x, at) for x in operands[first:last]]
            results = self.inline(op.body, [*rest[:first], *rows, *operands[last:]])
            written = [self._with_row(x, row, at) for x, row in zip(rest[first:], results[first:], strict=True)]
            following = t.one("stablehlo.add", (step, t.fill(1, number)), number)
            return [following, *results[:first], *written]

        state_types = [v.type for v in state]
        return t.op("stablehlo.while", state, state_types, regions=[(state_types, more), (state_types, body)])[1:]

    def _row(self, x: Val, at: Val) -> Val:
        t, shape = self.text, x.type.shape[1:]
        zeros = [t.fill(0, at.type) for _ in shape]
        part = TensorType((1, *shape), x.type.dtype)
        row = t.one("stablehlo.dynamic_slice", (x, at, *zeros), part, {"slice_sizes": integers(part.shape)})
        return t.one("stablehlo.reshape", (row,), TensorType(shape, x.type.dtype))

    def _with_row(self, x: Val, row: Val, at: Val) -> Val:
        t = self.text
        part = t.one("stablehlo.reshape", (row,), TensorType((1, *row.type.shape), row.type.dtype))
        zeros = [t.fill(0, at.type) for _ in row.type.shape]
        return t.one("stablehlo.dynamic_update_slice", (x, part, at, *zeros), x.type)


def _expanded(op: Primitive, types: Sequence[TensorType]) -> Graph:
    b = CoreBuilder()
    result = op.expand(b, *(b.input(t.with_layout(None)) for t in types))
    assert result is not None
    return b.build([result])
