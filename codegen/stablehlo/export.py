"""Exports graphs of `core` as StableHLO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...ir.attributes import quote
from ...ir.dialects.core import (
    ArgReduce,
    Call,
    Cond,
    Conv,
    CoreBuilder,
    CsrDot,
    Fused,
    HostCallback,
    Primitive,
    Scan,
    Transpose,
    While,
)
from ...ir.dialects.core.primitive import Array
from ...ir.graph import Graph, GraphError, Node, Value
from ...ir.printer import location_text
from ...ir.symbolic import is_symbolic
from ...ir.types import DType, TensorType
from .contractions import convolution
from .rules import RULES
from .text import Text
from .writer import Body, NoForm, Val, integers, type_text, types_text

CONTROL = (ArgReduce, Call, Cond, CsrDot, Fused, Scan, While)
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
    arguments: list[Val] = []
    declared: list[str] = []
    for i, value in enumerate(graph.inputs):
        text.where = location_text(value.name, "")
        if i in known:
            operands.append(text.constant(known[i], value.type.dtype))
        else:
            argument = Val(f"%arg{len(arguments)}", value.type.with_layout(None))
            declared.append(f"{argument.name}: {type_text(argument.type)}{_named(value.name)}{text.where}")
            operands.append(argument)
            arguments.append(argument)
    text.where = ""
    for argument in arguments:
        text.name_sizes(argument)
    returned = _Exporter(text).inline(graph, operands)
    types = types_text(r.type for r in returned)
    names = results or [""] * len(returned)
    named = [type_text(r.type) + _named(name) for r, name in zip(returned, names, strict=True)]
    head = f"module @{quote(graph.name)} {{\n  func.func @main({', '.join(declared)}) -> ({', '.join(named)}) {{\n"
    last = f'    "func.return"({", ".join(r.name for r in returned)}) : ({types}) -> ()\n  }}\n}}\n'
    return "".join((head, *text.pieces, last))


def _transposed(value: Value) -> tuple[Value, Sequence[int]]:
    """The value of which this one is a transpose, and the permutation from this one to it; itself if it is none."""
    if value.node is None or not isinstance(value.node.op, Transpose):
        return value, range(value.type.rank)
    permutation = value.node.op.permutation
    return value.node.inputs[0], sorted(range(len(permutation)), key=permutation.__getitem__)


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
        users = graph.users() if any(isinstance(node.op, Conv) for node in graph.nodes) else {}
        for node in graph.nodes:
            self.text.where = location_text(node.name, node.location) or around
            if isinstance(node.op, Conv):
                result, computed = self._convolution(graph, node, node.op, values, users)
                values[result] = computed
            elif node.outputs[0] not in values:  # else it is the result of a convolution
                results = self._located(node, [values[v] for v in node.inputs])
                values.update(zip(node.outputs, results, strict=True))
        self.text.where = around
        return [values[v] for v in graph.outputs]

    def _located(self, node: Node, operands: Sequence[Val]) -> Sequence[Val]:
        """As `node`; errors name the node."""
        try:
            return self.node(node, operands)
        except NoForm as error:
            raise GraphError(f"{node.describe()}: {error}", str(error)) from None

    def node(self, node: Node, operands: Sequence[Val]) -> Sequence[Val]:
        """The results of a node."""
        op, types = node.op, [v.type.with_layout(None) for v in node.outputs]
        match op:
            case Fused() | Call():
                return self.inline(op.body, operands)
            case ArgReduce() | CsrDot():
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

    def _convolution(
        self, graph: Graph, node: Node, op: Conv, values: Mapping[Value, Val], users: Mapping[Value, Any]
    ) -> tuple[Value, Val]:
        """The value that a convolution computes, with its text. Transposes of its operands and of its result are part
        of it: it takes axes in any order."""
        (result,) = node.outputs
        sources, orders = zip(*(_transposed(v) for v in node.inputs), strict=True)
        readers = [user for user, _ in users[result]]
        order: Sequence[int] = range(result.type.rank)
        if len(readers) == 1 and isinstance(readers[0].op, Transpose) and result not in graph.outputs:
            order, (result,) = readers[0].op.permutation, readers[0].outputs
        x, w = (values[v] for v in sources)
        return result, convolution(self.text, op, result.type.with_layout(None), x, w, (*orders, order))

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
        state = [t.number(0), *operands[:first], *stacks]

        def more(step: Val, *rest: Val) -> Sequence[Val]:
            return [t.compare("LT", step, t.number(op.length))]

        def body(step: Val, *rest: Val) -> Sequence[Val]:
            at = t.one("stablehlo.subtract", (t.number(op.length - 1), step), number) if op.reverse else step
            rows = [self._row(x, at) for x in operands[first:last]]
            results = self.inline(op.body, [*rest[:first], *rows, *operands[last:]])
            written = [self._with_row(x, row, at) for x, row in zip(rest[first:], results[first:], strict=True)]
            return [self._after(step), *results[:first], *written]

        state_types = [v.type for v in state]
        return t.op("stablehlo.while", state, state_types, regions=[(state_types, more), (state_types, body)])[1:]

    def _row(self, x: Val, at: Val) -> Val:
        t, shape = self.text, x.type.shape[1:]
        part = TensorType((1, *shape), x.type.dtype)
        if any(map(is_symbolic, shape)):
            ones, zeros = t.numbers([1] * len(part.shape)), t.numbers([0] * len(shape))
            start, stop = (self._joined(n, rest) for n, rest in ((at, zeros), (self._after(at), t.numbers(shape))))
            row = t.one("stablehlo.real_dynamic_slice", (x, start, stop, ones), part)
        else:
            zeros = [t.fill(0, at.type) for _ in shape]
            row = t.one("stablehlo.dynamic_slice", (x, at, *zeros), part, {"slice_sizes": integers(part.shape)})
        return t.reshape(row, TensorType(shape, x.type.dtype))

    def _after(self, at: Val) -> Val:
        return self.text.one("stablehlo.add", (at, self.text.number(1)), at.type)

    def _joined(self, first: Val, rest: Val) -> Val:
        """A vector of a number and further ones."""
        t = self.text
        head = t.reshape(first, TensorType((1,), first.type.dtype))
        type = TensorType((1 + rest.type.shape[0],), first.type.dtype)
        return t.one("stablehlo.concatenate", (head, rest), type, {"dimension": "0 : i64"})

    def _with_row(self, x: Val, row: Val, at: Val) -> Val:
        t = self.text
        part = t.reshape(row, TensorType((1, *row.type.shape), row.type.dtype))
        zeros = [t.fill(0, at.type) for _ in row.type.shape]
        return t.one("stablehlo.dynamic_update_slice", (x, part, at, *zeros), x.type)


def _expanded(op: Primitive, types: Sequence[TensorType]) -> Graph:
    b = CoreBuilder()
    result = op.expand(b, *(b.input(t.with_layout(None)) for t in types))
    assert result is not None
    return b.build([result])
