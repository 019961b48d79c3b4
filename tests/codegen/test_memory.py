"""Where values stand when they share memory, by running programs whose wrong places would show."""

from __future__ import annotations

import numpy as np
from compiled import check
from mxforge.ir.dialects.core import CoreBuilder
from mxforge.ir.types import DType, TensorType
from mxforge.passes.plan_memory import share_memory


def numbers(*shape: int) -> np.ndarray:
    return np.arange(1, 1 + int(np.prod(shape)), dtype=np.float32).reshape(shape)


def test_a_concatenation_inside_another_along_a_later_axis() -> None:
    """The inner pieces step by the outer rows."""
    b = CoreBuilder("nested")
    x = b.input(TensorType((2, 3, 4), DType.F32))
    inner = b.concat([b.neg(x), b.exp(x), x], 1)
    whole = b.concat([b.slice_axis(inner, 2, 0, 1), inner, b.abs(inner)], 2)
    check(b.build([whole]), numbers(2, 3, 4) / 16)


def test_a_piece_under_another_shape_keeps_its_whole_contiguous() -> None:
    b = CoreBuilder("reshaped")
    x = b.input(TensorType((2, 3), DType.F32))
    piece = b.reshape(b.neg(x), (3, 2))
    inner = b.concat([piece, b.exp(piece)], 0)
    other = b.broadcast_along(b.constant(np.array([1, 2], np.float32)), (6, 2), 1)
    check(b.build([b.concat([inner, other], 1)]), numbers(2, 3) / 4)


def test_pieces_are_computed_in_their_place() -> None:
    b = CoreBuilder("placed")
    x = b.input(TensorType((2, 3, 4), DType.F32))
    inner = b.concat([b.neg(x), b.exp(x)], 1)
    whole = b.concat([inner, b.abs(inner)], 2)
    graph = check(b.build([whole]), numbers(2, 3, 4) / 16)
    assert len(graph.launches) == 3, "no copies"


def test_the_place_of_a_piece_counts_in_the_strides_of_the_outermost_whole() -> None:
    from mxforge.passes.manager import Context, run_passes
    from mxforge.passes.pipeline import FOR_CPU
    from mxforge.runtime.host import host_target

    b = CoreBuilder("nested")
    x = b.input(TensorType((2, 3, 4), DType.F32))
    inner = b.concat([b.neg(x), b.exp(x)], 1)
    graph = run_passes(FOR_CPU, b.build([b.concat([inner, b.abs(inner)], 2)]), Context(host_target(1)))
    sharing = share_memory(graph)
    places = sorted((v.offset, v.strides) for v in map(sharing.resolve, sharing.views))
    assert places == [(0, (48, 8, 1)), (0, (48, 8, 1)), (4, (48, 8, 1)), (24, (48, 8, 1))]


def test_steps_that_pack_the_same_value_do_not_share_its_memory_for_longer() -> None:
    b = CoreBuilder("packed")
    x, y = b.input(TensorType((40, 24), DType.F32)), b.input(TensorType((24, 40), DType.F32))
    first = b.dot(x, y, [], [], [1], [0])
    second = b.dot(b.tanh(first), first, [], [], [1], [0])
    third = b.dot(b.dot(x, b.sin(y), [], [], [1], [0]), first, [], [], [1], [0])
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s).astype(np.float32) for s in ((40, 24), (24, 40))]
    check(b.build([b.dot(second, third, [], [], [1], [0])]), *arrays)
