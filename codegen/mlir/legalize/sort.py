"""Lowers `stablehlo.sort` to a merge sort."""

from __future__ import annotations

from typing import Any

from .builder import Builder, Values


def lower_sort(builder: Builder, op: Any) -> Values:
    """Each row along the dimension is copied into a row of memory, sorted there, and copied into the results.

    Sorted runs of 1, 2, 4, ... elements are merged. A pair of merges goes to another row and back.
    """
    operands, shape = list(op.operands), list(op.operands[0].type.shape)
    axis = (op.attributes["dimension"].value if "dimension" in op.attributes else -1) % len(shape)
    n, count = shape[axis], len(operands)
    if n <= 1:
        return operands
    twin = op.operation.clone()  # its comparator is that of the second merge
    elements = [v.type.element_type for v in operands]
    results = [builder.empty(shape, e) for e in elements]
    rows = [builder.empty([n], e) for e in elements * 2]

    def sort_row(outer: Values, carried: Values) -> Values:
        def place(k: Any) -> list[Any]:
            return [*outer[:axis], k, *outer[axis:]]

        def read(k: Any, row: Values) -> Values:
            return [builder.insert(builder.extract(x, place(k)), to, [k]) for x, to in zip(operands, row, strict=True)]

        def write(k: Any, tensors: Values) -> Values:
            return [builder.insert(builder.extract(x, [k]), to, place(k)) for x, to in zip(row, tensors, strict=True)]

        def merge_twice(pair: Any, rows: Values) -> Values:
            width = builder.shift_left(1, builder.mul(pair, 2))
            row, other = rows[:count], rows[count:]
            other = _merged(builder, op.regions[0], row, other, n, width)
            row = _merged(builder, twin.regions[0], other, row, n, builder.mul(width, 2))
            return [*row, *other]

        tensors, row, other = carried[:count], carried[count : 2 * count], carried[2 * count :]
        row = builder.loop(0, n, row, read)
        pairs = -(-(n - 1).bit_length() // 2)
        rows = builder.loop(0, pairs, [*row, *other], merge_twice)
        row = rows[:count]
        return [*builder.loop(0, n, tensors, write), *rows]

    sorted_rows = builder.nest([*shape[:axis], *shape[axis + 1 :]], [*results, *rows], sort_row)
    twin.erase()
    return sorted_rows[:count]


def _merged(builder: Builder, precedes: Any, row: Values, other: Values, n: int, width: Any) -> Values:
    """`other` with the runs of `width` elements of a row merged in pairs. Of equal elements the first is first."""

    def merge(start: Any, other: Values) -> Values:
        middle = builder.least(builder.add(start, width), n)
        end = builder.least(builder.add(middle, width), n)

        def step(k: Any, carried: Values) -> Values:
            left, right, *other = carried
            left_at, right_at = builder.least(left, n - 1), builder.least(right, n - 1)
            candidates = [builder.extract(x, [at]) for x in row for at in (right_at, left_at)]
            (right_first,) = builder.applied(precedes, candidates)
            is_left = builder.both(
                builder.less(left, middle),
                builder.either(builder.negation(builder.less(right, end)), builder.negation(right_first)),
            )
            chosen = [builder.select(is_left, candidates[2 * i + 1], candidates[2 * i]) for i in range(len(row))]
            step = builder.to_number(is_left)
            following = [builder.add(left, step), builder.add(right, builder.sub(1, step))]
            return [*following, *(builder.insert(x, to, [k]) for x, to in zip(chosen, other, strict=True))]

        return builder.loop(start, end, [start, middle, *other], step)[2:]

    return builder.loop(0, n, other, merge, builder.mul(width, 2))
