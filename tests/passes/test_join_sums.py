"""The products of a sum become one product over the rows of all operands."""

from __future__ import annotations

import pytest
from mxforge.codegen.llvm.target import AVX512
from mxforge.ir.dialects.core import Concat, CoreBuilder, Dot, Reduce
from mxforge.ir.graph import Graph, Value
from mxforge.ir.scalar import ReduceOp
from mxforge.passes.eliminate import EliminateDeadCode
from mxforge.passes.join_sums import JoinSums
from mxforge.passes.manager import Context
from rewriting import assert_same_values, assert_unchanged, tensor

CONTEXT = Context(AVX512)


def joined(graph: Graph) -> Graph:
    """The graph after the pass, which has the values of the graph."""
    after = EliminateDeadCode().run(JoinSums().run(graph, CONTEXT), CONTEXT)
    assert_same_values(graph, after, 1e-5)
    return after


def rows_of(graph: Graph, kind: type[Dot] | type[Reduce]) -> list[int]:
    return [n.inputs[0].type.shape[0] for n in graph.nodes if isinstance(n.op, kind)]


def count(graph: Graph, kind: type[Concat]) -> int:
    return sum(isinstance(n.op, kind) for n in graph.nodes)


def over_rows(b: CoreBuilder, x: Value, y: Value) -> Value:
    return b.dot(x, y, (), (), (0,), (0,))


def total(b: CoreBuilder, terms: list[Value]) -> Value:
    found = terms[0]
    for term in terms[1:]:
        found = b.add(found, term)
    return found


def cotangents(b: CoreBuilder, steps: int, rows: int = 2, columns: int = 20) -> list[Value]:
    return [b.tanh(b.input(tensor(rows, columns))) for _ in range(steps)]


def test_products_of_pieces_read_the_whole_tensor() -> None:
    b = CoreBuilder()
    x, given = b.input(tensor(4, 2, 10)), cotangents(b, 4)
    pieces = [b.reshape(b.slice_axis(x, 0, i, i + 1), (2, 10)) for i in range(4)]
    backwards = [over_rows(b, given[i], pieces[i]) for i in reversed(range(4))]
    after = joined(b.build([total(b, backwards)]))
    assert rows_of(after, Dot) == [8]
    assert count(after, Concat) == 1


def test_operands_that_are_pieces_in_different_orders() -> None:
    """The rows of both operands must have the same order."""
    b = CoreBuilder()
    x, y = b.input(tensor(4, 2, 10)), b.input(tensor(4, 2, 20))
    pieces, others = ([b.reshape(b.slice_axis(v, 0, i, i + 1), (2, -1)) for i in range(4)] for v in (x, y))
    for order in ((3, 2, 1, 0), (1, 0, 3, 2)):
        after = joined(b.build([total(b, [over_rows(b, others[i], pieces[k]) for k, i in enumerate(order)])]))
        assert rows_of(after, Dot) == [8]
        assert count(after, Concat) == 1


def test_overlapping_pieces_are_not_the_whole_tensor() -> None:
    b = CoreBuilder()
    x, given = b.input(tensor(6, 10)), cotangents(b, 3)
    pieces = [b.slice_axis(x, 0, start, start + 2) for start in (0, 1, 3)]
    after = joined(b.build([total(b, [over_rows(b, g, p) for g, p in zip(given, pieces, strict=True)])]))
    assert rows_of(after, Dot) == [6]
    assert count(after, Concat) == 2


def test_gradients_of_a_cell_share_the_rows_of_their_cotangents() -> None:
    """The first step has no state, and the gradient of a bias is a sum of rows; the bias is a result twice."""
    b = CoreBuilder()
    x, given = b.input(tensor(4, 2, 10)), cotangents(b, 4)
    states = [b.input(tensor(2, 10)) for _ in range(3)]
    pieces = [b.reshape(b.slice_axis(x, 0, i, i + 1), (2, 10)) for i in range(4)]
    of_states = total(b, [over_rows(b, given[i], states[i - 1]) for i in (3, 2, 1)])
    of_inputs = total(b, [over_rows(b, given[i], pieces[i]) for i in (3, 2, 1, 0)])
    of_bias = total(b, [b.reduce(ReduceOp.ADD, given[i], (0,)) for i in (3, 2, 1, 0)])
    after = joined(b.build([of_states, of_inputs, of_bias, of_bias]))
    assert sorted(rows_of(after, Dot)) == [6, 8]
    assert rows_of(after, Reduce) == [8]
    assert count(after, Concat) == 2  # the cotangents, and the states


def test_other_terms_are_added_to_the_product() -> None:
    b = CoreBuilder()
    before = b.input(tensor(20, 10))
    terms = [over_rows(b, g, b.input(tensor(2, 10))) for g in cotangents(b, 3)]
    after = joined(b.build([total(b, [terms[0], before, b.exp(before), *terms[1:]])]))
    assert rows_of(after, Dot) == [6]


def test_terms_and_sums_that_are_read_elsewhere_stay() -> None:
    b = CoreBuilder()
    terms = [over_rows(b, g, b.input(tensor(2, 10))) for g in cotangents(b, 5)]
    after = joined(b.build([total(b, terms), b.exp(terms[0]), terms[1]]))
    assert sorted(rows_of(after, Dot)) == [2, 2, 6]
    partial = total(b, terms[:2])
    assert_unchanged(JoinSums(), b.build([total(b, [partial, *terms[2:4]]), b.exp(partial)]))


@pytest.mark.parametrize(
    ("rows", "columns", "steps"), [(65, 200, 3), (2, 20, 2), (8, 6, 3)], ids=["many rows", "two terms", "small result"]
)
def test_what_gains_nothing_stays(rows: int, columns: int, steps: int) -> None:
    b = CoreBuilder()
    given = [b.input(tensor(rows, columns)) for _ in range(steps)]
    assert_unchanged(JoinSums(), b.build([total(b, [over_rows(b, g, b.input(tensor(rows, columns))) for g in given])]))


def test_a_sum_that_is_no_result_stays() -> None:
    b = CoreBuilder()
    terms = [over_rows(b, g, b.input(tensor(2, 10))) for g in cotangents(b, 3)]
    assert_unchanged(JoinSums(), b.build([b.exp(total(b, terms))]))


def test_sums_of_rows_alone_stay() -> None:
    b = CoreBuilder()
    assert_unchanged(JoinSums(), b.build([total(b, [b.reduce(ReduceOp.ADD, g, (0,)) for g in cotangents(b, 3)])]))
