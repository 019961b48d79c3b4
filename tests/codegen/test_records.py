"""The words of a program's steps: records, tables, and the words that hold addresses."""

from __future__ import annotations

from mxforge.codegen.records import BRANCH, COPY, FILL, LOOP, PIECES, RECORD_WORDS, Layout
from mxforge.ir.program import Branch, Copy, Fill, Launch, Loop, Place, Space

IN, OUT = Place(Space.INPUT), Place(Space.OUTPUT, 1, 16)
ARENA = Place(Space.ARENA, 0, 8)


def kernels(layout: Layout) -> dict[int, str]:
    return dict(layout.kernels)


def test_records_come_first_and_point_to_tables() -> None:
    launch = Launch("k", (IN, 7, OUT), 100, 10)
    layout = Layout([launch], [(Copy(OUT, ARENA, 64),), (Fill(ARENA, 32),)])
    assert kernels(layout) == {0: "k", RECORD_WORDS: COPY, 2 * RECORD_WORDS: FILL}
    tables = dict(layout.links)
    assert [tables[RECORD_WORDS * i + 1] for i in range(3)] == [12, 15, 17]
    assert layout.words.tolist()[12:] == [0, 7, 0, 0, 0, 0]
    assert layout.words.tolist()[2:4] == [100, 10] and layout.words[6] == 64 and layout.words[10] == 32
    assert layout.memory == {
        (Space.INPUT, 0): [(12, 0)],
        (Space.OUTPUT, 1): [(14, 16), (15, 16)],
        (Space.ARENA, 0): [(16, 8), (17, 8)],
    }
    assert layout.operands(1, 2) == [[(12, 0)], (), [(14, 16), (15, 16)]]
    assert [placed.table for placed in (*layout.prepare, *layout.steps)] == [12, 15, 17]


def test_a_group_is_a_record_of_pieces() -> None:
    launches = [Launch("a", (IN,), 25, 10), Launch("b", (OUT,), 5, 10)]
    layout = Layout([], [launches])
    found = kernels(layout)
    assert found[0] == PIECES and layout.words[2] == 4
    pieces = dict(layout.links)[1]
    words = [pieces + RECORD_WORDS * i for i in range(4)]
    assert [found[word] for word in words] == ["a", "a", "a", "b"]
    assert [tuple(layout.words[word + 2 : word + 4]) for word in words] == [(0, 10), (10, 20), (20, 25), (0, 5)]
    assert len(layout.steps) == 2
    alone = Layout([], [launches], shared=False)
    assert alone.words[3] == 4 and layout.words[3] == 1  # the grain: one thread runs all pieces


def test_a_loop_moves_words_of_its_body() -> None:
    moving = Place(Space.INPUT, 0, 0, strides=(4, 2))
    inner = Loop((Launch("k", (moving, OUT), 1, 1),), 3)
    layout = Layout([], [(Loop((inner,), 5, flag=ARENA),)])
    (outer,) = layout.steps
    ((placed,),) = outer.inside
    ((launch,),) = placed.inside
    assert outer.moves == ((launch.table, 4),) and placed.moves == ((launch.table, 2),)
    links = dict(layout.links)
    assert kernels(layout)[0] == LOOP and links[1] == outer.table
    assert layout.words[outer.table : outer.table + 5].tolist() == [0, 5, 0, 1, 1]
    assert kernels(layout)[links[outer.table + 2]] == LOOP
    assert links[outer.table + 5] == launch.table and layout.words[outer.table + 6] == 4
    assert layout.memory[Space.ARENA, 0] == [(outer.table, 8)]


def test_a_branch_has_two_lists() -> None:
    layout = Layout([], [(Branch(ARENA, (Fill(OUT, 8),), (Fill(IN, 8), Fill(OUT, 8))),)])
    (branch,) = layout.steps
    assert kernels(layout)[0] == BRANCH and [len(steps) for steps in branch.inside] == [1, 2]
    assert [layout.words[branch.table + i] for i in (2, 4)] == [1, 2]
    links = dict(layout.links)
    assert [kernels(layout)[links[branch.table + i]] for i in (1, 3)] == [FILL, FILL]
