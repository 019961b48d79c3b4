"""Programs of programs: the steps before and after, as printed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from mxforge.ir.places import Access, reading, writing
from mxforge.ir.program import Branch, Copy, Fill, Launch, Loop, Place, Program, Space, Step, nested_steps
from mxforge.ir.program_combination import Use, parallel, sequence
from mxforge.ir.program_rewrite import bind, map_places, preparation
from mxforge.ir.types import DType, TensorType
from mxforge.ir.verifier import verify_program

ROW = TensorType((16,), DType.F32)
BYTES = ROW.nbytes


def program(name: str, *steps: Step, inputs: int = 1, outputs: int = 1, **fields: object) -> Program:
    made = Program(
        name=name,
        inputs=(ROW,) * inputs,
        outputs=(ROW,) * outputs,
        parameters=frozenset(),
        steps=steps,
        prepare=(),
        arena_bytes=0,
        prepared_bytes=0,
        constants=b"",
        code=(name.encode(),),
    )
    return replace(made, **fields)  # type: ignore[arg-type]


def launch(symbol: str, *places: Place, accesses: tuple[Access, ...] = ()) -> Launch:
    return Launch(symbol, places, 1, 1, accesses=accesses)


def at(space: Space, index: int = 0, offset: int = 0) -> Place:
    return Place(space, index, offset)


IN, OUT, ARENA, PREPARED, CONSTANT = Space.INPUT, Space.OUTPUT, Space.ARENA, Space.PREPARED, Space.CONSTANT
TWICE = program("twice", launch("k_2", at(IN), at(OUT)))
SCALE = program(
    "scale",
    launch("k_mul", at(IN), at(PREPARED, 0, 4), at(CONSTANT, 0, 8), at(ARENA), at(OUT)),
    inputs=2,
    prepare=(launch("k_pack", at(IN, 1), at(PREPARED)),),
    parameters=frozenset({1}),
    arena_bytes=100,
    prepared_bytes=64,
    constants=b"0123456789abcdef",
)
RETURN = program("return", launch("k_2", at(IN), at(OUT)), Copy(at(OUT, 1), at(IN), BYTES), outputs=2)


def text(made: Program) -> list[str]:
    """The steps, one line each, of a program that is correct."""
    verify_program(made)
    return [step_text(made, step) for step in made.steps]


def step_text(made: Program, step: Step) -> str:
    match step:
        case Copy():
            return f"{step.target.text()} = {step.source.text()} * {step.nbytes}"
        case Fill():
            return f"{step.target.text()} = 0 * {step.nbytes}"
        case Loop() | Branch():
            inside = "; ".join(step_text(made, s) for steps in nested_steps(step) for s in steps)
            return f"{made.label(step)}: {step.symbol} {step.count} {{{inside}}}"
        case Launch():
            places = [a.text() for a in step.arguments if isinstance(a, Place)]
            return f"{made.label(step)}: {step.symbol} {' '.join(places)}"
        case _:
            raise AssertionError(f"no text of {step}")


def test_places_are_mapped_everywhere() -> None:
    moved = map_places(replace(SCALE, inputs=(ROW,) * 3), lambda p: replace(p, index=2) if p == at(IN) else p)
    assert text(moved) == ["scale: k_mul input2+0 prepared+4 constant+8 arena+0 output0+0"]
    assert moved.prepare == SCALE.prepare


def test_preparation_has_the_prepared_memory_as_its_output() -> None:
    made = preparation(SCALE)
    assert text(made) == ["scale: k_pack input1+0 output0+0"]
    assert [t.nbytes for t in made.outputs] == [64] and not made.prepare and not made.prepared_bytes


def test_parameters_are_bound_to_a_block() -> None:
    block = TensorType((192,), DType.U8)
    offsets = {(PREPARED, 0): 0, (CONSTANT, 0): 64, (IN, 1): 128}

    def moved(place: Place) -> int | None:
        offset = offsets.get((place.space, place.index))
        return None if offset is None else offset + place.offset

    made = bind(SCALE, {1}, moved, block)
    assert text(made) == ["scale: k_mul input0+0 input1+4 input1+72 arena+0 output0+0"]
    assert made.inputs == (ROW, block) and not made.parameters and not made.constants
    with pytest.raises(ValueError, match=r"replaces its parameters \[1\]"):
        bind(replace(SCALE, state=(1,)), {1}, lambda place: None, block)


def test_values_of_a_sequence_are_in_the_arena_or_in_outputs() -> None:
    uses = [Use(TWICE, (0,), (1,)), Use(TWICE, (1,), (2,)), Use(TWICE, (2,), (3,))]
    made = sequence("three", [ROW] * 4, 1, uses, [3, 2])
    assert text(made) == [
        "twice: k_2 input0+0 arena+0",
        "twice: k_2 arena+0 output1+0",
        "twice: k_2 output1+0 output0+0",
    ]
    assert made.arena_bytes == BYTES and made.code == (b"twice",)


def test_copies_of_values_are_left_out() -> None:
    """A copy remains for an output that is another value too, or an input."""
    uses = [Use(RETURN, (0,), (1, 2)), Use(RETURN, (2,), (3, 4))]
    made = sequence("copies", [ROW] * 5, 1, uses, [3, 4, 3])
    assert text(made) == [
        "return: k_2 input0+0 arena+0",
        "return: k_2 input0+0 output0+0",
        f"output1+0 = input0+0 * {BYTES}",
        f"output2+0 = output0+0 * {BYTES}",
    ]


def test_a_copy_before_a_launch_remains() -> None:
    """The launch overwrites what was copied."""
    early = program("early", Copy(at(OUT), at(ARENA), BYTES), launch("k_2", at(IN), at(ARENA)), arena_bytes=BYTES)
    assert text(sequence("early", [ROW] * 2, 1, [Use(early, (0,), (1,))], [1])) == [
        f"output0+0 = arena+0 * {BYTES}",
        "early: k_2 input0+0 arena+0",
    ]


def test_a_value_that_is_replaced_later_is_copied() -> None:
    """The second program replaces the input that the first returns: its old content is the result."""
    replaces = program("replaces", launch("k_inc", at(IN)), outputs=0, state=(0,))
    made = sequence("state", [ROW] * 3, 1, [Use(RETURN, (0,), (1, 2)), Use(replaces, (0,))], [1, 2])
    assert text(made) == [
        "return: k_2 input0+0 output0+0",
        f"output1+0 = input0+0 * {BYTES}",
        "replaces: k_inc input0+0",
    ]
    assert made.state == (0,)


def test_uses_of_a_program_share_its_memory_in_a_sequence() -> None:
    uses = [Use(SCALE, (0, 1), (2,)), Use(SCALE, (2, 1), (3,))]
    made = sequence("scales", [ROW] * 4, 2, uses, [3])
    assert text(made) == [
        "scale: k_pack input1+0 arena+192",
        "scale: k_mul input0+0 arena+196 constant+8 arena+64 arena+0",
        "scale: k_pack input1+0 arena+192",
        "scale: k_mul arena+0 arena+196 constant+8 arena+64 output0+0",
    ]
    assert made.arena_bytes == 256 and not made.parameters


def test_memory_of_a_program_that_holds_a_result_is_not_shared() -> None:
    inner = program("inner", launch("k_2", at(IN), at(ARENA)), Copy(at(OUT), at(ARENA), BYTES), arena_bytes=BYTES)
    uses = [Use(inner, (0,), (1,)), Use(inner, (1,), (2,)), Use(TWICE, (1,), (3,))]
    made = sequence("inner", [ROW] * 4, 1, uses, [2, 3])
    assert text(made) == [
        "inner: k_2 input0+0 arena+0",
        "inner: k_2 arena+0 arena+64",
        "twice: k_2 arena+0 output1+0",
        f"output0+0 = arena+64 * {BYTES}",
    ]


def test_programs_in_parallel_have_memory_of_their_own() -> None:
    compute = launch("k_a", at(IN, 1), at(ARENA), accesses=(reading(BYTES), writing(BYTES)))
    inner = program("inner", compute, Copy(at(IN), at(ARENA), BYTES), inputs=2, outputs=0)
    inner = replace(inner, arena_bytes=BYTES, state=(0,))
    short = program("short", launch("k_b", at(IN), accesses=(writing(BYTES),)), outputs=0, state=(0,))
    made = parallel("all", [ROW] * 4, [Use(inner, (0, 3)), Use(short, (1,)), Use(inner, (2, 3))])
    assert text(made) == [
        "inner: k_a input3+0 arena+0",
        "short: k_b input1+0",
        "inner: k_a input3+0 arena+64",
        f"input0+0 = arena+0 * {BYTES}",
        f"input2+0 = arena+64 * {BYTES}",
    ]
    assert made.groups == (3, 2) and made.state == (0, 1, 2)
