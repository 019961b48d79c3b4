"""Converts a matrix product to a `Problem`, the form that the loop nest of contractions computes.

Rows of the product are points, columns are channels, batches are groups.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ...emission import LaunchSpec
from ..emitter import ModuleBuilder
from ..scalars import emit_cast
from ..schedule.describe import NO_AXIS, GemmShape, axes_of, extent_of
from ..schedule.product import PACKED_ROWS, operand, reduce_order, reduction
from ..schedule.strides import Located, View, Walk
from ..types import memory_type_of
from .epilogue import make_epilogue
from .packed_rows import PackedRows
from .problem import Problem, WeightSource, collapsed
from .tiles import KERNEL_PARAMETERS, argument, workspace_slot


def gemm_problem(shape: GemmShape, left_form: PackedRows | None = None) -> Problem:
    """The problem of a product, whose left operand is read in the packed form if there is one."""
    kernel = shape.kernel
    walk = gemm_walk(shape)
    extents = {a: extent_of(kernel, a) for a in (NO_AXIS, *shape.batches, *shape.rows, shape.column)}
    groups, points = tuple(extents[a] for a in walk.groups), tuple(extents[a] for a in walk.points)
    channels = extents[shape.column]
    left, right = operand(shape, shape.lhs), operand(shape, shape.rhs)
    placed = (
        widened_place(shape) if is_widened(shape) else left if left_form is None else _packed_place(shape, left_form)
    )
    x = View(
        base=placed.base,
        groups=tuple(placed.strides.get(a, 0) for a in walk.groups),
        points=tuple(placed.strides.get(a, 0) for a in walk.points),
        block=1,
        stride=0,
    )
    epilogue = make_epilogue(kernel, walk, groups=groups, points=points, channels=channels)
    points, x, epilogue = collapsed(points, x, epilogue)
    x_points = points
    if left_form is not None:
        x = replace(x, points=(left_form.depth * PACKED_ROWS, 1))
        x_points = (left_form.blocks, PACKED_ROWS)
    rhs = kernel.buffer(shape.rhs.buffer)
    return Problem(
        dtype=shape.accumulator,
        groups=groups,
        points=points,
        channels=channels,
        x=x,
        x_points=x_points,
        x_slot=workspace_slot(kernel) if is_widened(shape) else kernel.buffers.index(kernel.buffer(shape.lhs.buffer)),
        segments=reduction(shape, placed, right),
        weights=WeightSource(
            base=right.base,
            groups=tuple(right.strides.get(a, 0) for a in walk.groups),
            filter=right.strides.get(shape.column, 0),
            filters=channels,
            dtype=rhs.dtype,
            parts=tuple(operand(shape, load).base - right.base for load in shape.parts),
            rounded=shape.weights,
        ),
        w_slot=kernel.buffers.index(rhs),
        epilogue=epilogue,
    )


def _packed_place(shape: GemmShape, form: PackedRows) -> Located:
    """The addresses of the packed left operand, without those of its rows."""
    inner, strides = reduce_order(shape), dict[str, int]()
    for k, a in enumerate(inner):
        strides[a] = PACKED_ROWS * prod(n for n, _ in form.inner[k + 1 :])
    for k, a in enumerate(shape.batches):
        strides[a] = form.group_size * prod(n for n, _ in form.groups[k + 1 :])
    return Located(base=0, strides=strides, channel={}, block=0, block_stride=0)


def gemm_walk(shape: GemmShape) -> Walk:
    return Walk(groups=shape.batches or (NO_AXIS,), points=shape.rows or (NO_AXIS,), channel=shape.column)


def is_widened(shape: GemmShape) -> bool:
    """True if the left operand has another dtype than the sums. It is then first converted into the workspace, because
    the micro-kernel broadcasts single elements.
    """
    return shape.dtype is not shape.accumulator


def widened_axes(shape: GemmShape) -> list[str]:
    """The axes of the left operand's copy, outermost first. A scalar has one axis, of one element."""
    used = axes_of(shape.lhs)
    return [*(a for a in (*shape.batches, *shape.rows) if a in used), *reduce_order(shape)] or [NO_AXIS]


def widened_place(shape: GemmShape) -> Located:
    axes = widened_axes(shape)
    sizes = [extent_of(shape.kernel, a) for a in axes]
    strides = {a: prod(sizes[k + 1 :]) for k, a in enumerate(axes)}
    return Located(base=0, strides=strides, channel={}, block=0, block_stride=0)


def widened_elements(shape: GemmShape) -> int:
    return prod(extent_of(shape.kernel, a) for a in widened_axes(shape)) if is_widened(shape) else 0


def emit_widening(module: ModuleBuilder, shape: GemmShape, symbol: str) -> LaunchSpec:
    """A launch over the rows of the left operand that converts them to the dtype of the sums, into the start of the
    workspace."""
    axes = widened_axes(shape)
    sizes, left = [extent_of(shape.kernel, a) for a in axes], operand(shape, shape.lhs)
    f = module.function(symbol, None, KERNEL_PARAMETERS)
    memory, wide = memory_type_of(shape.dtype), memory_type_of(shape.accumulator)
    source = f.gep(argument(f, shape.kernel.buffers.index(shape.kernel.buffer(shape.lhs.buffer))), left.base, memory)
    copy = argument(f, workspace_slot(shape.kernel))
    with f.loop(f.args[1], f.args[2]) as row:
        start, rest = source, row
        for a, n in reversed(list(zip(axes[:-1], sizes[:-1], strict=True))):
            start = f.gep(start, f.urem(rest, n) * left.strides.get(a, 0), memory)
            rest = f.udiv(rest, n)
        with f.loop(0, sizes[-1]) as i:
            value = f.load(f.gep(start, i * left.strides.get(axes[-1], 0), memory), memory)
            f.store(emit_cast(f, value, shape.dtype, shape.accumulator), f.gep(copy, row * sizes[-1] + i, wide))
    f.ret()
    return LaunchSpec(symbol, prod(sizes[:-1]), max(1, 4096 // sizes[-1]))
