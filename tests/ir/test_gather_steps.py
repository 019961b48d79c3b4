"""Steps move before others that they do not depend on, to the first group of their kind."""

from __future__ import annotations

from mxforge.ir.gather_steps import gather_steps
from mxforge.ir.places import reading, writing
from mxforge.ir.program import Copy, Launch, Place, Program, Space, Step


def arena(offset: int) -> Place:
    return Place(Space.ARENA, 0, offset)


def launch(symbol: str, source: Place, target: Place) -> Launch:
    return Launch(symbol, (source, target), 1, 1, accesses=(reading(16), writing(16)))


def gathered(*steps: Step) -> list[list[str]]:
    program = Program("p", (), (), frozenset(), steps, (), 256, 0, b"", ())
    groups = gather_steps(program, steps, lambda step: step.symbol[:-1] if isinstance(step, Launch) else "")
    return [[getattr(step, "symbol", "copy") for step in group] for group in groups]


def test_independent_steps() -> None:
    steps = [launch(name, arena(32 * i), arena(32 * i + 16)) for i, name in enumerate(("a0", "b0", "a1", "b1"))]
    assert gathered(*steps) == [["a0", "a1"], ["b0", "b1"]]


def test_a_step_follows_what_it_reads() -> None:
    first, second = launch("a0", arena(0), arena(16)), launch("a1", arena(16), arena(32))
    assert gathered(first, second) == [["a0"], ["a1"]]
    assert gathered(first, second, launch("a2", arena(48), arena(64))) == [["a0", "a2"], ["a1"]]


def test_a_step_follows_what_reads_the_memory_that_it_writes() -> None:
    assert gathered(launch("a0", arena(0), arena(16)), launch("a1", arena(32), arena(0))) == [["a0"], ["a1"]]
    copy = Copy(arena(48), arena(64), 16)
    assert gathered(launch("a0", arena(0), arena(64)), copy, launch("a1", arena(32), arena(64))) == [
        ["a0"],
        ["copy"],
        ["a1"],
    ]


def test_a_step_that_is_alone_moves_to_a_later_group() -> None:
    copy = Copy(arena(48), arena(64), 16)
    steps = launch("a0", arena(0), arena(16)), copy, launch("a1", arena(48), arena(80))
    assert gathered(*steps) == [["copy"], ["a1", "a0"]]


def test_a_group_has_the_kinds_of_all_its_steps() -> None:
    steps = [launch(name, arena(32 * i), arena(32 * i + 16)) for i, name in enumerate(("ab0", "b1", "a2", "a3"))]
    assert gathered(*steps) == [["ab0", "b1"], ["a2", "a3"]]
