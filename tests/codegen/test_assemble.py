"""Programs: prepare and run, packed parameters, constants, copies, state, memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from compiled import Array, check, compiled, launches_of, run_program
from mxforge.ir.dialects.core import CoreBuilder, evaluate_graph
from mxforge.ir.graph import Graph, Value
from mxforge.ir.program import PACK, Copy, Launch, Place, Program, Space
from mxforge.ir.scalar import ReduceOp
from mxforge.ir.types import DType
from mxforge.ir.verifier import verify_program
from mxforge.passes.manager import Options
from mxforge.runtime.host.executable import Executable
from rewriting import random_inputs, tensor

F32, BF16 = DType.F32, DType.BF16


def agrees(graph: Graph, tolerance: float = 1e-5) -> Program:
    """The program of a graph. Asserts that it verifies and agrees with the interpreter."""
    program = check(graph, *random_inputs(graph), tolerance=tolerance)
    verify_program(program)  # the driver verifies too if MXFORGE_VERIFY is set
    return program


def spaces(launch: Launch) -> list[str]:
    return [a.space.value for a in launch.arguments if isinstance(a, Place)]


def dense(b: CoreBuilder, x: Value, w: Value) -> Value:
    return b.dot(x, w, (), (), (1,), (1,))


# -- prepare and run


def test_values_that_depend_only_on_parameters_run_in_prepare() -> None:
    b = CoreBuilder()
    x, w = b.input(tensor(4)), b.input(tensor(4), parameter=True)
    program = agrees(b.build([b.add(x, b.sort(b.exp(w), 0)[0])]))
    assert len(program.prepare) == 2
    first, second = launches_of(program.prepare)
    assert spaces(first) == ["input", "arena"]  # no run reads exp(w): it is where a run has other values
    assert set(spaces(second)) == {"arena", "prepared"}
    assert [spaces(launch) for launch in program.launches] == [["input", "prepared", "output"]]


def test_prepare_runs_again_when_a_parameter_changed() -> None:
    b = CoreBuilder()
    x, w = b.input(tensor(4)), b.input(tensor(4), parameter=True)
    executable = Executable(compiled(b.build([b.add(x, b.sort(w, 0)[0])])))
    arrays = [np.zeros(4, np.float32), np.array([3, 1, 2, 0], np.float32)]
    out = np.empty(4, np.float32)
    found: list[list[float]] = []
    for version in (0, 0, 1):
        executable.run([a.ctypes.data for a in arrays], [out.ctypes.data], version)
        found.append(out.tolist())
        arrays[1] = np.array([7, 5, 6, 4], np.float32)
    assert found == [[0, 1, 2, 3], [0, 1, 2, 3], [4, 5, 6, 7]]


def test_parameters_are_packed_once() -> None:
    b = CoreBuilder()
    x, w = b.input(tensor(20, 64)), b.input(tensor(64, 64), parameter=True)
    y = b.tanh(dense(b, x, w))
    graph = b.build([dense(b, y, w)])
    for node in graph.nodes:
        node.name = f"node{graph.nodes.index(node)}"  # names make launches different, but not the packed parameters
    program = agrees(graph)
    packs = [launch for launch in launches_of(program.prepare) if launch.kind == PACK]
    assert len(packs) == 1
    assert not any(launch.kind == PACK for launch in program.launches)


def test_operands_that_are_not_parameters_are_packed_in_every_run() -> None:
    b = CoreBuilder()
    x, w = b.input(tensor(20, 64)), b.input(tensor(64, 64))
    program = agrees(b.build([dense(b, x, w)]))
    assert program.prepare == ()


def test_a_program_that_keeps_nothing_packs_parameters_in_the_run_in_one_place() -> None:
    b = CoreBuilder()
    x = y = b.input(tensor(64, 64))
    for _ in range(4):
        y = b.tanh(dense(b, y, b.input(tensor(64, 64), parameter=True)))
    graph = b.build([y, b.sort(b.input(tensor(9), parameter=True), 0)[0]])
    kept, program = (compiled(graph, Options(keeps_prepared=keeps)) for keeps in (True, False))
    verify_program(program)
    assert program.prepare == () and program.prepared_bytes == 0 and kept.prepared_bytes >= 4 * x.type.nbytes
    assert {n.kind for n in launches_of(kept.prepare)} | {PACK} == {n.kind for n in program.launches} - {
        n.kind for n in kept.launches
    }
    assert program.arena_bytes <= kept.arena_bytes + x.type.nbytes
    inputs = random_inputs(graph)
    for found, expected in zip(run_program(program, inputs), run_program(kept, inputs), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_packed_operands_live_only_during_their_step() -> None:
    """Two steps pack the same operand, and other values are live in between."""
    b = CoreBuilder()
    x, w = b.input(tensor(64, 64)), b.input(tensor(64, 64))
    first = b.tanh(dense(b, x, w))
    kept = [b.sort(b.mul(first, float(k)), 1)[0] for k in range(2, 6)]
    second = dense(b, b.tanh(kept[0]), w)
    total = second
    for value in kept:
        total = b.add(total, b.sort(value, 0)[0])
    agrees(b.build([total, second]), 1e-4)


# -- constants


def test_the_program_contains_constants_of_every_dtype() -> None:
    for dtype in (DType.F32, DType.F64, DType.F16, DType.I8, DType.I64, DType.U8):
        b = CoreBuilder()
        x = b.input(tensor(5, dtype=dtype))
        agrees(b.build([b.add(x, b.constant([1, 2, 3, 4, 5], dtype))]))


def test_constants_of_bfloat16_are_stored_as_bfloat16() -> None:
    """They were stored as the float32 numbers that represent them in NumPy."""
    b = CoreBuilder()
    x = b.input(tensor(5))
    table = b.constant([1.5, -2.0, 3.25, 1e30, 0.1], BF16)
    program = agrees(b.build([b.cast(b.add(b.cast(x, BF16), table), F32)]), 1e-2)
    assert len(program.constants) == 10


def test_constants_are_aligned_to_cache_lines() -> None:
    b = CoreBuilder()
    x = b.input(tensor(3))
    tables = [b.constant([float(k), 1.0, 2.0], F32) for k in range(3)]
    total = x
    for table in tables:
        total = b.mul(total, table)
    program = agrees(b.build([total]))
    places = [a for n in program.launches for a in n.arguments if isinstance(a, Place)]
    offsets = [p.offset for p in places if p.space is Space.CONSTANT]
    assert sorted(offsets) == [0, 64, 128]


# -- results that no launch computes


def test_results_that_are_inputs_or_constants_or_prepared_are_copied() -> None:
    b = CoreBuilder()
    x, w = b.input(tensor(2, 3)), b.input(tensor(4), parameter=True)
    prepared = b.sort(w, 0)[0]
    table = b.constant([5.0, 6.0], F32)
    program = agrees(b.build([x, b.reshape(x, (6,)), table, prepared, b.slice_axis(x, 0, 1, 2)]))
    assert [(c.target.index, c.source.space.value, c.source.offset) for c in program.copies] == [
        (0, "input", 0),
        (1, "input", 0),
        (2, "constant", 0),
        (3, "prepared", program.copies[3].source.offset),
        (4, "input", 12),
    ]
    assert program.launches == ()


def test_a_repeated_result_is_computed_once() -> None:
    b = CoreBuilder()
    y = b.exp(b.input(tensor(2, 3)))
    program = agrees(b.build([y, y, b.reshape(y, (6,))]))
    assert len(program.launches) == 1
    assert program.copies == tuple(Copy(Place(Space.OUTPUT, i), Place(Space.OUTPUT, 0), 24) for i in (1, 2))


def test_results_are_computed_in_the_callers_memory() -> None:
    b = CoreBuilder()
    x = b.input(tensor(2, 3))
    program = agrees(b.build([b.reshape(b.exp(x), (6,)), b.neg(x)]))
    assert program.copies == ()
    assert [spaces(n)[-1] for n in program.launches] == ["output", "output"]
    assert program.arena_bytes == 0


def test_part_of_a_value_is_copied_from_the_arena() -> None:
    b = CoreBuilder()
    y = b.sort(b.input(tensor(4, 3)), 1)[0]
    program = agrees(b.build([b.slice_axis(y, 0, 1, 3)]))
    (copy,) = program.copies
    written = program.launches[-1].arguments[1]
    assert isinstance(written, Place)
    assert copy == Copy(Place(Space.OUTPUT), Place(Space.ARENA, 0, written.offset + 12), 24)


# -- state


def with_state(b: CoreBuilder, results: Sequence[Value], new: dict[int, Value]) -> Program:
    """The program of a graph that updates some inputs. Asserts that it agrees with the interpreter."""
    b.updates = tuple(new)
    graph = b.build([*results, *new.values()])
    program = compiled(graph)
    verify_program(program)
    arrays = random_inputs(graph)
    expected = evaluate_graph(graph, [a.copy() for a in arrays])
    outputs = [np.empty(t.shape, t.dtype.numpy) for t in program.outputs]
    Executable(program).run([a.ctypes.data for a in arrays], [o.ctypes.data for o in outputs])
    for found, right in zip([*outputs, *(arrays[i] for i in new)], expected, strict=True):
        np.testing.assert_allclose(np.asarray(found), np.asarray(right), rtol=1e-5, atol=1e-6)
    return program


def test_state_is_updated_in_place() -> None:
    b = CoreBuilder()
    state, x = b.input(tensor(8)), b.input(tensor(8))
    program = with_state(b, [b.exp(x)], {0: b.add(state, x)})
    assert program.state == (0,) and len(program.outputs) == 1
    assert program.copies == () and program.arena_bytes == 0


def test_state_with_later_readers_is_copied_at_the_end() -> None:
    b = CoreBuilder()
    state, x = b.input(tensor(8)), b.input(tensor(8))
    new = b.add(state, b.reverse(state, (0,)))
    program = with_state(b, [b.sort(b.add(x, state), 0)[0], b.sort(b.mul(new, x), 0)[0]], {0: new})
    assert [(c.target.space, c.source.space) for c in program.copies] == [(Space.INPUT, Space.ARENA)]


def test_an_output_that_is_the_old_state_is_copied_before_it_is_replaced() -> None:
    b = CoreBuilder()
    state, x = b.input(tensor(8)), b.input(tensor(8))
    program = with_state(b, [state], {0: b.add(state, x)})
    assert [c.target.space for c in program.copies] == [Space.OUTPUT, Space.INPUT]


def test_states_that_are_swapped() -> None:
    b = CoreBuilder()
    first, second = b.input(tensor(8)), b.input(tensor(8))
    program = with_state(b, [b.add(first, second)], {0: second, 1: first})
    assert [c.target.space for c in program.copies] == [Space.ARENA, Space.ARENA, Space.INPUT, Space.INPUT]


# -- memory


def sorted_often(times: int) -> Program:
    b = CoreBuilder()
    y = b.input(tensor(1024))
    for _ in range(times):
        y = b.cumulative(ReduceOp.ADD, b.sort(y, 0, descending=True)[0], 0)
    return agrees(b.build([y]), 1e-3)


def test_the_arena_is_reused() -> None:
    assert sorted_often(3).arena_bytes == sorted_often(6).arena_bytes


def test_halos_stay_zero_between_runs() -> None:
    b = CoreBuilder()
    y = b.input(tensor(1, 16, 9, 9))
    for _ in range(3):
        w = b.input(tensor(16, 16, 3, 3), parameter=True)
        y = b.tanh(b.conv(y, b.mul(w, 0.1), (1, 1), ((1, 1), (1, 1))))
    agrees(b.build([y]), 1e-4)


def test_equal_steps_share_their_code() -> None:
    b = CoreBuilder()
    x = b.input(tensor(64))
    rows = [b.sort(b.exp(b.mul(x, float(k))), 0)[0] for k in (2, 3)]
    program = agrees(b.build([b.exp(b.sort(rows[0], 0)[0]), b.exp(b.sort(rows[1], 0)[0])]))
    symbols = [n.symbol for n in program.launches]
    assert len(set(symbols)) < len(symbols)


def test_an_empty_program_runs() -> None:
    b = CoreBuilder()
    graph = b.build([b.input(tensor(3))])
    arrays: list[Array] = [np.arange(3, dtype=np.float32)]
    assert np.array_equal(run_program(compiled(graph), arrays)[0], evaluate_graph(graph, arrays)[0])


def test_steps_share_the_packed_form_of_a_value() -> None:
    b = CoreBuilder("shared")
    x, y, w = (b.input(tensor(24, 24)) for _ in range(3))
    weights = b.exp(w)
    program = agrees(b.build([b.matmul(x, weights), b.matmul(y, weights)]))
    assert [launch.kind for launch in program.launches].count("pack") == 1
