"""Addresses of values that share memory, tested by running programs in which a wrong address changes results."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from compiled import check
from mxforge.ir.dialects.core import CoreBuilder
from mxforge.ir.graph import Value
from mxforge.ir.scalar import ReduceOp
from mxforge.ir.types import DType, TensorType
from mxforge.passes.plan_memory import share_memory


def numbers(*shape: int) -> np.ndarray:
    return np.arange(1, 1 + int(np.prod(shape)), dtype=np.float32).reshape(shape)


def test_nested_concatenations_along_different_axes() -> None:
    """The stride of the inner pieces is the outer row."""
    b = CoreBuilder("nested")
    x = b.input(TensorType((2, 3, 4), DType.F32))
    inner = b.concat([b.neg(x), b.exp(x), x], 1)
    whole = b.concat([b.slice_axis(inner, 2, 0, 1), inner, b.abs(inner)], 2)
    check(b.build([whole]), numbers(2, 3, 4) / 16)


def test_a_reshaped_piece_of_a_concatenation() -> None:
    b = CoreBuilder("reshaped")
    x = b.input(TensorType((2, 3), DType.F32))
    piece = b.reshape(b.neg(x), (3, 2))
    inner = b.concat([piece, b.exp(piece)], 0)
    other = b.broadcast_along(b.constant(np.array([1, 2], np.float32)), (6, 2), 1)
    check(b.build([b.concat([inner, other], 1)]), numbers(2, 3) / 4)


def test_pieces_are_computed_in_place() -> None:
    b = CoreBuilder("placed")
    x = b.input(TensorType((2, 3, 4), DType.F32))
    inner = b.concat([b.neg(x), b.exp(x)], 1)
    whole = b.concat([inner, b.abs(inner)], 2)
    graph = check(b.build([whole]), numbers(2, 3, 4) / 16)
    assert len(graph.launches) == 3, "no copies"


def test_the_offset_of_a_nested_piece_uses_the_strides_of_the_outermost_concatenation() -> None:
    from mxforge.passes.manager import Context, run_passes
    from mxforge.passes.pipeline import FOR_KERNELS
    from mxforge.runtime.host.machine import host_target

    b = CoreBuilder("nested")
    x = b.input(TensorType((2, 3, 4), DType.F32))
    inner = b.concat([b.neg(x), b.exp(x)], 1)
    graph = run_passes(FOR_KERNELS, b.build([b.concat([inner, b.abs(inner)], 2)]), Context(host_target(1)))
    sharing = share_memory(graph)
    places = sorted((v.offset, v.strides) for v in map(sharing.resolve, sharing.views))
    assert places == [(0, (48, 8, 1)), (0, (48, 8, 1)), (4, (48, 8, 1)), (24, (48, 8, 1))]


def _branch(b: CoreBuilder, x: Value) -> Value:
    then, otherwise = CoreBuilder("then"), CoreBuilder("otherwise")
    graphs = then.build([then.neg(then.input(x.type))]), otherwise.build([otherwise.exp(otherwise.input(x.type))])
    return b.cond(b.gt(b.constant(np.float32(2)), b.constant(np.float32(1))), graphs[0], graphs[1], x)[0]


UNSTRIDED: dict[str, Callable[[CoreBuilder, Value], Value]] = {
    "cumulative": lambda b, x: b.cumulative(ReduceOp.ADD, x, 1),
    "sort": lambda b, x: b.sort([x], 1)[0],
    "cholesky": lambda b, x: b.cholesky(b.dot(x, x, [], [], [1], [1])),
    "triangular solve": lambda b, x: b.triangular_solve(x, b.neg(x)),
    "branch": _branch,
    "callback": lambda b, x: b.host_callback(lambda a: (a * 2,), (x.type,), x)[0],
}


@pytest.mark.parametrize("reader", UNSTRIDED)
@pytest.mark.parametrize("nested", [False, True], ids=["one whole", "whole in a whole"])
def test_operands_of_routines_are_contiguous(reader: str, nested: bool) -> None:
    """A piece that is computed in place in a concatenation along a later axis is strided."""
    b = CoreBuilder("read twice")
    x = b.input(TensorType((3, 3), DType.F32))
    y = b.maximum(x, b.full_like(x, 0.25))
    whole = b.concat([y, b.neg(x)], 0 if nested else 1)
    whole = b.concat([whole, b.abs(whole)], 1) if nested else whole
    check(b.build([whole, UNSTRIDED[reader](b, y)]), numbers(3, 3)[::-1] / 8)


def test_packed_copies_of_a_value_are_freed_after_each_step() -> None:
    b = CoreBuilder("packed")
    x, y = b.input(TensorType((40, 24), DType.F32)), b.input(TensorType((24, 40), DType.F32))
    first = b.dot(x, y, [], [], [1], [0])
    second = b.dot(b.tanh(first), first, [], [], [1], [0])
    third = b.dot(b.dot(x, b.sin(y), [], [], [1], [0]), first, [], [], [1], [0])
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s).astype(np.float32) for s in ((40, 24), (24, 40))]
    check(b.build([b.dot(second, third, [], [], [1], [0])]), *arrays)


def test_a_scatter_replaces_what_a_kernel_computes_for_it() -> None:
    """Unless something else reads it. Views of the result are in the same memory."""
    b = CoreBuilder("scattered")
    x, rows, ids = (
        b.input(TensorType((4, 3), DType.F32)),
        b.input(TensorType((2, 3), DType.F32)),
        b.input(TensorType((2, 1), DType.I32)),
    )
    alone, shared = b.neg(x), b.exp(x)
    first, second = (b.scatter(v, ids, rows, "add", (0,)) for v in (alone, shared))
    graph = b.build([b.tanh(b.reshape(first, (12,))), b.scatter(first, ids, rows, "set", (0,)), second, shared])
    program = check(graph, numbers(4, 3) / 8, numbers(2, 3), np.array([[3], [1]], np.int32))
    targets = [launch.arguments[3] for launch in program.launches if launch.kind == "scatter"]
    sources = [launch.arguments[0] for launch in program.launches if launch.kind == "scatter"]
    assert [a == b for a, b in zip(sources, targets, strict=True)].count(True) == 1


def test_pieces_at_any_position_share_their_kernels() -> None:
    """Slices and concatenations read and write parts of other values: one kernel for all of them."""
    b = CoreBuilder("pieces")
    x = b.input(TensorType((3, 8, 4), DType.F32))
    steps = [b.tanh(b.slice_axis(x, 1, k, k + 2)) for k in range(1, 7)]
    moved = [b.transpose(step, (0, 2, 1)) for step in steps]
    program = check(b.build([*moved, b.concat([x, x, x], 1)]), numbers(3, 8, 4) / 96)
    symbols = [launch.symbol for launch in program.launches]
    assert len(symbols) > len(moved)
    assert len(set(symbols)) <= 4


def test_a_part_with_two_reads_of_one_value() -> None:
    b = CoreBuilder("differences")
    x = b.input(TensorType((6, 5), DType.F32))
    inner = b.slice(x, (1, 2), (5, 5), (1, 1))
    left = b.slice(x, (1, 1), (5, 4), (1, 1))
    every = b.slice(x, (1, 1), (6, 5), (2, 3))
    check(b.build([b.sub(inner, left), b.exp(every), b.reduce(ReduceOp.ADD, inner, (0,))]), numbers(6, 5) / 30)


def test_a_part_of_a_piece_that_is_placed_in_a_concatenation() -> None:
    b = CoreBuilder("part of a piece")
    x = b.input(TensorType((4, 6), DType.F32))
    piece = b.exp(x)
    whole = b.concat([b.neg(x), piece], 1)
    cut = b.slice(piece, (1, 2), (3, 5), (1, 1))
    check(b.build([whole, b.reshape(b.tanh(cut), (6,))]), numbers(4, 6) / 24)
