"""A product joins the functions of equal pieces of its columns, if the target computes the pieces side by side."""

from __future__ import annotations

import pytest
from mxforge.codegen.llvm.target import AVX2, AVX512
from mxforge.ir.dialects.core import CoreBuilder, Fused
from mxforge.ir.graph import Graph, Value
from mxforge.ir.target import Capabilities
from mxforge.passes.fuse import Fuse
from mxforge.passes.manager import Context
from rewriting import assert_same_values, tensor


def cell(parts: int, rows: int, *, keeps_sums: bool = False, width: int = 6) -> Graph:
    """state, weight, cell -> new cell and state, of `parts` pieces."""
    b = CoreBuilder()
    state, weight, old = b.input(tensor(rows, 5)), b.input(tensor(5, parts * width)), b.input(tensor(rows, width))
    z = b.matmul(state, weight)
    first, *others = [b.slice_axis(z, 1, k * width, (k + 1) * width) for k in range(parts)]
    new = b.mul(b.tanh(first), old)
    for piece in others[:-1]:
        new = b.add(new, b.exp(piece))
    out = b.mul(others[-1], b.tanh(new))
    return b.build([new, out, z] if keeps_sums else [new, out])


def kinds(graph: Graph, target: Capabilities = AVX512) -> list[str]:
    """The kinds of the regions of the fused graph, which has the values of the graph."""
    fused = Fuse().run(graph, Context(target))
    assert_same_values(graph, fused, 1e-5)
    return [n.op.kind for n in fused.nodes if isinstance(n.op, Fused)]


@pytest.mark.parametrize("parts", [2, 3, 4])
def test_a_product_and_its_gates_are_one_region(parts: int) -> None:
    assert kinds(cell(parts, 8)) == ["contract"]


def test_few_registers_hold_the_pieces_of_few_rows_alone() -> None:
    assert kinds(cell(4, 2), AVX2) == ["contract"]
    assert kinds(cell(4, 8), AVX2) == ["contract", "pointwise"]
    assert kinds(cell(3, 8), AVX2) == ["contract"]


def test_sums_that_are_results_are_stored() -> None:
    assert kinds(cell(4, 8, keeps_sums=True)) == ["contract", "pointwise"]


def two_pieces(starts: tuple[int, int], width: int) -> Graph:
    b = CoreBuilder()
    z = b.matmul(b.input(tensor(4, 5)), b.input(tensor(5, 12)))
    left, right = (b.slice_axis(z, 1, s, s + width) for s in starts)
    return b.build([b.mul(left, right)])


def test_pieces_that_overlap_are_read_from_memory() -> None:
    assert kinds(two_pieces((0, 4), 6)) == ["contract", "pointwise"]
    assert kinds(two_pieces((0, 6), 6)) == ["contract"]


def test_a_reader_of_all_columns_needs_the_sums() -> None:
    b = CoreBuilder()
    z = b.matmul(b.input(tensor(4, 5)), b.input(tensor(5, 12)))
    left, right = (b.slice_axis(z, 1, s, s + 6) for s in (0, 6))
    assert kinds(b.build([b.mul(left, right), b.sum(z)])) == ["contract", "pointwise", "row"]


def scaled(b: CoreBuilder, x: Value) -> Value:
    return b.add(b.mul(x, 2), 1)


def test_later_functions_of_the_results_join() -> None:
    b = CoreBuilder()
    z = b.matmul(b.input(tensor(4, 5)), b.input(tensor(5, 12)))
    product = b.mul(*(b.slice_axis(z, 1, s, s + 6) for s in (0, 6)))
    assert kinds(b.build([scaled(b, product), b.neg(product)])) == ["contract"]


def test_a_function_that_depends_on_the_gates_through_a_sum_stays() -> None:
    b = CoreBuilder()
    z = b.matmul(b.input(tensor(4, 5)), b.input(tensor(5, 12)))
    left, right = (b.slice_axis(z, 1, s, s + 6) for s in (0, 6))
    total = b.broadcast_along(b.sum(left, (1,)), (4, 6), 0)
    assert "row" in kinds(b.build([b.mul(left, total), b.exp(right)]))
