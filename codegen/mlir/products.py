"""Gives matrix products the form that the schedule knows: rows by inner axis, times inner axis by columns."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ...ir.dialects.core import Dot, Reshape, Transpose
from ...ir.graph import Graph, GraphBuilder, Node, Value
from ...ir.lazy_dataclass import dataclass
from ...ir.rewrite import Replacement, rebuild
from ...passes.manager import Context, Pass


@dataclass(frozen=True)
class PlainProducts(Pass):
    """Transpose and reshape the operands of each product, so that it multiplies (rows, inner) by (inner, columns), or
    as many such matrices as its batch axes have. Transposed parameters are computed once. Needs: row-major core. Keeps:
    values.
    """

    name = "plain-products"

    def run(self, graph: Graph, context: Context) -> Graph:
        return rebuild(graph, _rule)


def _rule(b: GraphBuilder, node: Node, operands: tuple[Value, ...]) -> Replacement:
    op = node.op
    if not isinstance(op, Dot):
        return None
    x, y = operands
    x_free = [k for k in range(x.type.rank) if k not in (*op.lhs_batch, *op.lhs_contract)]
    y_free = [k for k in range(y.type.rank) if k not in (*op.rhs_batch, *op.rhs_contract)]
    batch, rows = (prod(x.type.shape[k] for k in axes) for axes in (op.lhs_batch, x_free))
    inner, columns = (prod(v.type.shape[k] for k in axes) for v, axes in ((x, op.lhs_contract), (y, y_free)))
    matrices = (batch,) if op.lhs_batch else ()
    left = _ordered(b, x, (*op.lhs_batch, *x_free, *op.lhs_contract), (*matrices, rows, inner))
    right = _ordered(b, y, (*op.rhs_batch, *op.rhs_contract, *y_free), (*matrices, inner, columns))
    first = (0,) if matrices else ()
    rank = len(first)
    plain = replace(op, lhs_batch=first, rhs_batch=first, lhs_contract=(rank + 1,), rhs_contract=(rank,))
    product = b.add_node(plain, left, right)
    return _shaped(b, product, node.outputs[0].type.shape)


def _ordered(b: GraphBuilder, x: Value, axes: tuple[int, ...], shape: tuple[int, ...]) -> Value:
    return _shaped(b, x if axes == tuple(range(x.type.rank)) else b.add_node(Transpose(axes), x), shape)


def _shaped(b: GraphBuilder, x: Value, shape: tuple[int, ...]) -> Value:
    return x if x.type.shape == shape else b.add_node(Reshape(shape), x)
