"""Lowers `stablehlo.scatter` and `stablehlo.select_and_scatter` to loops over the updates, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .builder import Builder, Values


def lower_scatter(builder: Builder, op: Any) -> Values:
    """Windows in row-major order, and the elements of each; those outside of the operands are skipped."""
    count = len(op.results)
    inputs, indices, updates = op.operands[:count], op.operands[count], op.operands[count + 1 :]
    numbers = builder.stablehlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    indices = builder.signless(indices)
    extents, shape = inputs[0].type.shape, updates[0].type.shape
    window_axes = list(numbers.update_window_dims)
    scatter_axes = [k for k in range(len(shape)) if k not in window_axes]
    placed = (*numbers.inserted_window_dims, *numbers.input_batching_dims)
    windowed = [d for d in range(len(extents)) if d not in placed]

    def scatter_window(position: Values, carried: Values) -> Values:
        start = _start(builder, numbers, indices, position)

        def scatter_element(offset: Values, carried: Values) -> Values:
            target = dict(start)
            for d, k in zip(windowed, offset, strict=True):
                target[d] = builder.add(start[d], k) if d in start else k
            at = [target.get(d, 0) for d in range(len(extents))]
            return builder.when(
                [builder.inside(at[d], extents[d]) for d in windowed if d in start],
                lambda: store(at, [*_merge(scatter_axes, position, window_axes, offset)], carried),
                carried,
            )

        return builder.when(
            [builder.inside(start[d], extents[d]) for d in start if d not in windowed],
            lambda: builder.nest([shape[k] for k in window_axes], carried, scatter_element),
            carried,
        )

    def store(at: Values, source: Values, carried: Values) -> Values:
        before = [builder.extract(x, at) for x in carried]
        results = builder.applied(op.regions[0], [*before, *(builder.extract(x, source) for x in updates)])
        return [builder.insert(r, x, at) for r, x in zip(results, carried, strict=True)]

    return builder.nest([shape[k] for k in scatter_axes], list(inputs), scatter_window)


def _start(builder: Builder, numbers: Any, indices: Any, position: Values) -> dict[int, Any]:
    """The coordinates of a window's first element in the operand, by dimension; no entry is 0."""
    vector = numbers.index_vector_dim
    start: dict[int, Any] = {}
    for component, d in enumerate(numbers.scattered_dims_to_operand_dims):
        at = list(position)
        if vector < indices.type.rank:
            at.insert(vector, component)
        start[d] = builder.to_index(builder.extract(indices, at))
    for d, k in zip(numbers.input_batching_dims, numbers.scatter_indices_batching_dims, strict=True):
        start[d] = position[k - (k > vector)]
    return start


def _merge(axes: Sequence[int], position: Values, other_axes: Sequence[int], offset: Values) -> Values:
    """The coordinates of two lists of axes, in the order of the axes."""
    known = dict(zip((*axes, *other_axes), (*position, *offset), strict=True))
    return [known[k] for k in sorted(known)]


def lower_select_and_scatter(builder: Builder, op: Any) -> Values:
    """Each element of the source is combined with the element of its window that the first region selects."""
    operand, source, init = op.operands
    rank, extents = operand.type.rank, operand.type.shape
    window = builder.integers(op, "window_dimensions", [1] * rank)
    strides = builder.integers(op, "window_strides", [1] * rank)
    low = builder.integers(op, "padding", [0] * 2 * rank)[::2]
    select, combine = op.regions
    initial = builder.extract(init)

    def visit(point: Values, carried: Values) -> Values:
        first = [builder.sub(builder.mul(p, s), lo) for p, s, lo in zip(point, strides, low, strict=True)]

        def compare(offset: Values, state: Values) -> Values:
            at = [builder.add(p, k) for p, k in zip(first, offset, strict=True)]

            def select_one() -> Values:
                found, best, *place = state
                element = builder.extract(operand, at)
                kept = builder.both(found, *builder.applied(select, [best, element]))
                chosen = [builder.select(kept, x, y) for x, y in zip((best, *place), (element, *at), strict=True)]
                return [builder.truth(True), *chosen]

            return builder.when([builder.inside(p, n) for p, n in zip(at, extents, strict=True)], select_one, state)

        nothing = [builder.truth(False), initial, *(builder.index(0) for _ in extents)]
        found, _, *place = builder.nest(window, nothing, compare)

        def store() -> Values:
            (result,) = carried
            elements = [builder.extract(result, place), builder.extract(source, point)]
            (combined,) = builder.applied(combine, elements)
            return [builder.insert(combined, result, place)]

        return builder.when([found], store, carried)

    return builder.nest(source.type.shape, [builder.full(initial, operand.type)], visit)
