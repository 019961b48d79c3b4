"""From a matrix product to the loop nest's problem: rows are points, columns are channels, batches are groups."""

from __future__ import annotations

from ....ir.types import DType
from ...schedule.describe import GemmShape, extent_of
from ...schedule.product import operand, reduce_order
from ...schedule.strides import Located, View, Walk
from .ending import Ending, end_of
from .problem import Problem, Segment, WeightSource, collapsed, offsets, plain_segments, point_tables


def gemm_walk(shape: GemmShape) -> Walk:
    return Walk(shape.batches, shape.rows or ("",), shape.column)


def gemm_problem(shape: GemmShape) -> tuple[Problem, Ending]:
    kernel = shape.kernel
    walk = gemm_walk(shape)
    extents = {a: extent_of(kernel, a) for a in (*shape.batches, *shape.rows, *shape.inner, shape.column)}
    groups = tuple(extents[a] for a in shape.batches) or (1,)
    points = tuple(extents.get(a, 1) for a in walk.points)
    left, right = operand(shape, shape.lhs), operand(shape, shape.rhs)
    batches = shape.batches or ("",)
    x = View(left.base, tuple(left.strides.get(a, 0) for a in batches), tuple(left.strides.get(a, 0) for a in walk.points), 1, 0)
    weights = WeightSource(
        *(right.base, tuple(right.strides.get(a, 0) for a in batches), right.strides.get(shape.column, 0), 0, extents[shape.column], 1),
        kernel.buffer(shape.rhs.buffer).dtype,
    )
    ending = end_of(kernel, shape.store, Walk(batches, walk.points, walk.channel), groups, points, extents[shape.column])
    points, x, out, loads = collapsed(ending.points, x, ending.out, [v for _, v, _, _ in ending.loads])
    named = tuple((l, v, d, s) for (l, _, d, s), v in zip(ending.loads, loads, strict=True))
    tables = point_tables(x, [out, *loads])
    dtype = DType.F64 if shape.dtype is DType.F64 else DType.F32
    problem = Problem(
        *(dtype, groups, points, extents[shape.column], x, reduction(shape, left, right), weights, out, ending.out_dtype, named),
        ending.finish(tables, out, loads),
        *(kernel.buffers.index(kernel.buffer(b)) for b in (shape.lhs.buffer, shape.rhs.buffer)),
        ending.out_slot,
    )
    return problem, ending


def reduction(shape: GemmShape, left: Located, right: Located) -> tuple[Segment, ...]:
    """The reduction with the axis along which the left operand is densest innermost."""
    axes = reduce_order(shape)
    sizes = [extent_of(shape.kernel, a) for a in axes]
    x = [left.strides.get(a, 0) for a in axes]
    w = [right.strides.get(a, 0) for a in axes]
    outer = list(zip(offsets(tuple(sizes[:-1]), tuple(x[:-1])), offsets(tuple(sizes[:-1]), tuple(w[:-1])), strict=True))
    inner = [(i * x[-1], i * w[-1]) for i in range(sizes[-1])]
    return plain_segments(outer, inner)

