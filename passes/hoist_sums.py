"""Moves sums of products out of loops: a product in each step becomes one product over all steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..ir.dialects.core import CoreBuilder, Dot, Pointwise, Scan, without_dead_nodes
from ..ir.graph import Graph, GraphBuilder, Node, Value
from ..ir.lazy_dataclass import dataclass
from ..ir.rewrite import Replacement, rebuild, repeat
from ..ir.scalar import ScalarOp
from .manager import Context, Pass
from .simplify import splat


@dataclass(frozen=True)
class HoistSums(Pass):
    """Compute a carry of a Scan that only adds up products of its steps by one product after the loop.

    total += dot(x, y) in each step -> total + dot(all x, all y), contracted over the steps too. The gradient of a
    recurrent layer by its weights is such a sum; one product reads the weights' gradient once instead of once a step.
    A carry to which the steps add zero is its first value. Operands that the loop does not stack already are stacked if
    they are not larger than the total. Needs: core, before loops are unrolled. Keeps: values, up to rounding.
    """

    name = "hoist-sums"

    def run(self, graph: Graph, context: Context) -> Graph:
        return rebuild(graph, _hoist, CoreBuilder(graph.name))


def _hoist(b: GraphBuilder, node: Node, operands: tuple[Value, ...]) -> Replacement:
    if not isinstance(node.op, Scan):
        return None
    assert isinstance(b, CoreBuilder)
    sums = _sums(node.op)
    return _Loop(b, node.op, operands, sums).rebuilt() if sums else None


def _sums(op: Scan) -> dict[int, Dot | None]:
    """The carries that are only sums, with the value added in each step: a product of the loop, or None for zero."""
    users = op.body.users()
    sums: dict[int, Dot | None] = {}
    for i, carry in enumerate(op.body.inputs[: op.carries]):
        total = op.body.outputs[i]
        term = _term(total, carry)
        read = len(users[carry]) > 1 or carry in op.body.outputs or users[total] or op.body.outputs.count(total) > 1
        if term is None or read:
            continue
        if splat(term) == 0:
            sums[i] = None
        elif term.node is not None and isinstance(term.node.op, Dot) and _is_hoisted(op, term):
            sums[i] = term.node.op
    return sums


def _term(total: Value, carry: Value) -> Value | None:
    """The value that is added to `carry`, if `total` is such a sum."""
    node = total.node
    if node is None or not isinstance(node.op, Pointwise) or node.op.op is not ScalarOp.ADD or carry not in node.inputs:
        return None
    left, right = node.inputs
    return right if left is carry else left


def _is_hoisted(op: Scan, term: Value) -> bool:
    """True if both operands of a product change from step to step, and stacking them is worth it."""
    assert term.node is not None
    body, factors = op.body, term.node.inputs
    if any(f.node is None and f not in body.inputs[op.carries : op.carries + op.scanned] for f in factors):
        return False
    stacked = {*body.inputs, *body.outputs[op.carries :]}
    return sum(f.type.nbytes for f in factors if f not in stacked) <= term.type.nbytes


class _Loop:
    """A loop without the carries `sums`, which are computed after it."""

    def __init__(self, b: CoreBuilder, op: Scan, operands: tuple[Value, ...], sums: dict[int, Dot | None]) -> None:
        self.b, self.op, self.operands, self.sums = b, op, operands, sums
        body = op.body
        self.kept = [i for i in range(op.carries) if i not in sums]
        self.scanned = dict(
            zip(body.inputs[op.carries : op.carries + op.scanned], operands[op.carries :], strict=False)
        )
        wanted = [f for i, dot in sums.items() if dot is not None for f in self._factors(i)]
        self.stacked = list(body.outputs[op.carries :])
        self.stacked += [v for v in dict.fromkeys(wanted) if v not in self.scanned and v not in self.stacked]

    def _factors(self, carry: int) -> Sequence[Value]:
        term = _term(self.op.body.outputs[carry], self.op.body.inputs[carry])
        assert term is not None
        assert term.node is not None
        return term.node.inputs

    def rebuilt(self) -> list[Value]:
        op, body, b = self.op, self.op.body, self.b
        operands = [v for i, v in enumerate(self.operands) if i not in self.sums]
        first, last = len(self.kept), len(self.kept) + op.scanned
        results = b.scan(self._step(), operands[:first], operands[first:last], operands[last:], op.length, op.reverse)
        carries = dict(zip(self.kept, results, strict=False))
        stacks = dict(zip(self.stacked, results[first:], strict=True)) | self.scanned
        for i, dot in self.sums.items():
            start = self.operands[i]
            carries[i] = (
                start if dot is None else b.add(start, self._product(dot, *(stacks[f] for f in self._factors(i))))
            )
        return [*(carries[i] for i in range(op.carries)), *results[first : first + len(body.outputs) - op.carries]]

    def _step(self) -> Graph:
        body = self.op.body
        b = CoreBuilder(body.name)
        new = {v: b.input(v.type, v.name) for i, v in enumerate(body.inputs) if i not in self.sums}
        outputs = (*(body.outputs[i] for i in self.kept), *self.stacked)
        repeat(b, without_dead_nodes(replace(body, outputs=outputs)).nodes, new)
        return b.build([new[v] for v in outputs])

    def _product(self, dot: Dot, x: Value, y: Value) -> Value:
        """The sum over the steps of `dot` on slices of x and y."""
        b = self.b
        if dot.lhs_contract == dot.rhs_contract == (0,) and not dot.lhs_batch:  # one long axis
            x, y = (b.reshape(v, (v.type.shape[0] * v.type.shape[1], *v.type.shape[2:])) for v in (x, y))
            return b.add_node(dot, x, y)
        lhs_batch, rhs_batch = (tuple(a + 1 for a in axes) for axes in (dot.lhs_batch, dot.rhs_batch))
        lhs, rhs = ((0, *(a + 1 for a in axes)) for axes in (dot.lhs_contract, dot.rhs_contract))
        return b.dot(x, y, lhs_batch, rhs_batch, lhs, rhs, dot.accumulator)
