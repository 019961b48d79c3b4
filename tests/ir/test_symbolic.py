"""Symbolic numbers: results, guards, and evaluation for other values."""

from __future__ import annotations

import random
from dataclasses import dataclass
from math import ceil, prod
from typing import Any

import numpy as np
import pytest
from mxforge.ir.attributes import attribute_text
from mxforge.ir.symbol_bounds import largest
from mxforge.ir.symbolic import (
    Trace,
    concrete,
    deferred,
    is_symbolic,
    known_equal,
    known_same,
    named_symbols,
    typical,
    without_guards,
)


def unknowns(*values: int) -> tuple[Trace, list[int]]:
    trace = Trace()
    return trace, [trace.unknown(v) for v in values]


def test_numbers_are_computed_for_other_values() -> None:
    trace, (n, m) = unknowns(10, 7)
    evaluate = trace.evaluator((n * m + 3, -(-n // 8), n % 4, prod((n, m, 64)), ceil(n / 3), divmod(n, m), -n))
    assert evaluate(10, 7) == (73, 2, 2, 4480, 4, (1, 3), -10)
    assert evaluate(33, 5) == (168, 5, 1, 10560, 11, (6, 3), -33)
    assert trace.guards == 0


def test_a_comparison_is_a_guard() -> None:
    trace, (n,) = unknowns(10)
    result = n * 2 if n > 4 else 0
    evaluate = trace.evaluator(result)
    assert evaluate(5) == 10
    assert evaluate(4) is None


@pytest.mark.parametrize(
    "use",
    [range, int, float, str, hex, lambda n: f"{n}", np.zeros, lambda n: "x" * n, lambda n: [0][n - 3]],
)
def test_uses_of_a_plain_number_record_its_value(use: Any) -> None:
    trace, (n,) = unknowns(3)
    use(n)
    evaluate = trace.evaluator(n + 1)
    assert evaluate(3) == 4
    assert evaluate(2) is None


def test_a_symbolic_integer_is_an_int_for_isinstance_and_patterns() -> None:
    _, (n,) = unknowns(3)
    assert isinstance(n, int)
    assert is_symbolic(n)
    match n:
        case int():
            pass
        case _:
            pytest.fail("no int")


def test_equal_polynomials_are_one_number() -> None:
    trace, (n, m) = unknowns(10, 7)
    assert (n + 1) * m is m * n + m
    assert (n + m) - m is n
    assert (n * 64) // 16 is n * 4
    assert (n * 64) % 16 == 0
    assert known_equal(n * (m * 2), 2 * n * m)
    assert not known_equal(n, m)
    assert trace.guards == 0


def test_comparisons_that_hold_for_all_values_are_not_guards() -> None:
    trace, (n,) = unknowns(10)
    assert n + 1 > n
    assert n * 2 == n + n
    assert n != n + 1
    assert trace.guards == 0


def test_equal_keys_of_a_table_are_guards() -> None:
    trace, (n, m) = unknowns(4, 4)
    table = {(1, n): "found"}
    assert table[1, m] == "found"
    evaluate = trace.evaluator(n)
    assert evaluate(5, 5) == 5
    assert evaluate(5, 6) is None


def test_a_deferred_function_is_called_again_without_guards() -> None:
    def pair(sizes: tuple[int, ...], least: int) -> tuple[int, tuple[int, ...]]:
        return max(least, min(sizes)), tuple(sorted(sizes))

    trace, (n, m) = unknowns(10, 7)
    smallest, (first, second) = deferred(pair, (n, m), 2)
    evaluate = trace.evaluator((smallest, first + second))
    assert concrete((smallest, first, second)) == (7, 7, 10)
    assert evaluate(3, 50) == (3, 53)
    assert trace.guards == 0
    assert deferred(pair, (4, 3), 2) == (3, (3, 4))


def test_results_are_built_from_dataclasses() -> None:
    @dataclass(frozen=True)
    class Pair:
        left: int
        right: object

    trace, (n,) = unknowns(2)
    same = Pair(1, "kept")
    evaluate = trace.evaluator((Pair(n, (n * n, "text")), same))
    built, kept = evaluate(3)
    assert built == Pair(3, (9, "text"))
    assert kept is same


def test_names_instead_of_values_for_keys_of_one_trace() -> None:
    trace, (n,) = unknowns(2)
    with named_symbols():
        assert f"{n}" == repr(n) == n.name  # type: ignore[attr-defined]
    assert trace.guards == 0


def test_numbers_of_two_traces_do_not_mix() -> None:
    (_, (n,)), (_, (m,)) = unknowns(2), unknowns(2)
    with pytest.raises(TypeError, match="two traces"):
        _ = n + m


def _random_result(draw: random.Random, numbers: list[int]) -> list[int]:
    """Numbers that a random program computes from `numbers`; its decisions depend on them."""
    values = list(numbers)
    for _ in range(25):
        a, b = draw.choice(values), draw.choice([*values, draw.randint(-4, 9)])
        match draw.randrange(8):
            case 0:
                values.append(a + b)
            case 1:
                values.append(a - b)
            case 2:
                values.append(a * b if abs(a) < 1000 else a)
            case 3:
                values.append(a // b if b else a)
            case 4:
                values.append(a % b if b > 0 else b)
            case 5:
                values.append(max(a, b))
            case 6:
                values.append(deferred(max, a, b) - a)
            case _:
                values.append(sum(range(a)) if 0 < a < 9 else a + 1)
    return values


@pytest.mark.parametrize("seed", range(200))
def test_random_programs_agree_with_plain_integers(seed: int) -> None:
    trace, numbers = unknowns(5, 8, 13)
    evaluate = trace.evaluator(tuple(_random_result(random.Random(seed), numbers)))
    held = 0
    for k in range(60):
        values = [5 + k % 4, 8 + k % 3, 13 + k % 5]
        found = evaluate(*values)
        if found is not None:
            assert list(found) == _random_result(random.Random(seed), values)
            held += 1
    assert held


def test_constants_are_known_to_results_and_not_to_code() -> None:
    trace = Trace()
    n, c = trace.unknown(10), trace.constant(3)
    assert is_symbolic(c)
    results = (n * c, c * c, (c, (c + 1, "text")), 2 if c > 2 else n)
    evaluate = trace.evaluator(results)
    assert evaluate(4) == (12, 9, (3, (4, "text")), 2)
    assert trace.guards == 0
    assert evaluate(4)[2] is evaluate(5)[2]


def test_floats_are_equal_only_if_they_are_one_number() -> None:
    trace = Trace()
    h, w = trace.unknown(4), trace.unknown(5)
    half: Any = (h - 1) / 2
    other: Any = (w - 1) / 2
    assert not known_equal(half, other)
    same: Any = (h - 1) / 2
    assert known_equal(half, same)
    with without_guards():
        assert half != other
    assert not trace.guards


def test_extents_that_a_guard_requires_to_be_equal_are_equal() -> None:
    trace = Trace()
    n, m, channels = trace.unknown(6), trace.unknown(6), trace.constant(3)
    assert not known_equal(n * 3, m * channels)
    assert n == m
    assert known_equal(n * 3, m * channels)
    assert known_same((n, 4), (m, 4))
    assert not known_same((n, 4), (m,))
    assert trace.guards == 1


def test_typical_numbers_do_not_depend_on_values() -> None:
    numbers: list[int] = []
    for value in (3, 700):
        trace = Trace()
        n, m = trace.unknown(value), trace.unknown(5)
        assert m == trace.constant(5)
        numbers += [typical(n * 4 * m), typical(-(-n // 8))]
        assert typical(7) == 7
    assert numbers == [640, 4, 640, 4]


def test_numbers_of_numpy_are_written_as_python_s() -> None:
    trace = Trace()
    n = trace.unknown(4)
    evaluate = trace.evaluator((n * np.float64(0.5), n + np.int64(3)))
    assert evaluate(10) == (5.0, 13)


def test_the_largest_rest_of_a_division() -> None:
    _, (n,) = unknowns(10)
    outputs = (n + 2 - 3) // 2 + 1
    assert largest(n + 4 - 2 * outputs) == 4
    assert [largest(number) for number in (7, n, n - 3 * outputs, n * 2)] == [7, None, None, None]
    assert largest(n % 2) is None  # not needed so far


def test_floats_change_no_integer() -> None:
    trace = Trace()
    n = trace.unknown(7)
    results = n * 1.0, n - 1.0, n + 2.0, n // 1.0
    assert [float(r) for r in map(concrete, results)] == [7.0, 6.0, 9.0, 7.0]
    assert trace.evaluator(results)(9) == (9.0, 8.0, 11.0, 9.0)


def test_attributes_are_printed_with_their_values() -> None:
    trace, (n,) = unknowns(6)
    assert attribute_text(n) == attribute_text(6) and trace.guards == 0
