"""Programs in sequence: the values that they exchange, copies, shared memory, prepared values, threads."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import pytest
from mxforge.ir.dialects.core.builder import CoreBuilder
from mxforge.ir.graph import Value
from mxforge.ir.program import Program
from mxforge.ir.program_combination import Use, sequence
from mxforge.ir.types import DType, TensorType
from mxforge.ir.verifier import verify_program
from mxforge.runtime.compile import executable_for
from mxforge.runtime.host import executable as executables
from mxforge.runtime.host.executable import Executable

SHAPE = (3, 5)
MATRIX = TensorType(SHAPE, DType.F32)


def made(builder: CoreBuilder, *outputs: Value) -> Program:
    found = executable_for(builder.build(list(outputs)))
    assert isinstance(found, Executable)
    return found.program


def linked(uses: Sequence[Use], inputs: int, outputs: Sequence[int], types: Sequence[TensorType]) -> Executable:
    program = sequence("linked", types, inputs, uses, outputs)
    verify_program(program)
    return Executable(program)


@pytest.fixture(scope="module")
def add() -> Program:
    b = CoreBuilder("add")
    return made(b, b.add(b.input(MATRIX, "x"), b.input(MATRIX, "y")))


@pytest.fixture(scope="module")
def twice() -> Program:
    """x -> (x + x, x, x + x): two of the results are copies."""
    b = CoreBuilder("twice")
    x = b.input(MATRIX, "x")
    double = b.add(x, x)
    return made(b, double, x, double)


@pytest.fixture(scope="module")
def product() -> Program:
    """x, y -> x y; the second operand is packed, so there is memory of its own."""
    b = CoreBuilder("product")
    x, y = b.input(TensorType((40, 60), DType.F32), "x"), b.input(TensorType((60, 40), DType.F32), "y")
    return made(b, b.matmul(x, y))


def run(linked: Executable, inputs: Sequence[np.ndarray], shapes: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
    results = [np.full(shape, np.nan, np.float32) for shape in shapes]
    linked.run([a.ctypes.data for a in inputs], [r.ctypes.data for r in results])
    return results


def matrix(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape or SHAPE, np.float32)


def test_parts_exchange_values_and_copies_are_none(add: Program, twice: Program) -> None:
    parts = [Use(add, (0, 1), (2,)), Use(twice, (2,), (3, 4, 5)), Use(add, (3, 4), (6,)), Use(add, (5, 6), (7,))]
    program = linked(parts, 2, [7, 2, 4, 0, 7], [MATRIX] * 8)
    for seed in (0, 2):
        x, y = matrix(seed), matrix(seed + 1)
        total = x + y
        last = (total + total) + ((total + total) + total)
        for array, expected in zip(run(program, [x, y], [SHAPE] * 5), [last, total, total, x, last], strict=True):
            np.testing.assert_array_equal(array, expected)


def test_programs_share_scratch_memory() -> None:
    """Three products of different sizes, whose packed operands are in the arena."""
    uses: list[Use] = []
    types: list[TensorType] = [TensorType((40, 60), DType.F32)]
    for k, columns in enumerate((48, 96, 192)):
        b = CoreBuilder(f"product{k}")
        x, y = b.input(TensorType((40, 60), DType.F32), "x"), b.input(TensorType((60, columns), DType.F32), "y")
        uses.append(Use(made(b, b.matmul(x, y)), (0, k + 1), (k + 4,)))
        types.append(uses[-1].program.inputs[1])
    program = linked(uses, 4, [4, 5, 6], [*types, *(use.program.outputs[0] for use in uses)])
    arenas = [use.program.arena_bytes for use in uses]
    assert min(arenas) > 0
    x, *others = matrix(0, 40, 60), matrix(1, 60, 48), matrix(2, 60, 96), matrix(3, 60, 192)
    for _ in range(2):
        for found, y in zip(run(program, [x, *others], [(40, 48), (40, 96), (40, 192)]), others, strict=True):
            np.testing.assert_allclose(found, x @ y, rtol=1e-4, atol=1e-4)
    assert program.program.scratch_bytes == program.program.arena_bytes == max(arenas)


def test_values_that_no_part_computes_are_zero(add: Program) -> None:
    program = linked([Use(add, (0, 1), (2,)), Use(add, (2, 3), (4,))], 1, [4], [MATRIX] * 5)
    for seed in (0, 1):
        np.testing.assert_array_equal(run(program, [matrix(seed)], [SHAPE])[0], matrix(seed))


def test_parts_with_one_program_share_its_memory(product: Program) -> None:
    """Their own memory is used one after another; results equal those of separate runs."""
    x, y, z = matrix(0, 40, 60), matrix(1, 60, 40), matrix(2, 60, 40)
    parts = [Use(product, (0, 1), (3,)), Use(product, (0, 2), (4,))]
    program = linked(parts, 3, [3, 4], [*product.inputs, product.inputs[1], *product.outputs * 2])
    expected = [np.empty((40, 40), np.float32) for _ in range(2)]
    for result, right in zip(expected, (y, z), strict=True):
        Executable(product).run([x.ctypes.data, right.ctypes.data], [result.ctypes.data])
    for array, result in zip(run(program, [x, y, z], [(40, 40)] * 2), expected, strict=True):
        np.testing.assert_array_equal(array, result)


def test_what_depends_on_parameters_is_computed_in_each_run() -> None:
    b = CoreBuilder("weighted")
    b_x, b_w = b.input(MATRIX, "x"), b.input(MATRIX, "w", parameter=True)
    weighted = made(b, b.mul(b_x, b.exp(b_w)))
    program = linked([Use(weighted, (0, 1), (2,))], 2, [2], [MATRIX] * 3)
    x, w = matrix(0), matrix(1)
    for _ in range(2):
        np.testing.assert_allclose(run(program, [x, w], [SHAPE])[0], x * np.exp(w), rtol=1e-6)
        w += 1


def test_observers_see_the_launches_of_the_parts(add: Program, twice: Program) -> None:
    program = linked([Use(add, (0, 1), (2,)), Use(twice, (2,), (3, 4, 5))], 2, [3], [MATRIX] * 6)
    seen: list[str] = []
    executables.listen(
        lambda program, launch, start, end: seen.append(program.label(launch) if launch else program.name)
    )
    try:
        found = run(program, [matrix(0), matrix(1)], [SHAPE])
    finally:
        executables.listen(None)
    assert seen == ["add", "twice", "linked"]  # then the whole run
    np.testing.assert_array_equal(found[0], 2 * (matrix(0) + matrix(1)))


def test_threads_have_instances_of_their_own(add: Program) -> None:
    program = linked([Use(add, (0, 1), (2,)), Use(add, (2, 2), (3,))], 2, [3], [MATRIX] * 4)
    wrong: list[int] = []

    def work(seed: int) -> None:
        x, y = matrix(seed), matrix(seed + 10)
        for _ in range(50):
            if (run(program, [x, y], [SHAPE])[0] != 2 * (x + y)).any():
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
