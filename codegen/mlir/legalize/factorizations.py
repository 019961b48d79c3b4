"""Lowers `stablehlo.cholesky` and `stablehlo.triangular_solve` to loops over rows."""

from __future__ import annotations

from typing import Any

from .builder import Builder, Values
from .floats import Floats


def lower_cholesky(builder: Builder, op: Any) -> Values:
    """Row by row; NaN from the first row whose pivot is not positive, and zeros in the other triangle."""
    (x,) = op.operands
    is_lower = _flag(op, "lower")
    *batch, n, _ = x.type.shape
    floats = Floats(builder, x.type.element_type)

    def factor(outer: Values, carried: Values) -> Values:
        def place(row: Any, column: Any) -> list[Any]:
            return [*outer, row, column] if is_lower else [*outer, column, row]

        def compute_row(i: Any, carried: Values) -> Values:
            def compute(j: Any, carried: Values) -> Values:
                (factor,) = carried

                def subtract(k: Any, rest: Values) -> Values:
                    left, right = (builder.extract(factor, place(row, k)) for row in (i, j))
                    return [floats.sub(rest[0], floats.mul(left, right))]

                (rest,) = builder.loop(0, j, [builder.extract(x, place(i, j))], subtract)
                (element,) = builder.branch(
                    builder.equal(i, j),
                    lambda: [_pivot(builder, floats, rest)],
                    lambda: [floats.div(rest, builder.extract(factor, place(j, j)))],
                    [rest.type],
                )
                return [builder.insert(element, factor, place(i, j))]

            return builder.loop(0, builder.add(i, 1), carried, compute)

        return builder.loop(0, n, carried, compute_row)

    return builder.nest(batch, [builder.full(floats.constant(0.0), x.type)], factor)


def lower_triangular_solve(builder: Builder, op: Any) -> Values:
    """Substitution, one row of the solution after the other."""
    a, b = op.operands
    is_left, is_lower, has_unit_diagonal = (_flag(op, name) for name in ("left_side", "lower", "unit_diagonal"))
    is_transposed = ("NO_TRANSPOSE" not in str(op.attributes["transpose_a"])) == is_left  # x a = b is a^T x^T = b^T
    is_downward = is_lower != is_transposed
    *batch, rows, columns = b.type.shape
    n, m = (rows, columns) if is_left else (columns, rows)
    floats = Floats(builder, a.type.element_type)

    def solve(outer: Values, carried: Values) -> Values:
        def coefficient(i: Any, k: Any) -> Any:
            return builder.extract(a, [*outer, k, i] if is_transposed else [*outer, i, k])

        def place(i: Any, j: Any) -> list[Any]:
            return [*outer, i, j] if is_left else [*outer, j, i]

        def solve_row(step: Any, carried: Values) -> Values:
            i = step if is_downward else builder.sub(n - 1, step)

            def eliminate(step: Any, carried: Values) -> Values:
                k = step if is_downward else builder.sub(n - 1, step)
                factor = coefficient(i, k)

                def subtract(j: Any, carried: Values) -> Values:
                    (x,) = carried
                    at, known = place(i, j), builder.extract(x, place(k, j))
                    rest = floats.sub(builder.extract(x, at), floats.mul(factor, known))
                    return [builder.insert(rest, x, at)]

                return builder.loop(0, m, carried, subtract)

            carried = builder.loop(0, step, carried, eliminate)
            if has_unit_diagonal:
                return carried
            pivot = coefficient(i, i)

            def divide(j: Any, carried: Values) -> Values:
                (x,) = carried
                at = place(i, j)
                return [builder.insert(floats.div(builder.extract(x, at), pivot), x, at)]

            return builder.loop(0, m, carried, divide)

        return builder.loop(0, n, carried, solve_row)

    return builder.nest(batch, [b], solve)


def _pivot(builder: Builder, floats: Floats, x: Any) -> Any:
    """The square root; NaN for what is not positive."""
    is_positive = floats.greater(x, floats.constant(0.0))
    return builder.select(is_positive, floats.sqrt(x), floats.constant(float("nan")))


def _flag(op: Any, name: str) -> bool:
    return name in op.attributes and bool(op.attributes[name].value)
