"""Tests in groups run every case, and name each that fails."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from grouped import grouped


def parity(number: int) -> str:
    return "odd" if number % 2 else "even"


@grouped("number", range(7), by=parity)
@pytest.mark.parametrize("factor", [1, 10])
def test_a_group_is_a_parameter_beside_others(number: int, factor: int, request: pytest.FixtureRequest) -> None:
    assert parity(number) in request.node.name and str(factor) in request.node.name


def test_every_case_runs_in_the_order_of_its_group() -> None:
    seen: list[int] = []

    def see(number: int) -> None:
        seen.append(number)

    function: Any = grouped("number", range(7), by=parity)(see)
    function(group="even")
    function(group="odd")
    assert seen == [0, 2, 4, 6, 1, 3, 5]


def check(number: int, bound: int) -> None:
    if number == 0:
        pytest.skip("nothing to test")
    assert number < bound


def test_each_case_that_fails_is_named() -> None:
    function: Any = grouped("number", range(6), by=lambda n: "all")(check)
    assert list(inspect.signature(function).parameters) == ["group", "bound"]
    with pytest.raises(ExceptionGroup, match="3 of 6 cases fail:\n0\n4\n5") as raised:
        function(group="all", bound=4)
    assert "the case skips" in str(raised.value.exceptions[0])
    assert [error.__notes__ for error in raised.value.exceptions] == [[f"The case is {n}"] for n in (0, 4, 5)]
