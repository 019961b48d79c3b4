"""Products that sum over several axes, for random extents and orders of the axes, with the right operand in place or
packed."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
from contraction_kernels import einsum_kernel
from contractions import HOST, Runner
from mxforge.codegen.llvm.contract.emit import emit_contraction, schedule_contraction
from mxforge.codegen.llvm.emitter import ModuleBuilder
from mxforge.codegen.llvm.schedule.describe import ContractionError, GemmShape, describe_contraction
from mxforge.codegen.llvm.schedule.kinds import RegisterTile, TileSchedule
from mxforge.codegen.llvm.schedule.product import is_readable_in_place, operand, reduction
from mxforge.codegen.llvm.schedule.segments import plain_segments, weight_row
from mxforge.ir.kernel import Kernel

pytest.importorskip("llvmlite.binding")

REDUCED = "pqs"


def random_product(seed: int) -> tuple[str, str, str, dict[str, int]]:
    """(result, left operand, right operand, extents): at most 20 rows, and two or three reduced axes in any order."""
    choose = random.Random(seed)
    reduced = REDUCED[: choose.choice((2, 2, 3))]
    sizes = {a: choose.choice((1, 2, 3, 5, 8, 9, 13, 16, 17, 24, 33)) for a in reduced}
    sizes |= {"m": choose.choice((1, 2, 6, 10, 16, 20)), "n": choose.choice((4, 10, 16, 37, 64)), "b": 2}
    batch = choose.choice(("", "", "b"))

    def in_any_order(axes: str) -> str:
        return batch + "".join(choose.sample(axes, len(axes)))

    same = in_any_order(reduced)[len(batch) :]
    left, right = (
        choose.choice((batch + same + "m", in_any_order(reduced + "m"))),
        choose.choice((batch + same + "n", in_any_order(reduced + "n"))),
    )
    return batch + choose.choice(("mn", "nm")), left, right, sizes


def values_of(kernel: Kernel, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = {b.name: tuple(map(int, b.shape)) for b in kernel.buffers[:-1]}
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.mark.parametrize("seed", range(40))
def test_random_products_with_several_reduced_axes(seed: int) -> None:
    out, left, right, sizes = random_product(seed)
    kernel = einsum_kernel(out, left, right, sizes)
    values = values_of(kernel, seed)
    expected = np.einsum(f"{left},{right}->{out}", *(v.astype(np.float64) for v in values.values()))
    for parameters in (frozenset[str](), frozenset("b")):
        schedule = schedule_contraction(kernel, HOST, parameters)
        found = Runner(kernel, schedule=schedule, values=values).run()
        assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()


def shape_of(left: str, right: str, extents: Sequence[int]) -> GemmShape:
    sizes = dict(zip(REDUCED, extents, strict=False)) | {"m": 10, "n": 64}
    shape = describe_contraction(einsum_kernel("mn", left, right, sizes))
    assert isinstance(shape, GemmShape)
    return shape


def test_axes_that_are_one_in_both_operands_are_one_segment() -> None:
    """Two segments would pass their sums through memory."""
    shape = shape_of("pqm", "pqn", (4, 33))
    assert is_readable_in_place(shape)
    (segment,) = reduction(shape, operand(shape, shape.lhs), operand(shape, shape.rhs))
    assert segment.depth == 4 * 33
    assert len(segment.rest) == 4


@pytest.mark.parametrize(
    ("left", "extents", "in_place"),
    [
        ("pmq", (4, 33), False),  # chunks of 8 of each p come before the last product of each
        ("pmq", (4, 32), True),
        ("pmq", (4, 7), True),
        ("qmp", (4, 33), False),  # the left operand determines the order
        ("qpm", (4, 33), False),
        ("pmqs", (4, 3, 11), False),
        ("pmqs", (4, 3, 16), True),
        ("pqms", (4, 3, 16), True),
    ],
)
def test_rows_are_read_in_place_if_segments_read_them_in_order(
    left: str, extents: tuple[int, ...], in_place: bool
) -> None:
    assert is_readable_in_place(shape_of(left, REDUCED[: len(extents)] + "n", extents)) == in_place


def test_weights_at_irregular_distances_are_not_read_in_place() -> None:
    sizes = {"p": 4, "q": 33, "m": 10, "n": 64}
    schedule = TileSchedule(lanes=8, main=RegisterTile(5, 2), last=None, points=10, panels=0, pack=False)
    with pytest.raises(ContractionError, match="kernel: weights at irregular distances cannot be read in place"):
        emit_contraction(einsum_kernel("mn", "pmq", "pqn", sizes), schedule, HOST, ModuleBuilder(HOST), "kernel")


def test_the_row_of_weights_is_that_of_all_segments() -> None:
    inner = [(k, 64 * k) for k in range(33)]
    assert weight_row(plain_segments([(0, 0)], inner)) == 64
    assert weight_row(plain_segments([(0, 0), (33, 64 * 33)], inner)) is None
    assert weight_row(plain_segments([(0, 0), (33, 64 * 33)], inner[:8])) is None
    assert weight_row(plain_segments([(0, 0), (8, 64 * 8)], inner[:8])) == 64
    assert weight_row(plain_segments([(0, 0)], [(0, 0)])) == 0
