"""Products of several small operands with the same weights become one, if none depends on another."""

from __future__ import annotations

import pytest
from mxforge.codegen.llvm.target import AVX512
from mxforge.ir.dialects.core import Concat, CoreBuilder, Dot, Slice
from mxforge.ir.graph import Graph, Value
from mxforge.passes.eliminate import EliminateDeadCode
from mxforge.passes.fuse import Fuse
from mxforge.passes.join_products import JoinProducts
from mxforge.passes.manager import Context
from mxforge.passes.plan_memory import share_memory
from rewriting import assert_same_values, assert_unchanged, tensor

CONTEXT = Context(AVX512)


def joined(graph: Graph) -> Graph:
    """The graph after the pass, which has the values of the graph."""
    after = EliminateDeadCode().run(JoinProducts().run(graph, CONTEXT), CONTEXT)
    assert_same_values(graph, after, 1e-5)
    return after


def rows_of_products(graph: Graph) -> list[int]:
    return [n.outputs[0].type.shape[0] for n in graph.nodes if isinstance(n.op, Dot)]


def cells(b: CoreBuilder, steps: int, rows: int, *, biased: bool = True) -> list[Value]:
    """The states of an unrolled cell."""
    x, state = b.input(tensor(steps, rows, 5)), b.input(tensor(rows, 4))
    w_x, w_h, bias = b.input(tensor(5, 4)), b.input(tensor(4, 4)), b.input(tensor(4))
    found: list[Value] = []
    for i in range(steps):
        piece = b.reshape(b.slice_axis(x, 0, i, i + 1), (rows, 5))
        product = b.matmul(piece, w_x)
        if biased:
            product = b.add(product, b.broadcast(bias, (rows, 4), (1,)))
        state = b.tanh(b.add(product, b.matmul(state, w_h)))
        found.append(state)
    return found


@pytest.mark.parametrize("biased", [True, False])
def test_input_projections_are_one_product_of_the_whole_input(biased: bool) -> None:
    b = CoreBuilder()
    after = joined(b.build(cells(b, 4, 3, biased=biased)))
    assert rows_of_products(after) == [12, 3, 3, 3, 3]
    assert not any(isinstance(n.op, Concat) for n in after.nodes)


def test_rows_of_the_product_are_views() -> None:
    b = CoreBuilder()
    fused = Fuse().run(joined(b.build(cells(b, 4, 3))), CONTEXT)
    slices = [n for n in fused.nodes if any(isinstance(m.op, Slice) for r in n.op.regions() for m in r.nodes)]
    assert len(slices) == 4
    assert set(share_memory(fused).views) >= {n.outputs[0] for n in slices}


def test_other_operands_are_concatenated() -> None:
    b = CoreBuilder()
    w = b.input(tensor(5, 4))
    found = [b.tanh(b.matmul(b.exp(b.input(tensor(2, 5))), w)) for _ in range(3)]
    after = joined(b.build(found))
    assert rows_of_products(after) == [6]
    assert sum(isinstance(n.op, Concat) for n in after.nodes) == 1


def test_pieces_are_joined_in_the_order_of_their_tensor() -> None:
    b = CoreBuilder()
    x, w = b.input(tensor(3, 2, 5)), b.input(tensor(5, 4))
    pieces = [b.reshape(b.slice_axis(x, 0, i, i + 1), (2, 5)) for i in (2, 0, 1)]
    after = joined(b.build([b.exp(b.matmul(p, w)) for p in pieces]))
    assert rows_of_products(after) == [6]
    assert not any(isinstance(n.op, Concat) for n in after.nodes)


def test_later_layers_are_joined_after_the_first() -> None:
    b = CoreBuilder()
    first, w = cells(b, 3, 2), b.input(tensor(4, 6))
    after = joined(b.build([b.exp(b.matmul(state, w)) for state in first]))
    assert rows_of_products(after) == [6, 2, 2, 2, 6]


@pytest.mark.parametrize(("rows", "count"), [(65, 3), (2, 2)], ids=["many rows", "two products"])
def test_what_gains_nothing_stays(rows: int, count: int) -> None:
    b = CoreBuilder()
    w = b.input(tensor(5, 4))
    graph = b.build([b.matmul(b.input(tensor(rows, 5)), w) for _ in range(count)])
    assert_unchanged(JoinProducts(), graph)


def test_a_chain_of_products_stays() -> None:
    b = CoreBuilder()
    value, w = b.input(tensor(3, 4)), b.input(tensor(4, 4))
    for _ in range(5):
        value = b.matmul(value, w)
    assert rows_of_products(joined(b.build([value]))) == [3] * 5
