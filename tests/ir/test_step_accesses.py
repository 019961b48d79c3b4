"""What follows from the accesses of steps: groups of independent steps, and when a value is final."""

from __future__ import annotations

from dataclasses import replace

import pytest
from mxforge.ir.graph import GraphError
from mxforge.ir.places import reading, writing
from mxforge.ir.program import Copy, Fill, HostCall, HostFunction, Launch, Loop, Place, Program, Space, Step
from mxforge.ir.program_graph import launch_order
from mxforge.ir.step_accesses import Range, group_steps, last_accesses, step_accesses
from mxforge.ir.types import DType, TensorType
from mxforge.ir.verifier import verify_program

ROW = TensorType((16,), DType.F32)
IN, OUT, OTHER = Place(Space.INPUT), Place(Space.OUTPUT), Place(Space.OUTPUT, 1)
ARENA = Place(Space.ARENA)
BYTES = ROW.nbytes


def program(*steps: Step) -> Program:
    function = HostFunction(lambda x: [x], (ROW,), (ROW,))
    return Program("p", (ROW,), (ROW, ROW), frozenset(), steps, (), 512, 0, b"", (), (function,))


def computing(source: Place, target: Place) -> Launch:
    return Launch("k", (source, 7, target), 1, 1, accesses=(reading(BYTES), writing(BYTES)))


def groups(*steps: Step) -> tuple[int, ...]:
    found = group_steps(program(*steps))
    verify_program(found)
    return found.groups


def test_independent_steps_are_a_group() -> None:
    assert groups(computing(IN, OUT), computing(IN, OTHER), computing(IN, ARENA), Fill(ARENA.at(64), 64)) == (4,)
    assert groups() == ()


@pytest.mark.parametrize(
    "second",
    [
        computing(OUT, OTHER),  # reads what the first one writes
        computing(ARENA, OUT.at(0)),  # writes it again
        Copy(IN, ARENA, BYTES),  # overwrites what the first one reads
        Launch("k", (OUT, 3), 1, 1),  # accesses that are not known
    ],
)
def test_dependent_steps_are_apart(second: Step) -> None:
    found = replace(program(computing(IN, OUT), second), state=(0,))
    assert group_steps(found).groups == (1, 1)
    with pytest.raises(GraphError, match="in a group with steps on which it depends"):
        verify_program(replace(found, groups=(2,)))


def test_parts_of_a_block_are_independent() -> None:
    parts = [computing(IN, ARENA.at(offset)) for offset in (0, BYTES, 2 * BYTES)]
    assert groups(*parts, computing(ARENA.at(BYTES - 4), OUT)) == (3, 1)


def test_the_host_takes_its_steps_alone() -> None:
    call = HostCall(0, (IN, ARENA))
    assert groups(call, computing(IN, OUT), Loop((computing(IN, OTHER),), 2), computing(IN, ARENA)) == (1, 1, 1, 1)


def test_the_order_of_launches() -> None:
    steps = computing(IN, OUT), computing(IN, ARENA), computing(ARENA, OTHER)
    assert launch_order(program(*steps), steps) == [(1, 2)]
    assert launch_order(program(*steps), steps[:2]) == []
    shared = replace(program(*steps), elementwise=frozenset({0}))  # an output can be where the input is
    assert launch_order(shared, steps) == [(0, 1), (1, 2)]


def test_a_loop_accesses_all_that_its_steps_reach() -> None:
    place, flag = Place(Space.ARENA, 0, 8, (0, -64)), Place(Space.ARENA, 0, 300)
    inner = Launch("k", (place.at(128), OUT), 1, 1, accesses=(reading(16), writing(BYTES)))
    (access,) = step_accesses(program(Loop((Loop((inner,), 3, flag),), 5)))
    assert access.reads == (Range(Space.ARENA, 0, 300, 301), Range(Space.ARENA, 0, 8, 152))
    assert access.writes == (Range(Space.OUTPUT, 0, 0, BYTES),)


def test_the_last_access_is_in_the_step_that_reads_or_writes_last() -> None:
    steps = computing(IN, OUT), Loop((computing(OUT, ARENA),), 2), computing(IN, ARENA)
    assert last_accesses(program(*steps)) == {OUT.index: 1}
