"""Lowers reductions that upstream does not: of no elements and along no axis; and windows that are prefixes, which
otherwise would take quadratic time."""

from __future__ import annotations

from typing import Any

from .builder import Builder, Values


def lower_reduce(builder: Builder, op: Any) -> Values | None:
    """The initial values everywhere, if no element is reduced, and the operands if no axis is."""
    inputs, initial = op.operands[: len(op.results)], op.operands[len(op.results) :]
    if not builder.integers(op, "dimensions", ()) and [v.type for v in inputs] == [r.type for r in op.results]:
        return list(inputs)
    if 0 not in inputs[0].type.shape:
        return None
    return [builder.full(builder.extract(x), r.type) for x, r in zip(initial, op.results, strict=True)]


def lower_reduce_window(builder: Builder, op: Any) -> Values | None:
    """Windows that end, or begin, at each element of an axis and contain all elements before, or after, it."""
    shape = list(op.operands[0].type.shape)
    axis = _axis(builder, op, shape)
    if axis is None:
        return None
    count = len(op.results)
    inputs = op.operands[:count]
    initial = [builder.extract(x) for x in op.operands[count:]]
    is_reversed = builder.integers(op, "padding", ())[2 * axis] == 0
    last = shape[axis] - 1

    def combined(known: Values, at: Values) -> Values:
        return builder.applied(op.regions[0], [*known, *(builder.extract(x, at) for x in inputs)])

    def along_rows(outer: Values, carried: Values) -> Values:
        def accumulate(step: Any, carried: Values) -> Values:
            at = [*outer, builder.sub(last, step) if is_reversed else step]
            sums = combined(carried[:count], at)
            return [*sums, *(builder.insert(x, to, at) for x, to in zip(sums, carried[count:], strict=True))]

        return builder.loop(0, last + 1, [*initial, *carried], accumulate)[count:]

    def across_rows(point: Values, carried: Values) -> Values:
        step = point[axis]
        at = _with(point, axis, builder.sub(last, step) if is_reversed else step)
        before = _with(point, axis, _clamped_neighbour(builder, at[axis], last, is_reversed))
        is_first = builder.equal(step, 0)
        known = [
            builder.select(is_first, x, builder.extract(to, before)) for x, to in zip(initial, carried, strict=True)
        ]
        return [builder.insert(x, to, at) for x, to in zip(combined(known, at), carried, strict=True)]

    results = [builder.empty(shape, x.type) for x in initial]
    if axis == len(shape) - 1:
        return builder.nest(shape[:-1], results, along_rows)
    return builder.nest(shape, results, across_rows)


def _with(point: Values, axis: int, k: Any) -> list[Any]:
    return [*point[:axis], k, *point[axis + 1 :]]


def _clamped_neighbour(builder: Builder, k: Any, last: int, is_reversed: bool) -> Any:
    """The coordinate of the element before it in the order of the sum."""
    return builder.least(builder.add(k, 1), last) if is_reversed else builder.greatest(builder.sub(k, 1), 0)


def _axis(builder: Builder, op: Any, shape: list[int]) -> int | None:
    """The axis whose prefixes, or suffixes, are the windows; None for other windows."""
    rank = len(shape)
    window = builder.integers(op, "window_dimensions", ())
    steps = [
        builder.integers(op, name, [1] * rank) for name in ("window_strides", "base_dilations", "window_dilations")
    ]
    padding = builder.integers(op, "padding", [0] * 2 * rank)
    wide = [k for k, n in enumerate(window) if n > 1]
    if steps != [[1] * rank] * 3 or len(wide) != 1 or 0 in shape:
        return None
    axis, n = wide[0], shape[wide[0]]
    edges = padding[2 * axis : 2 * axis + 2]
    others = padding[: 2 * axis] + padding[2 * axis + 2 :]
    return axis if window[axis] == n and edges in ([n - 1, 0], [0, n - 1]) and not any(others) else None
